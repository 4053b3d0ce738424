"""A model's program. It has few arguments: an argument costs JAX about a microsecond."""

import functools
import operator
from collections.abc import Callable, Mapping
from typing import TypeAlias

import jax
import numpy as np
from jax import Array

from dmlax._compile import compile_kernels, has_kernels
from dmlax._core.compat import DeviceArray
from dmlax.onnx.mesh import Arrays
from dmlax.onnx.weights import Param

Inputs: TypeAlias = Mapping[str, object]

_MOST_BYTES = 1 << 14  # of a constant


class CompiledModel:
    """Computes `apply(params, inputs)`, jitted.

    The params it is made with are flattened once. Small params of integers, as sums and biases, are
    constants of the program. For a GPU the kernels of that program are compiled in parallel.
    """

    def __init__(self, apply: Callable[..., Arrays], params: Mapping[str, Param]) -> None:
        self._apply = apply
        self._of_any_params = jax.jit(apply)
        self._names, self._params = tuple(params), tuple(params.values())
        leaves, self._tree = jax.tree.flatten(dict(params))
        is_held = [_is_constant(leaf) for leaf in leaves]
        self._constants = [
            np.asarray(x) if held else None for x, held in zip(leaves, is_held, strict=True)
        ]
        self._arguments = [x for x, held in zip(leaves, is_held, strict=True) if not held]
        self._of_these_params = jax.jit(self._compute)
        self._has_kernels_for: set[tuple[object, ...]] = set()  # shapes and dtypes of inputs

    def __call__(self, params: Mapping[str, Param], inputs: Inputs) -> Arrays:
        """Computes the outputs."""
        if not self._are_these(params):
            outputs: Arrays = self._of_any_params(params, inputs)
            return outputs
        if self._may_have_kernels:
            self._compile_kernels(inputs)
        outputs = self._of_these_params(self._arguments, inputs)
        return outputs

    @functools.cached_property
    def _may_have_kernels(self) -> bool:
        return has_kernels()

    def _compile_kernels(self, inputs: Inputs) -> None:
        """Compiles the kernels of the program for some inputs, once; JAX keeps what is lowered."""
        leaves = jax.tree.leaves(inputs)
        if not all(isinstance(x, DeviceArray | np.ndarray) for x in leaves):
            return  # a tracer: the call is a part of another program
        key = tuple((x.shape, x.dtype) for x in leaves)
        if key not in self._has_kernels_for:
            self._has_kernels_for.add(key)
            compile_kernels(self._of_these_params.lower(self._arguments, inputs))

    def _are_these(self, params: Mapping[str, Param]) -> bool:
        has_names = tuple(params) == self._names
        return has_names and all(map(operator.is_, params.values(), self._params))

    def _compute(self, arguments: list[Array], inputs: Inputs) -> Arrays:
        rest = iter(arguments)
        leaves = [next(rest) if constant is None else constant for constant in self._constants]
        return self._apply(jax.tree.unflatten(self._tree, leaves), inputs)


def _is_constant(leaf: jax.Array) -> bool:
    return leaf.nbytes <= _MOST_BYTES and np.issubdtype(leaf.dtype, np.integer)

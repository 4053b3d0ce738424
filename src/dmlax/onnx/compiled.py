"""A model's program. It has few arguments: an argument costs JAX about a microsecond."""

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import jax
import numpy as np
from jax import Array

from dmlax._compile import compile_kernels, has_kernels
from dmlax._core import compat
from dmlax.onnx.weights import Param

Inputs: TypeAlias = Mapping[str, object]
Arrays = dict[str, Array]

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
        self._constants = {i: np.asarray(x) for i, x in enumerate(leaves) if _is_constant(x)}
        self._arguments = [x for i, x in enumerate(leaves) if i not in self._constants]
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
        if not all(isinstance(x, compat.DeviceArray | np.ndarray) for x in leaves):
            return  # a tracer: the call is a part of another program
        key = tuple((x.shape, x.dtype) for x in leaves)
        if key not in self._has_kernels_for:
            self._has_kernels_for.add(key)
            compile_kernels(self._of_these_params.lower(self._arguments, inputs))

    def _are_these(self, params: Mapping[str, Param]) -> bool:
        has_names = tuple(params) == self._names
        return has_names and all(map(operator.is_, params.values(), self._params))

    def _compute(self, arguments: list[Array], inputs: Inputs) -> Arrays:
        leaves: list[Array | np.ndarray] = list(arguments)
        for i, constant in self._constants.items():
            leaves.insert(i, constant)
        return self._apply(jax.tree.unflatten(self._tree, leaves), inputs)


def _is_constant(leaf: jax.Array) -> bool:
    return leaf.nbytes <= _MOST_BYTES and np.issubdtype(leaf.dtype, np.integer)


def run_on_any_mesh(
    compute: Callable[[dict[str, Any]], Arrays],
    operands: dict[str, Any],
    inputs: Mapping[str, Array],
) -> Arrays:
    """Runs compute(operands), whose gathers need not say how results are split over a mesh.

    An output of the batch of the inputs is split as they are.

    Args:
      compute: returns tensors by name.
      operands: the params and the inputs.
      inputs: the inputs alone, whose first axis is the batch.
    """

    def partitions(operands: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        structs = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), operands)
        outputs = jax.eval_shape(compute, structs)
        return {name: _partition(output.shape, inputs) for name, output in outputs.items()}

    return compat.outside_explicit_mesh(compute, partitions, operands)


def _partition(shape: tuple[int, ...], inputs: Mapping[str, Array]) -> tuple[Any, ...]:
    """The mesh axes over which the axes of an output are split."""
    batches = (x for x in inputs.values() if x.ndim and shape and x.shape[0] == shape[0])
    axes = (compat.partition(x)[0] for x in batches)
    first = next((names for names in axes if names is not None), None)
    return (first, *(None,) * (len(shape) - 1)) if shape else ()

"""A model's program, which a call gives few arrays: JAX takes about a microsecond for each."""

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from dmlax._core.compat import DeviceArray
from dmlax._cuda import capability
from dmlax._cuda.kernels_of_program import compile_kernels

_MOST_BYTES = 1 << 14  # of a constant


class CompiledModel:
    """Computes `apply(params, inputs)`, jitted.

    The params it is made with are flattened once. Those that are small and of integers, as sums and
    biases, are constants of the program. For a GPU the kernels of that program are compiled side by
    side.
    """

    def __init__(self, apply: Callable[..., dict[str, Any]], params: Mapping[str, Any]) -> None:
        self._apply = apply
        self._of_any_params = jax.jit(apply)
        self._names, self._params = tuple(params), tuple(params.values())
        leaves, self._tree = jax.tree.flatten(dict(params))
        is_held = [_is_constant(leaf) for leaf in leaves]
        self._constants = [
            np.asarray(x) if held else None for x, held in zip(leaves, is_held, strict=True)
        ]
        self._given = [x for x, held in zip(leaves, is_held, strict=True) if not held]
        self._of_own_params = jax.jit(self._compute)
        self._has_kernels_for: set[Any] = set()  # shapes and dtypes of inputs

    def __call__(self, params: Mapping[str, Any], inputs: Any) -> dict[str, Any]:
        """Computes the outputs."""
        found: dict[str, Any]
        if self._are_own(params):
            if self._may_have_kernels:
                self._compile_kernels(inputs)
            found = self._of_own_params(self._given, inputs)
        else:
            found = self._of_any_params(params, inputs)
        return found

    @functools.cached_property
    def _may_have_kernels(self) -> bool:
        return capability.why_not("cuda") is None

    def _compile_kernels(self, inputs: Any) -> None:
        """Compiles the kernels of the program for some inputs, once; JAX keeps what is lowered."""
        leaves = jax.tree.leaves(inputs)
        if not all(isinstance(x, DeviceArray | np.ndarray) for x in leaves):
            return  # a tracer: the call is a part of another program
        key = tuple((x.shape, x.dtype) for x in leaves)
        if key not in self._has_kernels_for:
            self._has_kernels_for.add(key)
            compile_kernels(self._of_own_params.lower(self._given, inputs))

    def _are_own(self, params: Mapping[str, Any]) -> bool:
        same = tuple(params) == self._names
        return same and all(map(operator.is_, params.values(), self._params))

    def _compute(self, given: list[Any], inputs: Any) -> dict[str, Any]:
        rest = iter(given)
        leaves = [next(rest) if constant is None else constant for constant in self._constants]
        return self._apply(jax.tree.unflatten(self._tree, leaves), inputs)


def _is_constant(leaf: jax.Array) -> bool:
    return leaf.nbytes <= _MOST_BYTES and np.issubdtype(leaf.dtype, np.integer)

"""A model's program. It has few arguments: an argument costs JAX about a microsecond."""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax import Array

from dmlax._compile import compiler_options, compiling_kernels, has_kernels
from dmlax._core import compat, splitting
from dmlax.onnx.operators.values import native
from dmlax.onnx.weights import Param

Inputs: TypeAlias = Mapping[str, object]
Arrays = dict[str, Array]

_MOST_BYTES = 1 << 14  # the bytes of the largest constant
# A GPU computes few images while JAX takes a hundred arguments.
_MOST_BYTES_OF_FEW = 1 << 20  # the largest constant of a program for few images
_FEW = 1 << 23  # bytes of the inputs for few images


class _Program:
    """Computes `apply(params, inputs)`, jitted; params of integers up to a size are constants."""

    def __init__(
        self,
        apply: Callable[..., Arrays],
        params: Mapping[str, Param],
        most_bytes: int = _MOST_BYTES,
        options: dict[str, bool] | None = None,
    ) -> None:
        self._apply = apply
        leaves, self._tree = jax.tree.flatten(dict(params))
        self._constants = {
            i: np.asarray(x) for i, x in enumerate(leaves) if _is_constant(x, most_bytes)
        }
        self.arguments = [x for i, x in enumerate(leaves) if i not in self._constants]
        self.function = jax.jit(self._compute, compiler_options=options)

    def __call__(self, inputs: Inputs) -> Arrays:
        """Computes the outputs."""
        outputs: Arrays = self.function(self.arguments, inputs)
        return outputs

    def _compute(self, arguments: list[Array], inputs: Inputs) -> Arrays:
        leaves: list[Array | np.ndarray] = list(arguments)
        for i, constant in self._constants.items():
            leaves.insert(i, constant)
        return self._apply(jax.tree.unflatten(self._tree, leaves), inputs)


class CompiledModel:
    """Computes `apply(params, inputs)`, jitted.

    The params it is made with are flattened once. Small params of integers, as sums and biases, are
    constants of the program; for few images on a GPU larger ones, too. For a GPU the kernels of
    that program are compiled in parallel.
    """

    def __init__(self, apply: Callable[..., Arrays], params: Mapping[str, Param]) -> None:
        self._of_any_params = jax.jit(apply)
        self._names, self._params = tuple(params), tuple(params.values())
        self._program = _Program(apply, params)
        self._apply = apply
        self._has_kernels_for: set[tuple[object, ...]] = set()  # shapes and dtypes of inputs

    def __call__(self, params: Mapping[str, Param], inputs: Inputs) -> Arrays:
        """Computes the outputs."""
        if not self._are_these(params):
            outputs: Arrays = self._of_any_params(jax.tree.map(native, dict(params)), inputs)
            return outputs
        if self._takes_options:
            leaves: list[Any] = jax.tree.leaves(inputs)
            if all(isinstance(x, compat.DeviceArray | np.ndarray) for x in leaves):
                return self._call_apart(inputs, leaves)
        return self._program(inputs)

    @functools.cached_property
    def _has_kernels(self) -> bool:
        return has_kernels()

    @functools.cached_property
    def _takes_options(self) -> bool:
        return self._has_kernels or jax.default_backend() == "gpu"

    def _call_apart(self, inputs: Inputs, leaves: Sequence[Any]) -> Arrays:
        """Has threads compile any kernels of a new program; JAX keeps what is lowered.

        JAX takes the options of the compiler outside of other programs only.
        """
        program = self._for_few if sum(x.nbytes for x in leaves) <= _FEW else self._for_many
        if not self._has_kernels:
            return program(inputs)
        key = tuple((x.shape, x.dtype) for x in leaves)
        if key in self._has_kernels_for:
            return program(inputs)
        self._has_kernels_for.add(key)
        with compiling_kernels(lambda: program.function.lower(program.arguments, inputs)):
            return program(inputs)

    @functools.cached_property
    def _for_many(self) -> _Program:
        return self._make(_MOST_BYTES)

    @functools.cached_property
    def _for_few(self) -> _Program:
        return self._make(_MOST_BYTES_OF_FEW)

    def _make(self, most_bytes: int) -> _Program:
        params = dict(zip(self._names, self._params, strict=True))
        return _Program(self._apply, params, most_bytes, compiler_options())

    def _are_these(self, params: Mapping[str, Param]) -> bool:
        has_names = tuple(params) == self._names
        return has_names and all(map(operator.is_, params.values(), self._params))


def _is_constant(leaf: jax.Array, most_bytes: int) -> bool:
    return leaf.nbytes <= most_bytes and np.issubdtype(leaf.dtype, np.integer)


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

    return splitting.outside_explicit_mesh(compute, partitions, operands)


def _partition(shape: tuple[int, ...], inputs: Mapping[str, Array]) -> tuple[Any, ...]:
    """The mesh axes over which the axes of an output are split."""
    batches = (x for x in inputs.values() if x.ndim and shape and x.shape[0] == shape[0])
    axes = (splitting.partition(x)[0] for x in batches)
    first = next((names for names in axes if names is not None), None)
    return (first, *(None,) * (len(shape) - 1)) if shape else ()

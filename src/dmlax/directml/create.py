"""create_operator makes a checked desc a function of named tensors."""

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from dmlax._core.arguments import Aval, Rules, directml_name
from dmlax._descriptors import layout
from dmlax._descriptors.descs import BufferTensorDesc, OperatorDesc
from dmlax._descriptors.enums import FeatureLevel
from dmlax._descriptors.records import python_name, suggestion
from dmlax._operators.registry import SUPPORT
from dmlax.directml.validate import expect_valid
from dmlax.errors import Code, SpecError, UnsupportedError


class BindOrder(NamedTuple):
    """The names of a desc's tensors, in DirectML's order, without absent ones."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class CompiledOperator:
    """A function of named tensors, made by `create_operator`.

    Attributes:
      desc: the operator desc.
      feature_level: at which it was checked.
      bind_order: the names of its inputs and outputs, in DirectML's order.
    """

    def __init__(self, desc: OperatorDesc, feature_level: FeatureLevel) -> None:
        self.desc = desc
        self.feature_level = feature_level
        self.bind_order = _bind_order(desc, feature_level)
        self._run = _compile(desc, self.bind_order)
        inputs = [getattr(desc, name) for name in self.bind_order.inputs]
        avals = [Aval(tensor.dtype, tensor.shape) for tensor in inputs]
        self._expected = dict(zip(self.bind_order.inputs, avals, strict=True))

    def __call__(self, **tensors: ArrayLike) -> dict[str, Array]:
        """Runs the operator.

        Args:
          **tensors: every input of `bind_order` by its name: an array of the desc's sizes and data
            type, or, where strides are not packed, the flat buffer of
            TotalTensorSizeInBytes // element size elements.

        Returns:
          Every output of `bind_order` by its name, with the shape that an input of the same desc
          has. Elements of a flat buffer that no index reaches are 0.

        Raises:
          SpecError: code `missing_tensor`, `data_type` or `sizes` (the tensor); `value` for a scale
            in NumPy that is 0, NaN or infinite; `option` for a name that is no input.
        """
        if tensors.keys() != self._expected.keys():
            self._refuse_names(tensors)
        for name, tensor in tensors.items():
            aval = getattr(tensor, "dtype", None), getattr(tensor, "shape", None)
            if aval != self._expected[name]:
                self._refuse(name, tensor)
            if isinstance(tensor, np.ndarray) and name.endswith("scale_tensor"):
                scale = np.asarray(_read(getattr(self.desc, name), tensor))
                Rules(self.desc.operator).to_scale(directml_name(name), scale, scale.dtype)
        return dict(zip(self.bind_order.outputs, self._run(tensors), strict=True))

    def __repr__(self) -> str:
        inputs, outputs = map(", ".join, self.bind_order)
        return f"<{self.desc.operator} at {self.feature_level}: {inputs} -> {outputs}>"

    def _refuse_names(self, tensors: Collection[str]) -> None:
        for name in self._expected:
            if name not in tensors:
                self._fail("missing_tensor", name, "is missing")
        for name in tensors:
            if name not in self._expected:
                self._fail("option", name, f"is no input; {suggestion(name, self._expected)}")

    def _refuse(self, name: str, tensor: ArrayLike) -> None:
        expected = self._expected[name]
        if not hasattr(tensor, "dtype") or not hasattr(tensor, "shape"):
            self._fail("data_type", name, f"is a {type(tensor).__name__}, expected {expected}")
        text = f"is {Aval(tensor.dtype, tensor.shape)}, expected {expected}"
        if tensor.dtype != expected.dtype:
            self._fail("data_type", name, text)
        if tuple(tensor.shape) != expected.shape:
            is_packed = self.desc.tensors[directml_name(name)].is_packed
            reason = "" if is_packed else ", the flat buffer, as its Strides are not packed"
            self._fail("sizes", name, f"{text}{reason}")

    def _fail(self, code: Code, name: str, text: str) -> NoReturn:
        field = directml_name(name)
        raise SpecError(f"{self.desc.operator}: {field} {text}", code, field)


def create_operator(desc: OperatorDesc, *, feature_level: FeatureLevel) -> CompiledOperator:
    """Checks a desc as DirectML does, and makes it a function of named tensors.

    Everything is checked before anything runs: the feature level, every tensor's data type,
    dimension count, sizes, strides, byte size, alignment and flags, and the tensors against each
    other. Equal descs give the same operator: it neither builds nor traces twice.

    Args:
      desc: one of the operator descs of `dmlax.directml`.
      feature_level: a `FeatureLevel`; its support table decides.

    Returns:
      A `CompiledOperator`, which takes and returns named tensors, and works under `jax.jit` and
      `jax.vmap`.

    Raises:
      SpecError: the desc breaks a rule; `violations` holds every one. Its codes are those of
        `dmlax.errors.CODES`.
      UnsupportedError: the desc is valid, but has a data type or tensor that the function of the
        same name does not take.

    DirectML:
      IDMLDevice::CreateOperator and its compilation. Nothing is quantized, padded or broadcast
      that the desc does not say. Tensors that are OWNED_BY_DML are passed at the call, like the
      others: there is no initialisation to bind them at.

    Lowering:
      The function of the same name in `dmlax`, with implementation "auto".

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import directml
      >>> x = directml.BufferTensorDesc(data_type=directml.DataType.FLOAT32, sizes=(1, 1, 2, 4))
      >>> one = directml.BufferTensorDesc(data_type=directml.DataType.UINT32, sizes=(1, 1, 1, 1))
      >>> rows = directml.BufferTensorDesc(data_type=directml.DataType.UINT32, sizes=(1, 1, 8, 3))
      >>> desc = directml.NonzeroCoordinatesOperatorDesc(
      ...     input_tensor=x, output_count_tensor=one, output_coordinates_tensor=rows
      ... )
      >>> nonzero = directml.create_operator(desc, feature_level=directml.FeatureLevel.LEVEL_3_0)
      >>> image = jnp.float32([[[[1.0, 0.0, 0.0, 2.0], [-0.0, 3.5, 0.0, -5.2]]]])
      >>> outputs = nonzero(input_tensor=image)
      >>> outputs["output_count_tensor"].tolist()
      [[[[4]]]]
      >>> outputs["output_coordinates_tensor"][0, 0, :4].tolist()
      [[0, 0, 0], [0, 0, 3], [0, 1, 1], [0, 1, 3]]
    """
    try:
        return _create(desc, feature_level)
    except TypeError:  # unhashable, so no desc
        expect_valid(desc, feature_level)
        raise


@functools.lru_cache(maxsize=4096, typed=True)  # a level's value is no level
def _create(desc: OperatorDesc, feature_level: FeatureLevel) -> CompiledOperator:
    expect_valid(desc, feature_level)
    if why := SUPPORT[type(desc)].why_not(desc):
        raise UnsupportedError(f"{desc.operator}: {why}")
    return CompiledOperator(desc, feature_level)


def _bind_order(desc: OperatorDesc, feature_level: FeatureLevel) -> BindOrder:
    rows = SUPPORT[type(desc)].at(feature_level).rows
    present = [row for row in rows if row.tensor in desc.tensors]
    inputs = tuple(python_name(row.tensor) for row in present if not row.is_output)
    outputs = tuple(python_name(row.tensor) for row in present if row.is_output)
    return BindOrder(inputs, outputs)


@functools.lru_cache(maxsize=4096)
def _compile(
    desc: OperatorDesc, bind_order: BindOrder
) -> Callable[[Mapping[str, ArrayLike]], list[Array]]:
    """One jitted function for all feature levels."""

    def run(tensors: dict[str, Array]) -> list[Array]:
        logical = {name: _read(getattr(desc, name), value) for name, value in tensors.items()}
        outputs = zip(bind_order.outputs, SUPPORT[type(desc)].call(desc, logical), strict=True)
        return [_write(getattr(desc, name), output) for name, output in outputs]

    return jax.jit(run)


def _read(tensor: BufferTensorDesc, value: Any) -> Array:
    strides = tensor.strides or tensor.packed_strides
    return value if tensor.is_packed else layout.read(value, tensor.sizes, strides)


def _write(tensor: BufferTensorDesc, value: Array) -> Array:
    array, strides = value.reshape(tensor.sizes), tensor.strides or tensor.packed_strides
    return array if tensor.is_packed else layout.write(array, strides, tensor.buffer_elements)

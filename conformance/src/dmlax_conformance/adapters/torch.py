"""PyTorch on the CPU: its own operators, quantized ones where it has them."""

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from .base import Array, Case, Unsupported
from .common import (
    Library,
    axes_of,
    channels,
    of_product,
    one_value,
    parameter_shape,
    window_pairs,
    zero,
)

QUANTIZED = {"uint8": "quint8", "int8": "qint8", "int32": "qint32"}


class ProcessEndsError(Exception):
    """A call that would take the process with it."""


class Torch(Library):
    """`nonzero`, `matmul`, `conv1d` and `conv2d` of int32, and the quantized functions and tensors.

    A quantized tensor is made from the vector's integers, so nothing is rounded on the way in, and
    is padded with the zero point beforehand, since PyTorch pads both sides alike.
    """

    name = "torch"
    concurrent = False
    packages = ("torch",)
    refusals = (RuntimeError, TypeError, ValueError, IndexError)

    def __init__(self) -> None:
        """Import PyTorch."""
        self._torch: Any = import_module("torch")
        self._float: Any = import_module("torch.nn.functional")
        self._quantized: Any = import_module("torch.ao.nn.quantized.functional")
        super().__init__()

    def computed(self, call: Callable[..., Any], case: Case, variant: str) -> Any:
        """Call; the quantized tensors of PyTorch warn of their end."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(case).numpy()

    def nonzero_coordinates(self, case: Case) -> Any:
        """Return the rows."""
        return self._torch.nonzero(self._tensor(case.inputs["InputTensor"]))

    def convolution_integer(self, case: Case) -> Any:
        """Convolve in int32."""
        x, w = case.inputs["InputTensor"], case.inputs["FilterTensor"]
        filters = zero(case, "FilterZeroPointTensor", w.dtype).reshape(-1, *[1] * (w.ndim - 1))
        zero_point = one_value(zero(case, "InputZeroPointTensor", x.dtype))
        x_less, w_less = (
            self._tensor(array).to(self._torch.int32) - self._tensor(point).to(self._torch.int32)
            for array, point in ((x, zero_point), (w, filters))
        )
        return _function(self._float, x.ndim)(
            self._padded(case, x_less, 0), w_less, **_windows(case)
        )

    def matrix_multiply_integer(self, case: Case) -> Any:
        """Multiply in int32."""
        a, b = (
            self._tensor(case.inputs[f"{name}Tensor"]).to(self._torch.int32)
            - self._tensor(of_product(case, name, zero(case, f"{name}ZeroPointTensor", np.int8)))
            for name in "AB"
        )
        return self._torch.matmul(a, b)

    def quantized_linear_convolution(self, case: Case) -> Any:
        """Convolve quantized tensors."""
        given = case.inputs
        if 0 in (*case.attributes["Strides"], case.attributes["GroupCount"]):
            raise ProcessEndsError("it divides by a stride or a group count of 0: SIGFPE")
        if case.outputs["OutputTensor"].dtype != "uint8":
            raise Unsupported("a quantized convolution of PyTorch gives uint8")
        x, scale = self._tensor(given["InputTensor"]), given["InputScaleTensor"].item()
        zero_point = zero(case, "InputZeroPointTensor", given["InputTensor"].dtype).item()
        held = self._made(self._padded(case, x, zero_point), scale, zero_point)
        bias = given.get("BiasTensor")
        if bias is not None:
            bias = channels(bias).reshape(-1) * (scale * channels(given["FilterScaleTensor"]))
            bias = self._tensor(bias).to(self._torch.float32)
        result = _function(self._quantized, x.ndim)(
            held,
            self._filter(case),
            bias,
            scale=given["OutputScaleTensor"].item(),
            zero_point=zero(case, "OutputZeroPointTensor", np.uint8).item(),
            **_windows(case),
        )
        return result.int_repr()

    def _filter(self, case: Case) -> Any:
        """Return the quantized filter, by one scale or along its first axis."""
        w = case.inputs["FilterTensor"]
        scale = channels(case.inputs["FilterScaleTensor"])
        zero_point = channels(zero(case, "FilterZeroPointTensor", w.dtype))
        if scale.ndim == zero_point.ndim == 0:
            return self._made(self._tensor(w), scale.item(), zero_point.item())
        scale, zero_point = np.broadcast_arrays(scale, zero_point)
        parameters = self._tensor(scale), self._tensor(zero_point)
        return self._torch._make_per_channel_quantized_tensor(self._tensor(w), *parameters, 0)

    def max_pooling(self, case: Case) -> Any:
        """Pool in 32-bit floats, which hold every byte, after padding by the lowest value."""
        x = case.inputs["InputTensor"]
        if x.ndim not in (3, 4, 5):
            raise Unsupported(f"PyTorch has no pooling of {x.ndim} dimensions")
        if 0 in (*case.attributes["Strides"], *case.attributes["Dilations"]):
            raise ProcessEndsError("it divides by 0")
        padded = self._padded(case, self._tensor(x), np.iinfo(x.dtype.name).min)
        pool = getattr(self._float, f"max_pool{x.ndim - 2}d")
        window, stride = case.attributes["WindowSize"], case.attributes["Strides"]
        dilation = case.attributes["Dilations"]
        largest = pool(padded.to(self._torch.float32), window, stride, dilation=dilation)
        return largest.to(self._tensor(x).dtype)

    def element_wise_quantize_linear(self, case: Case) -> Any:
        """Quantize by one value or along an axis."""
        axis, scale, zero_point = self._parameters(case, case.outputs["OutputTensor"].dtype)
        x = self._tensor(case.inputs["InputTensor"])
        dtype = getattr(self._torch, QUANTIZED.get(case.outputs["OutputTensor"].dtype, ""), None)
        if dtype is None:
            raise Unsupported("PyTorch has no quantized tensors of this data type")
        if axis is None:
            made = self._torch.quantize_per_tensor(x, scale.item(), zero_point.item(), dtype)
        else:
            made = self._torch.quantize_per_channel(
                x, self._tensor(scale), self._tensor(zero_point), axis, dtype
            )
        return made.int_repr()

    def element_wise_dequantize_linear(self, case: Case) -> Any:
        """Dequantize by one value or along an axis."""
        x = case.inputs["InputTensor"]
        if case.inputs["ScaleTensor"].dtype != np.float32:
            raise Unsupported("PyTorch dequantizes to float32 alone")
        axis, scale, zero_point = self._parameters(case, x.dtype)
        if axis is None:
            return self._made(self._tensor(x), scale.item(), zero_point.item()).dequantize()
        return self._torch._make_per_channel_quantized_tensor(
            self._tensor(x), self._tensor(scale), self._tensor(zero_point), axis
        ).dequantize()

    def element_wise_quantized_linear_add(self, case: Case) -> Any:
        """Add quantized tensors."""
        return self._binary(case, self._torch.ops.quantized.add)

    def element_wise_quantized_linear_multiply(self, case: Case) -> Any:
        """Multiply quantized tensors."""
        return self._binary(case, self._torch.ops.quantized.mul)

    def _binary(self, case: Case, function: Any) -> Any:
        """Give PyTorch two tensors of one type, as it wants them, and the output's parameters."""
        dtypes = {case.inputs[f"{name}Tensor"].dtype.name for name in ("A", "B")}
        if dtypes | {case.outputs["OutputTensor"].dtype} not in ({"uint8"}, {"int8"}):
            raise Unsupported("PyTorch adds and multiplies quantized tensors of one type")
        a, b = (
            self._made(self._tensor(case.inputs[f"{name}Tensor"]), *self._of_one(case, name))
            for name in "AB"
        )
        return function(a, b, *self._of_one(case, "Output")).int_repr()

    def _of_one(self, case: Case, name: str) -> tuple[float, int]:
        point = zero(case, f"{name}ZeroPointTensor", np.uint8)
        return case.inputs[f"{name}ScaleTensor"].item(), point.item()

    def quantized_lookup(self, case: Case) -> Any:
        """Take entries."""
        x, table = (self._tensor(case.inputs[f"{name}Tensor"]) for name in ("Input", "Table"))
        return self._torch.take(table, x.to(self._torch.int64) - self._torch.iinfo(x.dtype).min)

    def _parameters(self, case: Case, dtype: Any) -> tuple[int | None, Array, Array]:
        """Return scale and zero point as PyTorch takes them, and their axis if they have one."""
        x, scale = case.inputs["InputTensor"], case.inputs["ScaleTensor"]
        zero_point = zero(case, "ZeroPointTensor", dtype)
        shape = parameter_shape(x, (scale, zero_point))
        axes = [] if shape is None else axes_of(shape)
        if shape is None or len(axes) > 1:
            raise Unsupported("PyTorch quantizes by one value, or along one axis")
        if not axes:
            return None, scale, zero_point
        length = (shape[axes[0]],)
        scale, zero_point = (channels(array) for array in (scale, zero_point))
        return axes[0], np.broadcast_to(scale, length), np.broadcast_to(zero_point, length)

    def _padded(self, case: Case, x: Any, value: int) -> Any:
        pairs = [width for pair in reversed(window_pairs(case)) for width in pair]
        return self._float.pad(x, pairs, value=value)

    def _made(self, x: Any, scale: float, zero_point: int) -> Any:
        return self._torch._make_per_tensor_quantized_tensor(x, scale, zero_point)

    def _tensor(self, array: Array) -> Any:
        return self._torch.from_numpy(np.array(array))


def _function(module: Any, rank: int) -> Any:
    """Return the convolution of a batch with this rank."""
    if rank not in (3, 4, 5):
        raise Unsupported(f"PyTorch has no convolution of {rank} dimensions")
    return getattr(module, f"conv{rank - 2}d")


def _windows(case: Case) -> dict[str, Any]:
    fields = {"stride": "Strides", "dilation": "Dilations", "groups": "GroupCount"}
    return {keyword: case.attributes[field] for keyword, field in fields.items()}

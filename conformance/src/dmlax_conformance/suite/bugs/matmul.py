"""The three matrix products in steps, each of which a bug can replace."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

import numpy as np

from ...operators._shared import floats
from ...operators._shared.floats import Real
from .convolution import Scales, exact_rescale, total, without, wrapped
from .rounding import Rounding
from .steps import Array, Call, Outputs, Sizes, fractions, reals

NO_POINT = np.zeros((), np.int8)


def promote(a: Array, b: Array) -> tuple[Array, Array]:
    """Take an operand of rank 1 for one row of A, or for one column of B."""
    return a[None, :] if a.ndim == 1 else a, b[:, None] if b.ndim == 1 else b


def align(parameter: Array, rank: int) -> Array:
    """Return a parameter without leading ones beyond a rank; one value has no axes."""
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter.reshape(parameter.shape[max(parameter.ndim - rank, 0) :])


def pair_batches(a: Array, b: Array) -> tuple[Array, Array]:
    """Repeat the matrices of both operands to one batch."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    pairs = (np.broadcast_to(each, (*batch, *each.shape[-2:])) for each in (a, b))
    first, second = pairs
    return first, second


def squeeze(whole: Array, a_rank: int, b_rank: int) -> Array:
    """Drop the axes that operands of rank 1 do not have."""
    narrow = whole[..., 0] if b_rank == 1 else whole
    if a_rank > 1:
        return narrow
    return narrow[..., 0] if b_rank == 1 else narrow[..., 0, :]


@dataclass(frozen=True)
class Products:
    """The steps of the integer sums, in order; the sums keep the axes of operands of rank 1."""

    promote: Callable[[Array, Array], tuple[Array, Array]] = promote
    centre_a: Callable[[Array, Array], Array] = without
    centre_b: Callable[[Array, Array], Array] = without
    pair: Callable[[Array, Array], tuple[Array, Array]] = pair_batches
    total: Callable[[Array], Array] = total
    wrap: Callable[[Array], Array] = wrapped

    def __call__(self, call: Call) -> Array:
        """Return the 32-bit sums as {..., M, N}."""
        a, b = self.promote(call.inputs["ATensor"], call.inputs["BTensor"])
        zero_a, zero_b = (call.inputs.get(f"{name}ZeroPointTensor", NO_POINT) for name in "AB")
        a = self.centre_a(a, align(zero_a, a.ndim))
        b = self.centre_b(b, align(zero_b, b.ndim))
        a, b = self.pair(a, b)
        products = a[..., None] * b[..., None, :, :]
        rows = prod(products.shape[:-2])
        found = self.total(products.reshape(rows, *products.shape[-2:]))
        return self.wrap(found.reshape(*products.shape[:-2], products.shape[-1]))


def ranks(call: Call) -> tuple[int, int]:
    """Return the ranks of both operands."""
    return call.inputs["ATensor"].ndim, call.inputs["BTensor"].ndim


def spread(call: Call, name: str, sizes: Sizes) -> Array:
    """Repeat a parameter to all sums."""
    own = call.inputs.get(name, NO_POINT)
    return np.broadcast_to(align(own, len(sizes)), sizes)


@dataclass(frozen=True)
class StoreSums:
    """The sums are the output."""

    squeeze: Callable[[Array, int, int], Array] = squeeze

    def __call__(self, sums: Array, call: Call) -> Outputs:
        """Return the sums as INT32."""
        return {"OutputTensor": self.squeeze(sums, *ranks(call)).astype(np.int32)}


def add_bias(sums: Array, bias: Array) -> Array:
    """Add a bias that repeats to the output; nothing wraps."""
    return np.asarray(sums + bias.astype(np.int64))


@dataclass(frozen=True)
class Requantize:
    """The steps from sums to the quantized output, in order."""

    squeeze: Callable[[Array, int, int], Array] = squeeze
    bias: Callable[[Array, Array], Array] = add_bias
    rescale: Callable[[int, Scales], Real] = exact_rescale
    rounding: Rounding = field(default_factory=Rounding)

    def __call__(self, sums: Array, call: Call) -> Outputs:
        """Return the quantized output."""
        names = ("AScaleTensor", "BScaleTensor", "OutputScaleTensor")
        scales = zip(*(fractions(spread(call, name, sums.shape)) for name in names), strict=True)
        points = spread(call, "OutputZeroPointTensor", sums.shape).reshape(-1).tolist()
        output = self.squeeze(sums, *ranks(call))
        if "BiasTensor" in call.inputs:
            output = self.bias(output, call.inputs["BiasTensor"])
        dtype = call.outputs["OutputTensor"].dtype
        rows = zip(output.reshape(-1).tolist(), scales, points, strict=True)
        found = [self.rounding(self.rescale(each, own), zero, dtype) for each, own, zero in rows]
        return {"OutputTensor": np.array(found, dtype).reshape(output.shape)}


def scale_and_add(total: int, scales: tuple[Fraction, Fraction], bias: Real, dtype: str) -> Real:
    """Return sum * scale of A * scale of B + bias in real arithmetic."""
    product = total * scales[0] * scales[1]
    return floats.exactly(product + bias.value) if bias.kind == "finite" else bias


@dataclass(frozen=True)
class ToFloat:
    """The steps from sums to a float output, in order."""

    squeeze: Callable[[Array, int, int], Array] = squeeze
    spread_bias: Callable[[Array, Sizes], Array] = np.broadcast_to
    combine: Callable[[int, tuple[Fraction, Fraction], Real, str], Real] = scale_and_add
    encode: Callable[[Real, str], int] = floats.encode

    def __call__(self, sums: Array, call: Call) -> Outputs:
        """Return the output, rounded once."""
        names, dtype = ("AScaleTensor", "BScaleTensor"), call.outputs["OutputTensor"].dtype
        scales = zip(*(fractions(spread(call, name, sums.shape)) for name in names), strict=True)
        output = self.squeeze(sums, *ranks(call))
        bias = call.inputs.get("BiasTensor", np.zeros((), dtype))
        addends = reals(self.spread_bias(bias, output.shape))
        rows = zip(output.reshape(-1).tolist(), scales, addends, strict=True)
        found = [
            self.encode(self.combine(each, (sa, sb), addend, dtype), dtype)
            for each, (sa, sb), addend in rows
        ]
        bits = np.array(found, f"uint{8 * np.dtype(dtype).itemsize}")
        return {"OutputTensor": bits.view(dtype).reshape(output.shape)}

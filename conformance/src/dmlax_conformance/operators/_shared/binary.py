"""The meaning of an operator on two quantized tensors that broadcast."""

from collections.abc import Callable
from fractions import Fraction

from ...format.tensors import Tensor
from . import floats
from .call_rules import Inputs, Outputs
from .element_wise import broadcast
from .floats import Real, exactly
from .rounding import rounded

Combine = Callable[[Fraction, Fraction], Fraction]


def quotients(combine: Combine, inputs: Inputs) -> list[tuple[Real, int]]:
    """Return the exact quotient of each element of the output, and its zero point."""
    a, b = inputs["ATensor"], inputs["BTensor"]
    sizes = broadcast_sizes(a.sizes, b.sizes)
    (sa, za), (sb, zb), (sy, zy) = (parameters(inputs, name) for name in ("A", "B", "Output"))
    pairs = list(zip(broadcast(a, sizes), broadcast(b, sizes), strict=True))
    found = {
        (x, y): (exactly(combine((x - za) * sa, (y - zb) * sb) / sy), zy) for x, y in set(pairs)
    }
    return [found[pair] for pair in pairs]


def binary(combine: Combine, inputs: Inputs, outputs: Outputs) -> dict[str, Tensor]:
    """Return the combined real numbers, quantized with one rounding."""
    dtype = outputs["OutputTensor"].dtype
    sizes = broadcast_sizes(inputs["ATensor"].sizes, inputs["BTensor"].sizes)
    return {"OutputTensor": Tensor(dtype, sizes, rounded(quotients(combine, inputs), dtype))}


def parameters(inputs: Inputs, name: str) -> tuple[Fraction, int]:
    """Return the scale and the zero point of a tensor; a missing one is 0."""
    scale, zero_point = inputs[f"{name}ScaleTensor"], inputs.get(f"{name}ZeroPointTensor")
    value = floats.decode(scale.words[0], scale.dtype).value
    return value, 0 if zero_point is None else zero_point.words[0]


def broadcast_sizes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes to which both repeat; they align on the right, and sizes of 1 repeat."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    return tuple(y if x == 1 else x for x, y in pairs)

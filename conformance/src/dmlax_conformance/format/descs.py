"""Tensor descs as JSON, and the buffers that they describe."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import layout
from .layout import ELEMENT_BITS
from .tensors import Tensor, count

Desc = Mapping[str, Any]

WIDTHS = {"float": (16, 32, 64), "int": (8, 16, 32, 64), "uint": (8, 16, 32, 64)}
DATA_TYPES = {
    f"{kind}{bits}": f"{kind}{bits}".upper() for kind, widths in WIDTHS.items() for bits in widths
}
DTYPES = {name: dtype for dtype, name in DATA_TYPES.items()}


def tensor_desc(
    data_type: str,
    sizes: Sequence[int],
    strides: Sequence[int] | None = None,
    size_in_bytes: int | None = None,
    flags: str = "NONE",
    alignment: int = 0,
) -> dict[str, Any]:
    """Return a tensor desc, by default packed and as small as it can be."""
    steps = layout.packed_strides(sizes) if strides is None else strides
    known = data_type if data_type in ELEMENT_BITS else "FLOAT32"
    least = layout.minimum_bytes(known, sizes, steps)
    return {
        "DataType": data_type,
        "Flags": flags,
        "DimensionCount": len(sizes),
        "Sizes": list(sizes),
        "Strides": None if strides is None else list(strides),
        "TotalTensorSizeInBytes": least if size_in_bytes is None else size_in_bytes,
        "GuaranteedBaseOffsetAlignment": alignment,
    }


def buffer(desc: Desc, tensor: Tensor, poison: int = 0) -> Tensor:
    """Return what the desc's buffer holds for a call's tensor: itself, or itself and a filling."""
    sizes = layout.array_sizes(desc)
    filling = (poison,) * (count(sizes) - len(tensor.words))
    return Tensor(tensor.dtype, sizes, tensor.words + filling, tensor.made_by)


def scatter(desc: Desc, words: Iterable[int], poison: int) -> Tensor:
    """Return the buffer with these elements in their places, and poison in the gaps."""
    if layout.is_packed(desc):
        return Tensor(DTYPES[desc["DataType"]], tuple(desc["Sizes"]), tuple(words))
    held = [poison] * layout.buffer_length(desc)
    taken: dict[int, int] = {}
    for offset, word in zip(_offsets(desc), words, strict=True):
        assert taken.setdefault(offset, word) == word, f"two values at offset {offset}"
        held[offset] = word
    return Tensor(DTYPES[desc["DataType"]], layout.array_sizes(desc), tuple(held))


def gather(desc: Desc, tensor: Tensor) -> Tensor:
    """Return the elements of a buffer, in the desc's sizes."""
    if layout.is_packed(desc):
        return tensor
    words = tuple(tensor.words[offset] for offset in _offsets(desc))
    return Tensor(tensor.dtype, tuple(desc["Sizes"]), words)


def _offsets(desc: Desc) -> list[int]:
    return layout.offsets(desc["Sizes"], layout.strides_of(desc))

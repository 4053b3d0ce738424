"""Operator descs as JSON: building them, expressing calls as descs, filling buffers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .oracle import desc_tables, layout
from .oracle.descs import violations
from .tensors import Tensor, count
from .vectors import Request

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
    known = data_type if data_type in desc_tables.ELEMENT_BITS else "FLOAT32"
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


def express(
    operator: str,
    attributes: Mapping[str, Any],
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Request],
) -> dict[str, Any]:
    """Return the desc of a functional call; it may be one that no feature level accepts.

    Every tensor is packed, but a parameter that repeats gets the strides of 0 that mean so.
    """
    tensors: dict[str, Any] = dict.fromkeys(desc_tables.tensors(operator))
    image = inputs["InputTensor"].sizes
    for name, tensor in inputs.items():
        is_repeated = operator.startswith("element_wise") and tensor.sizes != image
        tensors[name] = _repeated(tensor, image) if is_repeated else _packed(tensor)
    tensors |= {name: _packed(asked) for name, asked in outputs.items()}
    windows = dict(attributes)
    if windows:
        windows = {"DimensionCount": len(image) - 2, **windows}
    return {name: {**tensors, **windows}[name] for name in desc_tables.fields(operator)}


def feature_levels(operator: str, desc: Desc) -> tuple[str, ...]:
    """Return the levels that accept the desc, lowest first."""
    return tuple(level for level in desc_tables.LEVELS if not violations(operator, desc, level))


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


def tensor_descs(operator: str, desc: Desc, kind: str) -> dict[str, Desc]:
    """Return the input or output tensors that are there."""
    rows = desc_tables.rows(operator, desc_tables.LEVELS[-1])
    names = (row.tensor for row in rows if row.is_output == (kind == "outputs"))
    return {name: desc[name] for name in names if desc[name] is not None}


def needs(operator: str, desc: Desc) -> set[str]:
    """Return the capabilities that a vector with this desc requires."""
    tensors = (desc[name] for name in desc_tables.tensors(operator) if desc[name] is not None)
    is_strided = any(not layout.is_packed(tensor) for tensor in tensors)
    return {"descriptors", "strides"} if is_strided else {"descriptors"}


def _offsets(desc: Desc) -> list[int]:
    return layout.offsets(desc["Sizes"], layout.strides_of(desc))


def _packed(tensor: Tensor | Request) -> dict[str, Any]:
    """Describe a packed tensor; a type without a name in DirectML is UNKNOWN."""
    return tensor_desc(DATA_TYPES.get(tensor.dtype, "UNKNOWN"), tensor.sizes)


def _repeated(tensor: Tensor, sizes: Sequence[int]) -> dict[str, Any]:
    """Describe a tensor that repeats to these sizes, which align on the right."""
    missing = len(sizes) - len(tensor.sizes)
    own = layout.packed_strides(tensor.sizes)
    pairs = zip(tensor.sizes, own, strict=True)
    strides = [0] * missing + [step if size > 1 else 0 for size, step in pairs]
    return tensor_desc(DATA_TYPES[tensor.dtype], sizes, strides)

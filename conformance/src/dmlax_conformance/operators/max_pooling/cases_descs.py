"""MAX_POOLING2 by descs: floats and indices, too, which the function does not take."""

from collections.abc import Iterator, Mapping

from .._shared.pooling_cases import windows
from .._shared.pooling_descs import FULL, NO_ELEMENTS, Descs
from .._shared.strided_descs import of_parameters
from .._shared.tables import Row
from ..desc_topics import Call, DescTopic, dashed
from .cases import OPERATOR

__all__ = ["NO_ELEMENTS", "PACKED", "SMALL", "add_survivors", "at_ranks", "topics", "typed"]

DESCS = Descs(OPERATOR, False, "MAX-3")
SMALL = DESCS.make(is_bare=True)
PACKED = DESCS.make(is_bare=True, dtype="float32")  # of every level


def at_ranks(ranks: Mapping[str, int], is_bare: bool) -> Call:
    """Return a call whose tensors have these dimension counts, in a data type of every level."""
    return DESCS.make(ranks["InputTensor"], is_bare=is_bare, dtype="float32")


def typed(lines: Mapping[str, Row]) -> dict[str, Call]:
    """Return calls that have, among them, every data type of a table."""
    types, indices = (
        sorted(each.lower() for each in lines[name].data_types)
        for name in ("InputTensor", "OutputIndicesTensor")
    )
    made = {dtype: DESCS.make(dtype=dtype, is_bare="float" not in dtype) for dtype in types}
    for dtype in indices[1:]:
        made[f"{types[0]}-{dtype}"] = DESCS.make(dtype=types[0], indices=dtype)
    return made


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    topic = DescTopic(OPERATOR, "desc-windows")
    DESCS.refuse_windows(topic)
    for name, sizes in {"width": [1, 2, 2, 1], "channels": [1, 1, 2, 2]}.items():
        text, changed = f"the indices have sizes {sizes}", {"OutputIndicesTensor": sizes}
        topic.refuse(f"indices-{name}", text, FULL, "indices-sizes", changed)
    text = "the indices have 5 dimensions, the input 4"
    changed = {"OutputIndicesTensor": [1, 2, 2, 2, 1]}
    topic.refuse("indices-rank-5", text, FULL, "same-dimension-count", changed)
    made = topic.made(FULL).described("OutputTensor", data_type="INT8")
    text, rule = "OutputTensor is INT8, InputTensor is not", "output-data-type"
    topic.refused("desc-output-type", text, FULL, rule, "OutputTensor", made)
    yield topic
    topic = DescTopic(OPERATOR, "desc-levels")
    DESCS.add_windows(topic, "3_0", "6_4")
    text, rule, types = "INT8 tensors", "tensor-data-type", DESCS.make(dtype="int8", is_bare=True)
    topic.step("int8", text, types, ("2_1", "3_0"), rule, "InputTensor")
    text, types = "INT16 tensors", DESCS.make(dtype="int16", is_bare=True)
    topic.step("int16", text, types, ("4_1", "5_0"), rule, "InputTensor")
    text, types = "indices of UINT64", DESCS.make(indices="uint64")
    topic.step("indices-uint64", text, types, ("4_1", "5_0"), rule, "OutputIndicesTensor")
    for level in ("2_1", "3_0"):
        for dtype in ("float32", "float16"):
            made_of = DESCS.make(options=WIDE, dtype=dtype, channels=3, images=2)
            name = f"desc-indices-{dashed(level)}-{dtype}"
            text = f"indices of the first largest element, {dtype}, at {level}"
            topic.accepted(name, text, made_of, level, "MAX-7", "Level")
    for dtype in ("int8", "uint8"):
        made_of = DESCS.make(5, dtype=dtype)
        text = f"indices of the first largest element, {dtype}"
        topic.accepted(f"desc-indices-{dtype}", text, made_of, clause="MAX-7", flags="Level")
    yield topic
    yield DESCS.strides()
    yield of_parameters(OPERATOR, {"plain": DESCS.make(), "wide": DESCS.make(options=WIDE)})


WIDE = windows((2, 2), start=(1, 1), end=(1, 1))


def add_survivors(topic: DescTopic, base: str) -> None:
    """Add descs for planted bugs that survived all other vectors."""
    groups = ("InputTensor", "OutputTensor"), ("OutputIndicesTensor",)
    DESCS.add_survivors(topic, base, *groups, wrong="FLOAT64")

"""QUANTIZED_LINEAR_AVERAGE_POOLING by descs."""

from collections.abc import Iterator, Mapping

from ...format.tensors import Tensor
from .._shared.convolution_cases import parameter, scale_words
from .._shared.pooling_descs import NO_ELEMENTS, Descs
from .._shared.pooling_rules import PARAMETERS, TYPES
from .._shared.strided_descs import of_parameters
from .._shared.tables import Row
from ..desc_topics import Call, DescTopic, dashed
from .cases import OPERATOR

__all__ = ["NO_ELEMENTS", "PACKED", "SMALL", "add_survivors", "at_ranks", "topics", "typed"]

FULL = "desc-parameters-full"
DESCS = Descs(OPERATOR, True, "AVG-10")
PACKED = SMALL = DESCS.make(is_bare=True)


def at_ranks(ranks: Mapping[str, int], is_bare: bool) -> Call:
    """Return a call whose tensors have these dimension counts."""
    return DESCS.make(ranks["InputTensor"], ranks["InputScaleTensor"], is_bare)


def typed(lines: Mapping[str, Row]) -> dict[str, Call]:
    """Return calls that have, among them, every data type of a table."""
    return {dtype: DESCS.make(dtype=dtype) for dtype in ("uint8", "int8")}


def topics() -> Iterator[DescTopic]:
    """Yield the files of this module."""
    topic = DescTopic(OPERATOR, "desc-windows")
    DESCS.refuse_windows(topic)
    yield topic
    topic, made = DescTopic(OPERATOR, "desc-parameters"), DESCS.make()
    topic.accepted(FULL, "the twin: every tensor is present", made, flags="Optional")
    for field, pair in TYPES.items():
        wrong = {"INT8": "UINT8", "UINT8": "INT8"}[made.desc[pair]["DataType"]]
        text, short = f"{field} is {wrong}, {pair} is not", dashed(field)
        changed = made.described(field, data_type=wrong)
        topic.refused(f"desc-{short}-type", text, FULL, f"{short}-data-type", field, changed)
    for field in PARAMETERS:
        for name, sizes in WRONG.items():
            text, short = f"{field} has sizes {sizes}", dashed(field)
            rule = f"{short}-channels"
            topic.refuse(f"{short}-{name}", text, FULL, rule, {field: sizes})
    for rank in (1, 3, 5):
        text = f"parameters of rank {rank} for tensors of rank 4"
        own, clause = DESCS.make(4, rank), "tensor-dimension-count"
        topic.accepted(f"desc-parameters-{rank}", text, own, clause=clause, flags="PerChannel")
    DESCS.add_windows(topic, "6_2")
    yield topic
    topic = DESCS.strides()
    for field in PARAMETERS:
        text, full = f"{field} in every third place", DESCS.make()
        topic.add(f"{dashed(field)}-apart", text, full, **{field: (6, 3, 1, 1)})
    zeros = dict.fromkeys(PARAMETERS, (0, 0, 0, 0))
    given = {**made.inputs, **{name: _repeated(name) for name in PARAMETERS}}
    text = "each parameter one value, repeated by a stride of 0"
    repeated = DESCS.pool(given, _options(made))
    topic.add("repeated", text, repeated, **zeros)
    yield topic
    yield of_parameters(OPERATOR, {"plain": DESCS.make()})


WRONG = {"3": [1, 3, 1, 1], "axis-0": [2, 1, 1, 1], "axis-3": [1, 1, 1, 2]}


def _options(made: Call) -> dict[str, object]:
    names = "WindowSize Strides Dilations StartPadding EndPadding"
    return {name: made.desc[name] for name in names.split()}


def _repeated(name: str) -> Tensor:
    """Return one value for both channels."""
    if "Scale" in name:
        return scale_words([0x3F000000] * 2)
    return parameter([9, 9], "uint8" if name.startswith("Input") else "int8")


def add_survivors(topic: DescTopic, base: str) -> None:
    """Add descs for planted bugs that survived all other vectors."""
    groups = [(pair, field) for field, pair in TYPES.items()]
    DESCS.add_survivors(topic, base, *groups)
    # A parameter of one value has a rank that its line does not list.
    twin, made = "desc-kills-one-value", DESCS.make(4, 1)
    one = {n: t if len(t.sizes) > 1 else _first(t) for n, t in made.inputs.items()}
    made = DESCS.pool(one, _options(made))
    topic.accepted(twin, "the twin: parameters of one value", made)
    for field in PARAMETERS:
        rule, text = "tensor-dimension-count", f"{field} has six sizes of 1"
        topic.refuse(f"{dashed(field)}-rank-6", text, twin, rule, {field: [1] * 6}, "Invalid Row")


def _first(tensor: Tensor) -> Tensor:
    return Tensor(tensor.dtype, (1,), tensor.words[:1])

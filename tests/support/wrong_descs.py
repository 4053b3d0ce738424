"""Descs, and arguments in place of one, with a mistake that no vector of the suite has."""

from collections.abc import Callable, Iterator

from dmlax import directml
from support.cases import directml as cases
from support.cases.directml import Fields
from support.wrong_calls import Refused

LEVEL_3_0, LEVEL_6_4 = directml.FeatureLevel.LEVEL_3_0, directml.FeatureLevel.LEVEL_6_4
I, D = "convolution_integer", "element_wise_dequantize_linear"  # noqa: E741
N, IMAGE = "nonzero_coordinates", cases.nonzero()
Q, A = "quantized_linear_convolution", "quantized_linear_average_pooling"
# operator, its valid desc of some rank, parameters, their elements
PARAMETERS: list[tuple[str, Callable[[int], Fields], str, int]] = [
    (Q, lambda rank: cases.quantized(parameter_rank=rank), "FilterScale FilterZeroPoint", 6),
    (I, lambda rank: cases.integer(parameter_rank=rank), "FilterZeroPoint", 6),
    (A, lambda rank: cases.averaged(), "InputScale InputZeroPoint OutputScale OutputZeroPoint", 3),
]
EDITS: list[tuple[str, Fields, str, Fields]] = [  # the broken rule excuses other rules
    (D, cases.dequantize((2, 3)), "ZeroPointTensor", {"Sizes": [2**16, 2**16], "Strides": [0, 0]}),
    (N, IMAGE, "InputTensor", {"DataType": "UNKNOWN", "TotalTensorSizeInBytes": 2**30}),
    (N, IMAGE, "InputTensor", {"Sizes": [1, 0, 2, 4], "TotalTensorSizeInBytes": 0}),
    (N, IMAGE, "InputTensor", {"Sizes": [2**16, 2**16], "TotalTensorSizeInBytes": 2**34}),
    (N, IMAGE, "OutputCountTensor", {"Strides": [0], "TotalTensorSizeInBytes": 0}),
]
BUFFER = directml.BufferTensorDesc(data_type=directml.DataType.INT8, sizes=(1,))
NOT_DESCS = [IMAGE, BUFFER, None, directml.NonzeroCoordinatesOperatorDesc]
NOT_LEVELS = ["3_0", "LEVEL_3_0", 0x3000, 3.0, None, [], directml.DataType.FLOAT32]


def wrong_descs() -> Iterator[Refused]:
    """Parameters of fewer axes and another size, `EDITS`, no desc and no level."""
    for operator, fields, names, count in PARAMETERS:
        for sizes in ([count - 1], [count, count], [1, count - 1, 1]):
            for name in names.split():
                edit = {"Sizes": sizes}
                yield _desc(operator, fields(len(sizes)), f"{name}Tensor", edit)
    for operator, valid, name, edit in EDITS:
        yield _desc(operator, valid, name, edit)
    for entry in (directml.validate, directml.create_operator):
        for wrong in NOT_DESCS:
            yield _entry(entry, type(wrong).__name__, wrong, LEVEL_3_0)
        desc = cases.made(N, IMAGE)
        entry(desc, feature_level=LEVEL_3_0)  # no later call may take the level's value for it
        for level in NOT_LEVELS:
            yield _entry(entry, f"feature_level={level!r}", desc, level)


def _desc(operator: str, fields: Fields, name: str, edit: Fields) -> Refused:
    """An operator's desc with an edited tensor, at the last level."""
    desc = cases.made(operator, cases.edited(fields, **{name: edit}))
    text = ", ".join(f"{field}={value}" for field, value in edit.items())
    key = f"{cases.NAMES[operator]}.{name}, {text}"
    return _entry(directml.create_operator, key, desc, LEVEL_6_4)


def _entry(entry: Callable[..., object], text: str, desc: object, level: object) -> Refused:
    return Refused(f"{entry.__name__}({text})", lambda _: entry(desc, feature_level=level), {})

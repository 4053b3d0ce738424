"""Thousands of descs, valid and broken: the library and the suite's checker agree on each."""

import copy
from collections import Counter
from math import prod

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlax import SpecError, directml
from dmlax._operators.registry import SUPPORT
from dmlax_conformance.oracle.descriptors import violations
from support.cases.directml import (
    DESCS,
    LEVELS,
    VALID,
    elementwise,
    integer,
    level,
    levels,
    made,
    nonzero,
    packed,
    quantized,
)

EXAMPLES = [300, pytest.param(1500, marks=pytest.mark.slow)]  # descs of each operator
BYTES = ["INT8", "UINT8"]
DATA_TYPES = list(directml.DataType.__members__)
FIRST = {operator: SUPPORT[cls].introduced.name[6:] for operator, cls in DESCS.items()}
WINDOW = ["Strides", "Dilations", "StartPadding", "EndPadding"]


# --- valid ones ---------------------------------------------------------------------------


def of(*choices):
    return st.sampled_from(choices)


def rows(operator, at):
    """The table's rows, by tensor."""
    return {row.tensor: row for row in SUPPORT[DESCS[operator]].at(level(at)).rows}


def ranks(row):
    return st.integers(*row.dimension_counts)


def names(row):
    return st.sampled_from([each.name for each in row.data_types])


def draw_sizes(draws, rank, high=4):
    return [draws(st.integers(1, high if rank < 5 else 2)) for _ in range(rank)]


@st.composite
def nonzeros(draws, at):
    table = rows("nonzero_coordinates", at)
    rank = draws(ranks(table["InputTensor"]))
    sizes = draw_sizes(draws, rank)
    for axis in range(draws(st.integers(0, rank))):
        sizes[axis] = 1
    kept = rank - next((axis for axis, size in enumerate(sizes) if size > 1), rank)
    same = at in levels("3_0", "3_1")
    return nonzero(
        sizes,
        draws(names(table["InputTensor"])),
        count_rank=rank if same else draws(ranks(table["OutputCountTensor"])),
        rank=rank if same else draws(ranks(table["OutputCoordinatesTensor"])),
        width=draws(st.integers(max(kept, 1), rank)),
    )


@st.composite
def convolutions(draws, operator, at):
    table = rows(operator, at)
    rank = draws(ranks(table["InputTensor"]))
    groups, channels = draws(st.integers(1, 3)), draws(st.integers(1, 3))
    filters = groups * draws(st.integers(1, 3))
    spatial = range(rank - 2)
    options = {
        name: [draws(st.integers(low, low + 2)) for _ in spatial]
        for name, low in zip(WINDOW, (1, 1, 0, 0), strict=True)
    }
    kernel = [draws(st.integers(1, 3)) for _ in spatial]
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, options["Dilations"], strict=True)]
    image = [span + draws(st.integers(0, 3)) for span in spans]
    input = [draws(st.integers(1, 2)), groups * channels, *image]
    filter = [filters, channels, *kernel]
    x, w, y = (draws(st.sampled_from(BYTES)) for _ in range(3))
    ranked = {
        "parameter_rank": draws(ranks(table["InputZeroPointTensor"])),
        "per_channel": draws(st.booleans()),
        "optional": draws(st.booleans()),
    }
    if operator == "convolution_integer":
        fields = integer(input, filter, data_types=(x, w), **ranked, **options)
    else:
        ranked["scale_rank"] = draws(ranks(table["FilterScaleTensor"]))
        fields = quantized(input, filter, data_types=(x, w, y), **ranked, **options)
        # the parameters need not have one rank
        for name in ("InputScaleTensor", "OutputScaleTensor", "OutputZeroPointTensor"):
            if fields[name] is not None:
                fields[name]["Sizes"] = [1] * draws(ranks(table[name]))
    for name, row in table.items():
        if row.kind == "Optional input" and draws(of(False, False, True)):
            fields[name] = None
    return fields


@st.composite
def elements(draws, operator, at):
    table = rows(operator, at)
    sizes = draw_sizes(draws, draws(ranks(table["InputTensor"])))
    input = draws(names(table["InputTensor"]))
    if operator == "element_wise_quantize_linear":
        scale = "FLOAT32" if input == "INT32" else input
        output = zero_point = draws(names(table["OutputTensor"]))
    else:
        scale = output = draws(names(table["ScaleTensor"]))
        zero_point = input
    if table["ZeroPointTensor"].kind == "Optional input" and draws(st.booleans()):
        zero_point = None
    return elementwise(sizes, input, scale, zero_point, output)


def draw_strides(draws, sizes, is_output):
    """None, packed, permuted with gaps; for inputs also repeated and arbitrary."""
    kind = draws(of(*("none", "none", "packed", "nested"), *["free"] * (not is_output)))
    if kind == "none":
        return None
    if kind == "packed":
        return packed(sizes)
    if kind == "free":
        return [draws(st.integers(0, 20)) for _ in sizes]
    strides, reach = [0] * len(sizes), 0
    for axis in draws(st.permutations(range(len(sizes)))):
        strides[axis] = reach + draws(st.integers(1, 3))
        reach += (sizes[axis] - 1) * strides[axis]
    return strides


@st.composite
def valid(draws, operator):
    """A level that has the operator, and a desc in full that holds there."""
    at = draws(st.sampled_from(levels(FIRST[operator])))
    if operator == "nonzero_coordinates":
        fields = draws(nonzeros(at))
    elif operator.startswith("element"):
        fields = draws(elements(operator, at))
    else:
        fields = draws(convolutions(operator, at))
    for name, row in rows(operator, at).items():
        tensor = fields[name]
        if tensor is not None and draws(st.booleans()):
            is_output = row.kind == "Output"
            tensor["Strides"] = draw_strides(draws, tensor["Sizes"], is_output)
            tensor["Flags"] = "NONE" if is_output else draws(of("NONE", "OWNED_BY_DML"))
            tensor["GuaranteedBaseOffsetAlignment"] = draws(of(0, 4, 16, 256, 2**31))
            least = directml.BufferTensorDesc.from_dict(tensor).minimum_size_in_bytes
            tensor["TotalTensorSizeInBytes"] = least + draws(of(0, 4, 1, 100))
    return at, made(operator, fields).to_dict()


# --- broken ones --------------------------------------------------------------------------


@st.composite
def broken(draws, operator):
    """A valid one with a change; a few changes leave it valid."""
    at, fields = draws(valid(operator))
    fields = copy.deepcopy(fields)
    tensors = [name for name, value in fields.items() if isinstance(value, dict)]
    convolves = "GroupCount" in fields
    change = draws(of("tensor", "tensor", "tensor", "absent", "level", *["option"] * 2 * convolves))
    if change == "tensor":
        break_tensor(draws, fields[draws(st.sampled_from(tensors))])
    elif change == "absent":
        fields[draws(st.sampled_from(tensors))] = None
    elif change == "level":
        at = draws(st.sampled_from(LEVELS))
    else:
        break_option(draws, fields)
    return at, fields


def break_tensor(draws, tensor):
    sizes, strides = tensor["Sizes"], tensor["Strides"]
    axes = st.integers(0, len(sizes) - 1)
    change = draws(
        of("size", "huge", "rank", "count", "type", "strides", "bytes", "room", "align", "flags")
    )
    if change == "size":
        axis = draws(axes)
        sizes[axis] = draws(of(0, sizes[axis] + 1, sizes[axis] - 1, sizes[axis] + 7))
        refit(tensor)
    elif change == "huge":
        sizes[draws(axes)] = draws(of(2**32 - 1, 2**31, 2**16))
        refit(tensor)
    elif change == "rank":
        grown = draws(of(sizes[1:], [1, *sizes], [*sizes, 1], [1] * 9, [prod(sizes)], []))
        tensor["Sizes"], tensor["DimensionCount"] = list(grown), len(grown)
        tensor["Strides"] = None if strides is None else packed(grown)
        refit(tensor)
    elif change == "count":
        tensor["DimensionCount"] = draws(st.integers(0, 9))
    elif change == "type":
        tensor["DataType"] = draws(st.sampled_from(DATA_TYPES))
        refit(tensor)
    elif change == "strides":
        length = len(sizes) + draws(of(0, 0, 0, 1, -1))
        tensor["Strides"] = [draws(st.integers(0, 6)) for _ in range(length)]
        refit(tensor)
    elif change == "bytes":
        least = directml.BufferTensorDesc.from_dict(tensor).minimum_size_in_bytes
        tensor["TotalTensorSizeInBytes"] = max(0, least - draws(of(1, 3, 4, least)))
    elif change == "room":
        tensor["TotalTensorSizeInBytes"] = draws(of(2**32 - 1, 2**32, 2**33, 2**34, 2**64 - 1))
    elif change == "align":
        tensor["GuaranteedBaseOffsetAlignment"] = draws(of(1, 2, 3, 6, 8, 24, 2**32 - 1))
    else:
        tensor["Flags"] = "OWNED_BY_DML"


def refit(tensor):
    """Gives a changed tensor the bytes that it needs, as far as there are so many."""
    rest = {key: value for key, value in tensor.items() if key != "TotalTensorSizeInBytes"}
    least = directml.BufferTensorDesc.from_dict(rest).minimum_size_in_bytes
    tensor["TotalTensorSizeInBytes"] = min(max(least, 0), 2**64 - 1)


def break_option(draws, fields):
    name = draws(of(*WINDOW, "DimensionCount", "GroupCount"))
    if name in WINDOW:
        values = fields[name]
        changes = [values[1:], [*values, 1], [0] * len(values), [v + 9 for v in values]]
        changes += [[v + 1 for v in values], [2**32 - 1] * len(values)]
        fields[name] = draws(st.sampled_from(changes))
    elif name == "GroupCount":
        fields[name] = draws(of(0, 1, fields[name] + 1, fields[name] * 2, 2**32 - 1))
    else:
        fields[name] = draws(of(0, 1, 2, 3, 2**32 - 1))


# --- both sides ---------------------------------------------------------------------------


def judged(operator, at, fields):
    """The library's violations, those of `from_dict` too."""
    try:
        desc = made(operator, fields)
    except SpecError as error:
        found = error.violations
    else:
        found = directml.validate(desc, feature_level=level(at))
    return [tuple(each[:3]) for each in found]


def counted(strategy, examples, check):
    """Runs a check over drawn descs, and counts what it says of each.

    They are the same descs in every run: the counts of others may be small.
    """
    counts = Counter()

    @hypothesis.settings(max_examples=examples, print_blob=False, derandomize=True)
    @given(strategy)
    def run(drawn):
        counts[check(*drawn)] += 1

    run()
    return counts


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("operator", VALID)
def test_valid_descs_are_accepted_by_both(operator, examples):
    support, seen = SUPPORT[DESCS[operator]], set()

    def check(at, fields):
        assert list(violations(operator, fields, at)) == []
        assert judged(operator, at, fields) == []
        seen.add(support.at(level(at)))
        return "accepted"

    assert counted(valid(operator), examples, check)["accepted"] >= examples
    assert len(seen) == len(support.tables)


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("operator", VALID)
def test_broken_descs_are_refused_by_both(operator, examples):
    seen = Counter()

    def check(at, fields):
        theirs = [tuple(each) for each in violations(operator, fields, at)]
        ours = judged(operator, at, fields)
        assert bool(ours) == bool(theirs)
        if fields_agree(fields):
            assert set(ours) <= set(theirs)  # the library leaves consequences out
        if len(ours) == len(theirs) == 1:
            assert ours == theirs
            seen["single"] += 1
        seen.update(rule for rule, _, _ in ours[:1])
        return "refused" if ours else "accepted"

    assert counted(broken(operator), examples, check)["refused"] >= examples // 2
    assert seen["single"] >= examples // 8
    assert sum(rule.startswith("tensor-") for rule in seen) >= 8
    assert len(seen) >= 10


def fields_agree(fields):
    """True if every DimensionCount is the number of Sizes: otherwise there is no record."""
    tensors = [value for value in fields.values() if isinstance(value, dict)]
    return all(tensor["DimensionCount"] == len(tensor["Sizes"]) for tensor in tensors)

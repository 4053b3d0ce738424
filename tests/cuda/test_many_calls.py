"""The random calls for a GPU: by `xla` here, and that they find a wrong result."""

from collections import Counter

import pytest

from cuda import many_calls
from support.calls import binary as binary_calls
from support.calls import matmul as matmul_calls


def test_every_set_of_values_of_an_eager_call_is_compared(monkeypatch):
    monkeypatch.setattr(many_calls, "SETS", 3)
    counts = Counter()
    assert not list(many_calls.mismatches("binary", "xla", True, range(2), counts))
    assert counts == dict.fromkeys(binary_calls.OPERATORS, 3)


def test_a_wrong_result_of_a_jitted_call_is_found(monkeypatch):
    expected = binary_calls.Call.expected
    monkeypatch.setattr(binary_calls.Call, "expected", lambda call: expected(call) ^ 1)
    monkeypatch.setattr(many_calls, "SETS", 2)
    lines = list(many_calls.mismatches("binary", "xla", False, range(1, 2), Counter()))
    assert [line.partition(":")[0] for line in lines] == ["seed 1, values 0", "seed 1, values 1"]


@pytest.mark.parametrize(
    ("kind", "is_of_it"),
    [("in_flight", lambda tile: tile.in_flight), ("spans", lambda tile: tile.spans > 1)],
)
def test_calls_of_any_size_take_forced_tiles(lowered, monkeypatch, kind, is_of_it):
    from dmlax._operators.convolution.cuda import kernel as of_convolutions
    from dmlax._operators.matmul.cuda import kernel as of_products

    for each in (of_products, of_convolutions):
        monkeypatch.setattr(each, "choose_schedule", each.choose_schedule)
    many_calls.force_tiles(kind)
    forced, taken = of_products.choose_schedule, []
    monkeypatch.setattr(
        of_products, "choose_schedule", lambda *x: taken.append(forced(*x)) or taken[-1]
    )
    seeds = (70, 71) if kind == "in_flight" else (72, 73)
    for seed in seeds:  # no other test lowers these shapes
        lowered(lambda call: call("mosaic_gpu"), matmul_calls.call(seed))
    assert taken
    assert all(is_of_it(schedule.tile) for schedule in taken)
    assert of_convolutions.choose_schedule is forced

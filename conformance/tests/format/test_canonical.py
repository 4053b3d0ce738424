"""Canonical JSON says the same thing, always in the same way."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dmlax_conformance.format.canonical import WIDTH, Layout, dumps

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=40)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=60,
)


@given(values)
@settings(deadline=None, max_examples=60)
def test_keeps_the_value_and_is_stable(value: Any) -> None:
    text = dumps(value)
    assert json.loads(text) == value
    assert dumps(json.loads(text)) == text
    assert text.endswith("\n")


def test_keys_have_an_order_and_long_lists_are_filled() -> None:
    assert dumps({"zebra": 1, "id": 2, "apple": 3}) == '{"id": 2, "apple": 3, "zebra": 1}\n'
    lines = dumps({"data": list(range(100))}).splitlines()
    assert lines[1] == '  "data": ['
    assert len(lines) < 10
    assert max(map(len, lines)) <= WIDTH


def test_a_layout_names_what_stays_on_its_line() -> None:
    long = list(range(WIDTH))
    value = {"attributes": {"Strides": long}, "tensor": {"dtype": "int8", "data": long}}
    lines = dumps(value, Layout(("dtype",), ("attributes",))).splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ["{", '"attributes"', '"tensor"', "}"]
    assert len(dumps(value).splitlines()) > len(lines)

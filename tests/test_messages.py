"""Every message is the snapshot's, however the call is made: see `renew_messages.py`."""

from functools import cache

import jax
import numpy as np
import pytest

from dmlax.errors import CODES
from dmlax_conformance.adapters.dmlax import WIDE
from dmlax_conformance.oracle.fixed_point import FIELD
from renew_messages import (
    SNAPSHOT,
    difference,
    lines,
    read,
    refusal,
    rules,
    signatures,
    vector_calls,
    written,
)
from support import suite
from support.wrong_calls import VALID, wrong_calls
from support.wrong_descs import wrong_descs

TEXT = SNAPSHOT.read_text(encoding="utf-8")
MESSAGES = read(TEXT)


def batched(array):
    """One more leading axis, which `vmap` takes off."""
    return np.broadcast_to(array, (2, *array.shape))


WAYS = {
    "JAX arrays": lambda call: lambda arrays: call(jax.device_put(arrays)),
    "jit": jax.jit,
    "vmap": lambda call: lambda arrays: jax.vmap(call)(jax.tree.map(batched, arrays)),
    "eval_shape": lambda call: lambda arrays: jax.eval_shape(call, arrays),
}
FUNCTIONS = [*VALID, "directml"]


@cache
def invalid():
    """The invalid vectors, by id; `test_conformance.py` has those of `dmlax.reproducible`."""
    vectors = [vector for vector in suite() if not vector.operator.startswith("exact_")]
    return {vector.id: vector for vector in vectors if not vector.is_valid}


@cache
def calls(function):
    """A function's refused calls: of its invalid vectors, and of values that only Python has."""
    vectors = [vector for vector in invalid().values() if vector.operator == function]
    others = wrong_descs() if function == "directml" else wrong_calls(function)
    return [*vector_calls(vectors), *others]


def check(chosen, way=lambda call: call):
    """Compares the messages of calls with the snapshot, as `renew_messages.py` does."""
    ways = [refused._replace(call=way(refused.call)) for refused in chosen]
    current = {refused.key: lines(refusal(refused)) for refused in ways}
    expected = {key: MESSAGES.get(key, []) for key in current}
    if change := difference(written(expected), written(current)):
        pytest.fail(change, pytrace=False)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_messages_are_those_of_the_snapshot(function):
    check(calls(function))


@pytest.mark.parametrize("step", [3 * len(WAYS), pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("function", VALID)
@pytest.mark.parametrize("way", WAYS)
def test_messages_are_the_same_however_a_call_is_made(way, function, step):
    """By default every way takes some of the calls."""
    arrays = [call for call in calls(function) if is_traceable(call.arrays.values())]
    check(arrays[list(WAYS).index(way) % step :: step], WAYS[way])


def is_traceable(arrays):
    """True with an array to trace, and without one that is large or that JAX narrows."""
    return arrays and all(x.dtype.name not in WIDE and x.size < 2**24 for x in arrays)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_error_has_the_code_and_the_field_of_its_message(function):
    for refused in calls(function):
        error, (line, *_) = refusal(refused), MESSAGES[refused.key]
        assert error.code in CODES
        assert line.startswith(f"{error.code} ")
        assert f": {error.field}" in line or error.field == "implementation"
        if vector := invalid().get(refused.key):
            code, field = vector.expect[:2]
            assert error.code == code
            assert error.field == (FIELD.lower() if field == FIELD else field)  # of no desc


def test_the_snapshot_has_every_refused_call_signature_and_rule():
    keys = {refused.key for function in FUNCTIONS for refused in calls(function)}
    others = rules() | signatures()
    assert MESSAGES.keys() == keys | others.keys()
    assert others.items() <= MESSAGES.items()
    assert {vector.operator for vector in invalid().values()} <= VALID.keys()
    assert written(MESSAGES) == TEXT

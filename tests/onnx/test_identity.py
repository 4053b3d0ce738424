"""Maps whose keys are compared by identity."""

import gc
import weakref

import numpy as np

from dmlax.onnx.identity import IdentityMap


def test_equal_arrays_are_different_keys():
    first, second = np.zeros(2), np.zeros(2)
    names = IdentityMap([(first, "first"), (second, "second")])
    names[first] = "other"
    assert [names[first], names[second], len(names)] == ["other", "second", 2]
    del names[first]
    assert first not in names
    assert names.get(second) == "second"


def test_a_key_stays_alive_so_that_no_object_takes_its_place():
    array = np.zeros(2)
    names, kept = IdentityMap([(array, "array")]), weakref.ref(array)
    del array
    gc.collect()
    assert kept() is not None
    assert [names[key] for key in names] == ["array"]

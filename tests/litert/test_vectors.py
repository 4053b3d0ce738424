"""Recorded files of one operator and small networks, with outputs of LiteRT 2.3.0's resolvers."""

import collections
from pathlib import Path

import numpy as np
import pytest

import dmlax.litert
from dmlax.errors import UnsupportedError
from tools.litert.cases import CASES
from tools.litert.compare import difference, draw_inputs
from tools.litert.files import model

RECORDED = np.load(Path(__file__).with_name("vectors.npz"))
FILES: dict[str, dict[str, np.ndarray]] = collections.defaultdict(dict)
for _key in RECORDED.files:
    _name, _number, _rest = _key.split("/", 2)
    FILES[f"{_name}/{_number}"][_rest] = _key


@pytest.mark.parametrize("name", sorted({key.split("/")[0] for key in FILES}))
@pytest.mark.parametrize("resolver", ["xnnpack", "reference"])
def test_outputs_are_litert_s(name, resolver):
    """Two calls each, so that a state is seen; integers are equal, floats within 2e-5."""
    for key in (key for key in FILES if key.startswith(f"{name}/")):
        arrays = {part: RECORDED[full] for part, full in FILES[key].items()}
        ours = dmlax.litert.load(arrays["model"].tobytes(), arithmetic=resolver)
        state = ours.init_state()
        for call in range(2):
            prefixes = (f"{call}/input/", f"{call}/{resolver}/")
            inputs, wanted = (
                {x.removeprefix(start): y for x, y in arrays.items() if x.startswith(start)}
                for start in prefixes
            )
            outputs, state = ours.step(state, inputs)
            assert wanted.keys() == outputs.keys()
            for output, array in wanted.items():
                assert not difference(np.asarray(outputs[output]), array), (key, output)


@pytest.mark.parametrize("name", sorted(CASES))
def test_exact_is_a_step_from_the_reference_at_most(name):
    """Each operator of bytes in `arithmetic="exact"`, on other files than the recorded ones."""
    for seed in range(100, 102):
        rng = np.random.default_rng([seed, *name.encode()])
        graph = CASES[name](rng)
        data = model(graph)
        try:
            exact = dmlax.litert.load(data, arithmetic="exact")
        except UnsupportedError:
            continue
        reference = dmlax.litert.load(data, arithmetic="reference")
        details = {x: {"dtype": y.dtype, "shape": y.shape} for x, y in exact.inputs.items()}
        inputs = draw_inputs(details, rng)
        one, other = exact(inputs), reference(inputs)
        for output, array in one.items():
            assert array.shape == other[output].shape
            assert array.dtype == other[output].dtype
            if array.dtype in (np.int8, np.uint8):
                distance = np.abs(np.int32(array) - np.int32(other[output]))
                assert distance.max(initial=0) <= 1, (seed, output)

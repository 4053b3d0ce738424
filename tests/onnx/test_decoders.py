"""`tools/decoders.py` on small files with random weights."""

from pathlib import Path

import jax
import numpy as np
import onnx
import pytest

import dmlax.onnx
from tools import decoders, examples

tiny_decoder = examples.load("tiny_decoder")
SIZES = tiny_decoder.Sizes(layers=1)
PROMPTS = [np.array([[5, 80, 3]])]


def make(path: Path, **options: int) -> str:
    onnx.save(tiny_decoder.make_file(SIZES, SIZES.random_weights(), **options), path)
    return str(path)


@pytest.mark.parametrize("options", [{}, {"bits": 4}, {"bits": 8}])
def test_a_steps_error_is_small_without_a_flip(tmp_path: Path, options: dict[str, int]) -> None:
    decoder = decoders.Decoder(make(tmp_path / "a.onnx", **options), count=5)
    assert len(decoder.products) == (5 if options else 0)
    _, own, fed, plain, error, flipped, _, first, others = decoders.row_of("a", decoder, PROMPTS)
    assert int(plain) + int(flipped) == 5
    assert float(error) < 1e-6
    assert float(first) < 5e-6
    assert others == "0"
    if flipped == "0":  # a processor may round otherwise
        assert own == fed == "5 of 5"


def test_flips_are_found(tmp_path: Path) -> None:
    """In a model with other weights."""
    decoder = decoders.Decoder(make(tmp_path / "a.onnx", bits=4), count=2)
    decoder.model = dmlax.onnx.load(make(tmp_path / "b.onnx", bits=8))
    decoder.apply = jax.jit(decoder.model.apply, static_argnames="outputs")
    steps = [*decoder.compare(PROMPTS[0])]
    assert all(step.flip is not None and step.error > 1e-3 for step in steps)
    same = decoders.Step(0.0, True, None)
    assert same.flip is None


def test_the_integers_of_blocks() -> None:
    x = np.array([[1, -2, 0.5, 4, 4, 0]], np.float32)
    wanted = [[[64, -127, 32], [127, 127, 0]]]  # ties to even
    np.testing.assert_array_equal(decoders.rounded(x, 3), wanted)

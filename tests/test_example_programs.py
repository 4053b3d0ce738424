"""The programs beside the pages, run as a reader would run them."""

import re
from pathlib import Path

import jax
import numpy as np
import onnxruntime
import pytest

import dmlax.onnx
from support import HAS_VNNI, assert_same
from tools import examples

pytestmark = pytest.mark.usefixtures("readers_jax")
PAGE = Path(__file__).parent.parent / "docs/onnx.md"


@pytest.fixture(autouse=True)
def beside_each_other(monkeypatch):
    """An example imports what lies beside it."""
    monkeypatch.syspath_prepend(examples.EXAMPLES)


@pytest.fixture(autouse=True)
def random_bits_of_xla():
    """Threefry's rounds compile for seconds in each sampler; no example is about its numbers."""
    with jax.default_prng_impl("unsafe_rbg"):
        yield


def example(name):
    """An example's `main`."""
    return examples.load(name).main


def test_digits_in_8_bits_are_read_as_well_as_in_float(tmp_path):
    picture = tmp_path / "digits.png"
    record = example("digits_int8")(["--steps", "100", "--output", str(picture)])
    assert record.float_accuracy > 0.95
    assert abs(record.float_accuracy - record.int8_accuracy) <= 0.01
    assert record.agreement > 0.98
    assert record.vmapped_equal
    assert picture.read_bytes().startswith(b"\x89PNG")


def fine_tuned(name, folder):
    """Runs an example, checks its accuracies and its picture, and returns its stages."""
    picture = folder / "picture.png"
    stages = example(name)(["--output", str(picture)])
    accuracies = stages.accuracies
    assert accuracies["float32"] > 0.96
    assert abs(accuracies["int8"] - accuracies["float32"]) < 0.01
    assert accuracies["int8, fine-tuned"] > accuracies["float32"] - 0.01
    assert min(layer.signal_to_noise for layer in stages.report.layers) > 25
    assert picture.read_bytes().startswith(b"\x89PNG")
    return stages


@pytest.mark.slow
def test_a_fine_tuned_network_has_the_same_bits_in_onnxruntime(tmp_path):
    stages = fine_tuned("train_int8", tmp_path)
    assert stages.accuracies["2 bits, fine-tuned"] > stages.accuracies["weights of 2 bits"] + 0.1
    assert stages.differing.keys() == {"qdq", "qoperator"}
    if HAS_VNNI:
        assert set(stages.differing.values()) == {0}


@pytest.mark.slow
def test_a_fine_tuned_transformer_has_almost_the_same_bits_in_onnxruntime(tmp_path):
    """The model's floats differ in their last bits, and then bytes differ by one."""
    stages = fine_tuned("transformer_int8", tmp_path)
    assert len(stages.differing) == 4
    if HAS_VNNI:
        assert max(stages.differing.values()) < 5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what Flax and Equinox use
def test_networks_of_flax_and_equinox_are_quantized_in_a_few_lines():
    results = example("quantize_flax_equinox")([])
    assert len(results) == 4
    for result in results.values():
        assert result.float_accuracy > 0.93
        assert abs(result.float_accuracy - result.int8_accuracy) <= 0.01
        assert result.tuned_accuracy > max(0.9, result.two_bit_accuracy)
        assert result.signal_to_noise > 25
        assert result.integer_share == 1


def test_a_migrated_model_has_onnxruntimes_scores(tmp_path):
    """Untrained, as the training is that of the first example."""
    record = example("migrate_onnx")(["--steps", "0", "--folder", str(tmp_path)])
    assert abs(record.float_accuracy - record.int8_accuracy) <= 0.1
    assert record.differ == 0
    assert record.saved_equal
    assert record.exported_equal


@pytest.mark.torch
def test_the_pages_network_of_pytorch_has_onnxruntimes_scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(import torch\n.*?)```", PAGE.read_text(), re.DOTALL)
    exec(code, {})
    source, target = Path("digits.onnx"), Path("digits-int8.onnx")
    images = np.random.default_rng(1).random((64, 1, 8, 8), np.float32)
    examples.load("migrate_onnx").quantize(source, target, images)
    session = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"images": images})
    assert_same(dmlax.onnx.load(target)(images)["scores"], scores)
    assert np.unique(scores).size > 20


@pytest.mark.slow
def test_blocks_in_8_bits_read_digits_as_well_as_in_float(tmp_path):
    picture = tmp_path / "blocks.png"
    records = example("blocks_int8")(["--output", str(picture)])
    assert list(records) == ["transformer", "inverted residual"]
    for record in records.values():
        assert record.float_accuracy > 0.92
        assert abs(record.float_accuracy - record.int8_accuracy) <= 0.01
        assert record.agreement > 0.98
        assert record.vmapped_equal
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_resnet50_composed_by_hand_has_the_loaded_files_bits():
    record = example("resnet50_int8")(["--size", "32"])
    assert record.operators == 57
    assert record.distinct > 100
    assert record.differ == 0


def test_sparse_events_gather_what_the_dense_model_sums():
    record = example("sparse_events")()
    assert 0 < record.active < record.pixels // 20
    assert record.equal
    assert record.dropped == record.active - 1000
    assert record.safe_equal
    assert record.vmapped_equal


def test_a_language_model_has_onnxruntimes_tokens():
    """Trained for a few steps; level 4 may differ from the first flipped rounding on."""
    record = example("language_model")(["--steps", "20", "--tokens", "16"])
    assert record.loss < 4
    assert [len(sample) for sample in record.samples] == [16] * 3
    level_4 = record.differing.pop("4 bits, level 4")
    assert set(record.differing.values()) == {0}
    assert level_4 < 24

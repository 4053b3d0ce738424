"""The table of operators in `docs/litert.md` has those that are computed; its examples run."""

import re
import zipfile
from pathlib import Path

import jax
import numpy as np
import optax

import dmlax.litert
from dmlax.litert.read import DOMAIN
from dmlax.onnx.operators import rows
from tools.litert.files import Op, Subgraph, Tensor, model
from tools.litert.networks import window

PAGE = Path(__file__).parents[2] / "docs/litert.md"
READ = {"ASSIGN_VARIABLE", "CALL_ONCE", "DENSIFY", "IF", "READ_VARIABLE", "VAR_HANDLE"}


def test_the_page_lists_the_operators():
    table = PAGE.read_text().partition("| group | operators |")[2]
    known = {row.op for row in rows() if row.domain == DOMAIN} - {"IDENTITY"}
    assert set(re.findall(r"`([A-Za-z0-9_]+)`", table)) == known | READ


def classifier():
    """A file with the tensors that the page names: a pool, a product and a softmax."""
    rng = np.random.default_rng(0)
    kernel = rng.integers(-127, 128, (10, 6)).astype(np.int8)
    tensors = {
        "image": Tensor(np.int8, (1, 4, 4, 6), None, [0.02], [-4]),
        "AvgPool": Tensor(np.int8, (1, 1, 1, 6), None, [0.02], [-4]),
        "shape": Tensor(np.int32, (2,), np.array([1, 6], np.int32)),
        "flat": Tensor(np.int8, (1, 6), None, [0.02], [-4]),
        "dense/kernel": Tensor(np.int8, (10, 6), kernel, [0.01], [0]),
        "dense/bias": Tensor(np.int32, (10,), np.arange(10, dtype=np.int32), [0.0002], [0]),
        "logits": Tensor(np.int8, (1, 10), None, [0.06], [2]),
        "Softmax": Tensor(np.int8, (1, 10), None, [1 / 256], [-128]),
    }
    pool = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "filter_h": 4, "filter_w": 4}
    operators = [
        Op("AVERAGE_POOL_2D", ["image"], ["AvgPool"], pool),
        Op("RESHAPE", ["AvgPool", "shape"], ["flat"]),
        Op("FULLY_CONNECTED", ["flat", "dense/kernel", "dense/bias"], ["logits"]),
        Op("SOFTMAX", ["logits"], ["Softmax"], {"beta": 1.0}),
    ]
    return model(Subgraph(tensors, operators, ["image"], ["Softmax"]))


def blocks(heading):
    """The Python blocks of a section of the page."""
    section = PAGE.read_text().partition(f"{heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.DOTALL)


def test_the_page_s_state_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "okay_nabu.tflite").write_bytes(model(*window(np.random.default_rng(0))))
    names = {"dmlax": dmlax, "frames": np.random.default_rng(1).normal(size=(7, 1, 1, 6))}
    names["frames"] = names["frames"].astype(np.float32)
    (block,) = blocks("## State")
    exec(block, names)
    (state,) = names["state"].values()
    quantized = names["model"].apply(names["model"].params, names["frames"][-1], outputs=["t1"])
    assert state[:, -1:].tolist() == quantized["t1"].tolist()
    assert state.tolist() != names["model"].init_state().popitem()[1].tolist()


def test_the_page_s_bundle_is_loaded_and_saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("hand_landmarker.task", "w") as bundle:
        for name in ("hand_detector.tflite", "hand_landmarks_detector.tflite"):
            bundle.writestr(name, classifier())
    names = {"dmlax": dmlax}
    exec(blocks("## Sources")[0], names)
    image = np.zeros((1, 4, 4, 6), np.int8)
    wanted = dmlax.litert.load(classifier(), arithmetic="reference")(image)["Softmax"]
    assert names["model"](image)["Softmax"].tolist() == wanted.tolist()


def transposed(name, inputs):
    """A file of a transposed convolution of floats, by the operator of a name."""
    rng = np.random.default_rng(2)
    filter = rng.normal(size=(3, 3, 2, 4)).astype(np.float32)
    tensors = {
        "sizes": Tensor(np.int32, (4,), np.array([1, 10, 12, 3], np.int32)),
        "w": Tensor(np.float32, filter.shape, filter),
        "x": Tensor(np.float32, (1, 5, 6, 4)),
        "b": Tensor(np.float32, (3,), rng.normal(size=3).astype(np.float32)),
        "y": Tensor(np.float32, (1, 10, 12, 3)),
    }
    options = {"padding": "SAME", "stride_h": 2, "stride_w": 2}
    operator = Op(name, inputs, ["y"], options if name == "TRANSPOSE_CONV" else {})
    return model(Subgraph(tensors, [operator], ["x"], ["y"]))


def test_the_page_s_operator_is_litert_s_with_a_bias(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = transposed("Convolution2DTransposeBias", ["x", "w", "b"])
    (tmp_path / "selfie_segmentation.tflite").write_bytes(data)
    names = {"dmlax": dmlax, "jax": jax}
    exec(blocks("## Operators")[0], names)
    x = np.random.default_rng(3).normal(size=(1, 5, 6, 4)).astype(np.float32)
    built_in = dmlax.litert.load(transposed("TRANSPOSE_CONV", ["sizes", "w", "x", "b"]))
    np.testing.assert_allclose(names["model"](x)["y"], built_in(x)["y"], atol=1e-5)


def test_the_page_s_classifier_runs_and_learns(tmp_path, monkeypatch):
    """The blocks as they stand, for a small file of the name that they load."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "efficientnet_lite0_int8.tflite").write_bytes(classifier())
    images = np.random.default_rng(1).integers(-128, 128, (8, 4, 4, 6)).astype(np.int8)
    names = {"dmlax": dmlax, "jax": jax, "optax": optax, "images": images}
    names["eight_images"] = images
    (first,) = blocks("# LiteRT models")
    for block in (first, *blocks("## Batches")):
        exec(block, names)
    assert names["scores"].shape == (8, 10)
    assert names["features"].shape == (8, 1, 1, 6)
    names["images"] = (images.astype(np.float32) + 4) * np.float32(0.02)
    names["labels"] = np.arange(8)
    (block,) = blocks("## Fine-tune")
    exec(block, names)
    last, slopes, loss = names["last"], names["slopes"], names["loss"]
    assert all(np.abs(x).max() > 0 for x in slopes.values())
    stepped = jax.tree.map(lambda x, slope: x - 0.3 * slope, last, slopes)
    arguments = names["images"], names["labels"]
    assert loss(stepped, *arguments) < loss(last, *arguments)

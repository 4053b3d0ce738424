"""The table of operators in `docs/litert.md` has those that are computed; its examples run."""

import re
from pathlib import Path

import jax
import numpy as np
import optax

import dmlax.litert
from dmlax.litert.read import DOMAIN
from dmlax.onnx.operators import rows
from tools.litert.files import Op, Subgraph, Tensor, model

PAGE = Path(__file__).parents[2] / "docs/litert.md"
READ = {"ASSIGN_VARIABLE", "CALL_ONCE", "DENSIFY", "IF", "READ_VARIABLE", "VAR_HANDLE"}


def test_the_page_lists_the_operators():
    table = PAGE.read_text().partition("| group | operators |")[2]
    known = {row.op for row in rows() if row.domain == DOMAIN} - {"IDENTITY"}
    assert set(re.findall(r"`([A-Z0-9_]+)`", table)) == known | READ


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

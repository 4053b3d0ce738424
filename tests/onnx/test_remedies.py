"""Each remedy that a message of `load` names works: the table has a row for every such message."""

import ast
import collections
import pathlib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import dmlax
import dmlax.onnx

F = np.float32
SOURCE = pathlib.Path(dmlax.onnx.__file__).parent
REMEDY = re.compile(
    r"give .*input_shapes|give static|give it in input_shapes|load\(\.\.\.|give nonzero_size"
    r"|: nonzero_size|outputs=|load other|enable_x64|make them static|store it as"
)


def remedies() -> collections.Counter[tuple[str, str]]:
    """The texts of messages that name a remedy, by their files; {} is for a value."""
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts = [x.value if isinstance(x, ast.Constant) else "{}" for x in node.values]
                text = "".join(map(str, parts))
                skipped.update(map(id, node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = "" if id(node) in skipped else node.value
            else:
                continue
            if REMEDY.search(text):
                found[str(path.relative_to(SOURCE)), text] += 1
    return found


class Row(NamedTuple):
    """A file that is refused, and keywords of `load` with which it runs.

    Attributes:
      source: the file of the message, and a part of its text there.
      message: a part of the message.
      graph: in ONNX's text form, without its outer braces.
      mended: the keywords.
      x: the input of a call.
      constants: the file's.
      loads: keywords of `load` with which it, or a call of the model, is refused.
      x64: True if JAX's 64-bit types are a part of the remedy.
    """

    source: tuple[str, str]
    message: str
    graph: str
    mended: dict[str, Any]
    x: Any = np.ones((4, 3), np.float32)
    constants: Mapping[str, Any] = MappingProxyType({})
    loads: Mapping[str, Any] = MappingProxyType({})
    x64: bool = False


def shapes(*sizes: int) -> dict[str, Any]:
    return {"input_shapes": {"x": list(sizes)}}


STATIC = "{}: give input_shapes static sizes"
SIZE = "s = Shape(x) n = Gather(s, zero)"
CONSTANTS = {"zero": 0, "first": [0], "axis": [1], "one": F([1]), "two": [2], "many": [1025]}
LONG = " ".join(f"n{i + 1} = Mul(n{i or ''}, n{i or ''})" for i in range(8))
SQUEEZE = """size = Gather(s, axis) is_one = Equal(size, axis) if = Squeeze(is_one)
    a = If (if) <then_branch = t () => (b) { b = Squeeze(x, axis) },
                 else_branch = e () => (c) { c = Identity(x) }>
    y = Concat<axis = 0>(a, one)"""
LOOP = """c, y = Loop(m, , x) <body = b (int64 i, bool t, float[4,3] a)
    => (bool u, float[4,3] d, float[4,3] r) { u = Identity(t) d = Add(a, a) r = Identity(d) }>"""
ROWS = (
    Row(
        ("check.py", "give static sizes, as input_shapes={}"),
        r'n: give static sizes, as input_shapes=\{"x": \[1, 3\]\}',
        f"(float[n,3] x) => (float[k] y) {{ {SIZE} o = CumSum(s, zero) y = Expand(one, o) }}",
        shapes(4, 3),
    ),
    Row(
        ("check.py", "{}, if {}: give static sizes"),
        r'if m >= 2: give static sizes, as input_shapes=\{"x": \[...\]\}',
        f"(float[n,m] x) => (float[k] y) {{ {SIZE} {SQUEEZE} }}",
        shapes(4, 1),
        np.ones((4, 1), np.float32),
    ),
    Row(
        ("check.py", "leaves nodes out"),
        r"load\(..., outputs=\[...\]\) leaves nodes out",
        "(float[3,3] x) => (float y, float[3,3] z) { y = Det(x) z = Relu(x) }",
        {"outputs": ["z"]},
        np.ones((3, 3), np.float32),
    ),
    Row(
        ("check.py", "computes them by functions of yours"),
        r'load\(..., operators=\{"Det": f\}\)',
        "(float[3,3] x) => (float y) { y = Det(x) }",
        {"operators": {"Det": jnp.linalg.det}},
        np.eye(3, dtype=np.float32),
    ),
    Row(
        ("check.py", "makes what they depend on known"),
        r'load\(..., constants=\{"k": value\}\)',
        "(float[4,3] x, int64[1] k) => (float[4,2] y) { s = Squeeze(k) e = Expand(one, k) "
        "r = ReduceSum(x) y = Mul(r, e) }",
        {"constants": {"k": np.array([2])}},
    ),
    Row(
        ("check.py", "may give sizes that fit"),
        r'load\(..., input_shapes=\{"x": \[...\]\}\) may give sizes that fit',
        "(float[n,3] x) => (uint8[k,3] y) "
        "{ t = Slice(x, last, low, first, back) y = QuantizeLinear<axis = 0>(t, scales) }",
        shapes(5, 3),
        np.ones((5, 3), np.float32),
        {"last": [6], "low": [-99], "back": [-2], "scales": F([1, 2, 3])},
    ),
    Row(
        ("check.py", "leaves out a branch of"),
        r"constants=\{\"k\": value\}\) leaves out a branch of If",
        "(float[4,3] x, bool k) => (float[4,3] y) { n = Not(k) y = If (n) <"
        "then_branch = t () => (b) { b = MatMul(x, x) },"
        "else_branch = e () => (d) { d = Relu(x) }> }",
        {"constants": {"k": np.array(True)}},
    ),
    Row(
        ("model.py", "rows, expected {} or fewer: nonzero_size"),
        "has 12 rows, expected 1 or fewer: nonzero_size",
        "(float[4,3] x) => (int64[2,k] y) { y = NonZero(x) }",
        {"nonzero_size": 12},
        loads={"nonzero_size": 1},
    ),
    Row(
        ("model.py", "{}: give input_shapes a name or a static size"),
        "a power of more than 99: give input_shapes a name or a static size",
        "(float[n,3] x) => (float[n,3] y) { y = Relu(x) }",
        {"input_shapes": {"x": ["a", 3]}},
        loads={"input_shapes": {"x": ["a^1000000", 3]}},
    ),
    Row(
        ("operators/control.py", "or load other outputs"),
        "give the Loop a constant trip count, or load other outputs",
        f"(float[4,3] x, int64 m) => (float[4,3] c, float[k,4,3] y) {{ {LOOP} }}",
        {"outputs": ["c"]},
        {"x": np.ones((4, 3), np.float32), "m": np.array(2)},
    ),
    Row(
        ("operators/declined.py", "take the tensors before it with outputs="),
        "take the tensors before it with outputs=",
        "(float[4,3] x) => (float[k] y) { z = Relu(x) y = Unique(z) }",
        {"outputs": ["z"]},
    ),
    Row(
        ("operators/moves.py", STATIC),
        "mode 'edge' pads by .*: give input_shapes static sizes",
        "(float[n] x) => (float[k] y) { s = Shape(x) p = Concat<axis = 0>(first, s) "
        'y = Pad<mode = "edge">(x, p) }',
        shapes(4),
        np.ones(4, np.float32),
    ),
    Row(
        ("operators/nonzero.py", "it needs a size: give nonzero_size"),
        "it needs a size: give nonzero_size",
        "(float[4,3] x) => (int64[2,k] y) { y = NonZero(x) }",
        {"nonzero_size": 12},
    ),
    Row(
        ("operators/resize.py", STATIC),
        "antialias is 1, and a size is symbolic: give input_shapes static sizes",
        '(float[n,m] x) => (float[j,k] y) { y = Resize<mode = "linear", antialias = 1>(x, , f) }',
        shapes(4, 3),
        constants={"f": F([2, 0.5])},
    ),
    Row(
        ("operators/resize.py", STATIC),
        "is 1.37.*, no fraction of small integers: give input_shapes static sizes",
        "(float[n,m] x) => (float[j,k] y) { y = Resize(x, , f) }",
        shapes(4, 3),
        constants={"f": F([1.37, 1])},
    ),
    Row(
        ("operators/resize.py", STATIC),
        "keep_aspect_ratio_policy is 'not_larger', and a size is symbolic: give input_shapes",
        "(float[n,m] x) => (float[j,k] y) "
        '{ y = Resize<keep_aspect_ratio_policy = "not_larger">(x, , , f) }',
        shapes(4, 3),
        constants={"f": [8, 8]},
    ),
    Row(
        ("operators/signals.py", "expected one number: give static input_shapes"),
        "expected one number: give static input_shapes",
        f"(float[n,3] x) => (float[k] y) {{ {SIZE} y = HannWindow(n) }}",
        shapes(4, 3),
    ),
    Row(
        ("operators/signals.py", "its length is {}: give input_shapes static sizes"),
        "its length is n: give input_shapes static sizes",
        "(float[2,n,1] x) => (float[2,k,2] y) { y = DFT<axis = 1>(x) }",
        shapes(2, 4, 1),
        np.ones((2, 4, 1), np.float32),
    ),
    Row(
        ("operators/spatial.py", "it adds {} elements: give input_shapes static sizes"),
        "it adds .* elements: give input_shapes static sizes",
        "(float[n,3] x) => (float[8,3] y) { y = CenterCropPad(x, t) }",
        shapes(4, 3),
        constants={"t": [8, 3]},
    ),
    Row(
        ("operators/values.py", "float64 on a device needs x64"),
        r'float64 on a device needs x64: jax.config.update\("jax_enable_x64", True\)',
        "(float[4,3] x) => (double[4,3] y) { d = Cast<to = 11>(x) y = Sin(d) }",
        {},
        x64=True,
    ),
    Row(  # more assumptions than `load` makes
        ("operators/values.py", "it needs sizes with {}: give input_shapes static sizes"),
        "it needs sizes with .*: give input_shapes static sizes",
        "(float[a,b,c,d,e,f,g,h,i,j] x, float[k,l,m,n,o,p,q,r,s,t] z) => (float[u] y) "
        "{ y = Add(x, z) }",
        {"input_shapes": dict.fromkeys(("x", "z"), [2] * 10)},
        dict.fromkeys(("x", "z"), np.ones([2] * 10, np.float32)),
    ),
    Row(
        ("operators/values.py", "its size {} {}: give input_shapes static sizes"),
        "has a power of more than 99: give input_shapes static sizes",
        f"(float[n,3] x) => (float[k] y) {{ s = Shape(x) n = Gather(s, first) {LONG} "
        "y = Expand(one, n8) }",
        shapes(1, 3),
        np.ones((1, 3), np.float32),
    ),
    Row(
        ("operators/values.py", STATIC),
        "the product of its sizes has 10201 terms, .*: give input_shapes static sizes",
        "(float[n,m] x) => (float[n,m] y) { y = Relu(x) }",
        shapes(4, 3),
        loads={"input_shapes": {"x": ["+".join(f"{x}{i}" for i in range(101)) for x in "ab"]}},
    ),
    Row(
        ("operators/values.py", "expected at most {}: make them static"),
        "its value has 1025 symbolic sizes, expected at most 1024: make them static",
        "(float[n,3] x) => (float[k] y) { s = Shape(x) n = Gather(s, first) a = Expand(n, many) "
        "b = Add(a, a) m = ReduceMax(b) y = Expand(one, m) }",
        shapes(4, 3),
    ),
    Row(
        ("load_options.py", "has no rank: give it in input_shapes"),
        "input 'x' has no rank: give it in input_shapes",
        "(float x) => (float y) { y = Relu(x) }",
        shapes(4, 3),
    ),
)
ELSEWHERE = {  # the tests that run a remedy which is another file, or other calls
    ("operators/values.py", "; store it as an initializer, or compute it from an input"): (
        "test_remedies.py",
        "test_a_large_known_value_is_an_initializer_or_computed_from_an_input",
    ),
    ("model.py", ", or load(..., constants="): (
        "operators/test_caches.py",
        "test_a_total_length_that_is_an_input_makes_a_program_for_each_value",
    ),
}


def file_of(graph: str, constants: Mapping[str, Any]) -> onnx.ModelProto:
    file = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 19]>\nagraph {graph}')
    read = {name for node in file.graph.node for name in node.input} | {"axis", "zero"}
    arrays = {name: x for name, x in {**CONSTANTS, **constants}.items() if name in read}
    file.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(x), name) for name, x in arrays.items()
    )
    return file


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.source[1][:40])
def test_a_remedy_that_a_message_names_works(row):
    file = file_of(row.graph, row.constants)
    if "has no rank" in row.message:
        file.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises((dmlax.UnsupportedError, dmlax.SpecError, dmlax.onnx.ModelError)) as caught:
        dmlax.onnx.load(file, **row.loads)(row.x)
    assert re.search(row.message, str(caught.value)), caught.value
    with jax.enable_x64(row.x64):
        outputs = dmlax.onnx.load(file, **row.mended)(row.x)
    assert all(np.isfinite(y).all() for y in outputs.values())


def test_every_message_with_a_remedy_has_a_row():
    """A new remedy needs a row, or a test of its own in the table of other tests."""
    rows = [row.source for row in ROWS]
    for (path, text), count in remedies().items():
        known = sum(path == source and part in text for source, part in (*rows, *ELSEWHERE))
        assert known >= count, f"{path}: {text!r} has no row"
    for path, name in ELSEWHERE.values():
        assert f"def {name}(" in (pathlib.Path(__file__).parent / path).read_text()


def test_a_large_known_value_is_an_initializer_or_computed_from_an_input(monkeypatch):
    monkeypatch.setattr(dmlax.onnx.budget, "FREE", 1 << 20)
    large, text = np.ones(1 << 20, np.float32), "(float[1] x) => (float[k] y) {{ {} }}"
    nodes = "e = Expand(one, count) r = ReduceSum<keepdims = 0>(e) y = Add(x, r)"
    remedies = {"e": nodes.partition(")")[2], "one": nodes.replace("one", "x")}
    with pytest.raises(dmlax.UnsupportedError, match="store it as an initializer, or compute it"):
        dmlax.onnx.load(file_of(text.format(nodes), {"count": [1 << 20]}))
    for name, mended in remedies.items():
        constants = {"count": [1 << 20]} if name == "one" else {"e": large}
        loaded = dmlax.onnx.load(file_of(text.format(mended), constants))
        assert loaded(np.ones(1, np.float32))["y"].tolist() == [(1 << 20) + 1]

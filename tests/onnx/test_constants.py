"""`load(..., constants=...)`, branches that constants decide, and operators that are functions."""

import jax
import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import dmlax
import dmlax.onnx
from dmlax.onnx import peer
from dmlax.onnx.__main__ import main
from support import onnx_files
from support.onnx_files import parse

X = np.arange(6, dtype=np.float32).reshape(2, 3)


MERGED = """agraph (float[n,3] x, float[n,3] past, bool use_cache, int64 k)
  => (float[a,b] y, float[c,d] z) {
  w = Mul (x, two)
  y, z = If (use_cache) <
    then_branch = with_cache () => (float[a,b] p, float[c,d] q) {
      t = Concat <axis = 1> (past, w)
      p = Relu (t)
      q = Identity (past)
    },
    else_branch = without () => (float[a,b] p2, float[c,d] q2) {
      t = Neg (w)
      p2 = MatMul (t, m)
      e = Transpose (w)
      k1 = Reshape (k, one)
      q2, i = TopK <axis = 0> (e, k1)
    }>
}"""


def _merged():
    return parse(MERGED, two=np.float32(2), m=np.float32(np.eye(3)), one=[1])


@pytest.mark.parametrize("value", [True, False])
def test_a_constant_chooses_a_branch(value, tmp_path):
    file = _merged()
    inputs = {"x": X, "past": -X, "use_cache": np.array(value), "k": np.array(2)}
    expected = peer.run(peer.start(file), inputs)
    model = dmlax.onnx.load(file, constants={"use_cache": value, "k": 2})
    assert set(model.inputs) == ({"x", "past"} if value else {"x"})
    assert "If" not in model.explain().before
    model.save(tmp_path / "saved.dmlax")
    left = {name: inputs[name] for name in model.inputs}
    saved = dmlax.onnx.load(tmp_path / "saved.dmlax")
    for each in (model, saved):
        for outputs in (each(left), jax.jit(each.apply)(each.params, left)):
            for name, y in expected.items():
                np.testing.assert_array_equal(outputs[name], y)


def test_a_computed_condition_names_the_constant_that_decides_it():
    file = parse(
        """agraph (float[2,3] x, int64 sr) => (float[k] y) {
      c = Equal (sr, rate)
      y = If (c) <
        then_branch = a () => (float[k] p) { p = ReduceSum <keepdims = 0> (x, axis) },
        else_branch = b () => (float[k] q) { q = ReduceSum <keepdims = 0> (x, other) }>
    }""",
        rate=16000,
        axis=[0],
        other=[1],
    )
    with pytest.raises(dmlax.UnsupportedError) as caught:
        dmlax.onnx.load(file)
    text = str(caught.value)
    assert 'load(..., constants={"sr": value}) makes what they depend on known' in text
    assert "operators=" not in text
    for rate in (16000, 8000):
        expected = peer.run(peer.start(file), {"x": X, "sr": np.array(rate)})["y"]
        y = dmlax.onnx.load(file, constants={"sr": rate})(X)["y"]
        np.testing.assert_array_equal(y, expected)


def test_a_value_that_has_to_be_known_names_its_input():
    file = parse(
        "agraph (float[2,3] x, int64[1] k) => (float[2,a] y, int64[2,a] i) { y, i = TopK (x, k) }"
    )
    with pytest.raises(dmlax.UnsupportedError, match=r'load\(..., constants=\{"k": value\}\)'):
        dmlax.onnx.load(file)
    outputs = dmlax.onnx.load(file, constants={"k": [2]})(X)
    np.testing.assert_array_equal(
        outputs["y"], peer.run(peer.start(file), {"x": X, "k": np.array([2])})["y"]
    )


UNKNOWN = """agraph (float[n,3] x, bool c) => (float[n,3] y) {
  CONDITION
  y = If (d) <
    then_branch = a () => (float[n,3] p) { p = Neg (x) },
    else_branch = b () => (float[n,3] q) {
      s = Det (x)
      r = Unheard <size = 3> (s)
      q = Add (x, r)
    }>
}"""


@pytest.mark.parametrize(
    ("condition", "options"),
    [
        ("d = Not (zero)", {}),
        ("d = Identity (c)", {"constants": {"c": True}}),
        ("i = Shape (x)\n r = Size (i)\n d = Equal (r, two)", {}),  # the shape of a size
    ],
)
def test_the_other_branch_is_never_looked_at(condition, options):
    file = parse(UNKNOWN.replace("CONDITION", condition), zero=np.array(False), two=2)
    model = dmlax.onnx.load(file, **options)
    inputs = {name: {"x": X, "c": np.array(True)}[name] for name in model.inputs}
    np.testing.assert_array_equal(model(inputs)["y"], -X)


def test_a_computed_condition_looks_at_both_branches():
    file = parse(UNKNOWN.replace("CONDITION", "d = Identity (c)"))
    with pytest.raises(dmlax.UnsupportedError) as caught:
        dmlax.onnx.load(file)
    assert "Det: is not known" in str(caught.value)
    assert "Unheard: is not known" in str(caught.value)


def test_names_of_a_chosen_branch_do_not_collide():
    """Two branches have tensors of the same names, an output twice, and captured outputs."""
    branch = "(float[n,3] p, float[n,3] q) { t = {} (x)\n p = Add (t, c0)\n q = Identity (p) }"
    graph = "agraph (float[n,3] x) => (float[n,3] a, float[n,3] b, float[n,3] d, float[n,3] e) {"
    for first, second, op in (("a", "b", "Neg"), ("d", "e", "Abs")):
        body = branch.replace("{}", op)
        graph += f"{first}, {second} = If (yes) <then_branch = t () => {body},"
        graph += f"else_branch = f () => {body}>\n"
    file = parse(graph + "}", yes=np.array(True), c0=np.float32(1))
    outputs = dmlax.onnx.load(file)(X)
    for name, y in peer.run(peer.start(file), {"x": X}).items():
        np.testing.assert_array_equal(outputs[name], y)


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"sr": 1}, "constants has no input 'sr'; the inputs are 'x', 'past', 'use_cache', 'k'"),
        ({"k": 2.5}, r"constants of k is 2.5, expected int64\[\]"),
        ({"k": np.int32(2)}, r"constants of k is int32\[\], expected int64\[\]"),
        ({"k": [1, 2]}, r"constants of k is \[1, 2\], expected int64\[\]"),
        ({"use_cache": "yes"}, r"constants of use_cache is 'yes', expected bool\[\]"),
        ({"use_cache": 2}, r"constants of use_cache is 2, expected bool\[\]"),
        ({"x": np.ones((2, 4), np.float32)}, r"x is float32\[2,4\], expected float32\[n,3\]"),
        ({"k": 2**70}, "constants of k is"),
    ],
)
def test_wrong_constants(constants, message):
    with pytest.raises(dmlax.SpecError, match=message) as caught:
        dmlax.onnx.load(_merged(), constants=constants)
    assert caught.value.field == "constants"


def test_an_int64_constant_beyond_32_bits():
    file = parse("agraph (int64[n] x, int64 m) => (int64[n] y) { y = Mul (x, m) }")
    y = dmlax.onnx.load(file, constants={"m": 2**40})(np.array([3]))["y"]
    assert np.asarray(y).tolist() == [3 * 2**40]


def test_the_command_takes_constants(tmp_path, capsys):
    onnx.save(_merged(), tmp_path / "merged.onnx")
    arguments = [str(tmp_path / "merged.onnx"), "--constant", "use_cache=true"]
    assert main([*arguments, "--constant", "k=2"]) == 0
    assert "past" in capsys.readouterr().out


def test_the_command_says_how_to_give_sizes(tmp_path, capsys):
    path = tmp_path / "sizes.onnx"
    text = (
        "agraph (float[1, 1, 2, 2] x, int64[4] s) => (float[a, b, c, d] y) { y = Resize (x,,,s) }"
    )
    onnx.save(parse(text), path)
    assert main([str(path)]) == 2
    assert capsys.readouterr().err.endswith("\n  here: --constant NAME=VALUE for constants=\n")
    assert main([str(path), "--constant", "s=[1, 1, 4, 4]"]) == 0


def test_operators_that_are_functions():
    x, t = np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32), np.array([0, 3, 1, 4])
    nodes = [
        helper.make_node("SoftmaxCrossEntropyLoss", ["x", "t"], ["loss", "log"], reduction="sum"),
        helper.make_node("NegativeLogLikelihoodLoss", ["log", "t"], ["nll"], reduction="none"),
    ]
    inputs = {"x": (np.float32, ["n", 5]), "t": (np.int64, ["n"])}
    file = onnx_files.model(nodes, inputs, ["loss", "nll"], opset=17)
    ours = dmlax.onnx.load(file)(x, t)
    log = x - np.log(np.exp(x).sum(1, keepdims=True))
    right = -log[np.arange(4), t]
    np.testing.assert_allclose(ours["loss"], right.sum(), rtol=1e-6)
    np.testing.assert_allclose(ours["nll"], right, rtol=1e-6)


def test_a_function_of_a_schema_has_its_defaults():
    gate = np.float32([[1, -2, 3]])
    node = helper.make_node("SwiGLU", ["x", "g"], ["y"])
    inputs = {"x": gate, "g": gate + 1}
    file = onnx_files.model([node], inputs, {"y": np.float32}, opset=28)
    y = dmlax.onnx.load(file)(inputs)["y"]
    evaluated = ReferenceEvaluator(file).run(None, inputs)[0]
    np.testing.assert_allclose(y, evaluated, rtol=1e-6)


def test_a_function_of_the_caller_decides_at_run_time():
    file = parse(
        """agraph (float[3] x) => (float[3] y) {
      c = Not (zero)
      y = If (c) <then_branch = a () => (float[3] p) { p = Neg (x) },
                  else_branch = b () => (float[3] q) { q = Abs (x) }>
    }""",
        zero=np.array(False),
    )
    x = np.float32([1, -2, 3])
    assert dmlax.onnx.load(file)(x)["y"].tolist() == [-1, 2, -3]
    model = dmlax.onnx.load(file, operators={"Not": lambda x: x})
    assert model(x)["y"].tolist() == [1, 2, 3]


FILTER = """agraph (float[1,1,n] x{inputs}) => (float[1,a,b] y) {{
  t = Add (phases, taps)
  c = Clip (t, low, high)
  s = Sin (c)
  is_zero = Equal (c, zero)
  q = Div (s, c)
  window = Cos (c)
  w = Pow (window, two)
  k = Where (is_zero, one, q)
  f = Mul (k, w)
  filter = Unsqueeze (f, axes)
  y = Conv (x, filter)
}}"""


@pytest.mark.parametrize("arithmetic", ["float32", "exact"])
def test_a_filter_of_constants_is_computed_once(arithmetic):
    phases, taps = np.arange(-3, 4, dtype=np.float32)[:, None] / 7, np.arange(5, dtype=np.float32)
    numbers = {"low": np.float32(-2), "high": np.float32(3), "two": [2], "axes": [1]}
    numbers |= {"zero": np.float32(0), "one": np.float32(1)}
    x = np.random.default_rng(0).standard_normal((1, 1, 40)).astype(np.float32)
    file = parse(FILTER.format(inputs=""), phases=phases, taps=taps, **numbers)
    model = dmlax.onnx.load(file, arithmetic=arithmetic)
    assert sum(model.explain().after.values()) == 1
    asked = parse(FILTER.format(inputs=", float[7,1] phases"), taps=taps, **numbers)
    at_every_call = dmlax.onnx.load(asked, arithmetic=arithmetic)
    y, others = model(x)["y"], at_every_call({"x": x, "phases": phases})["y"]
    if arithmetic == "exact":
        np.testing.assert_array_equal(y, others)
    wanted = peer.run(peer.start(file), {"x": x})["y"]
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


BROADCAST = """agraph (float[n] x) => (float[] z) {
  all = Mul (column, row)
  squares = Mul (all, all)
  sum = ReduceSum <keepdims = 0> (squares)
  most = ReduceMax <keepdims = 0> (x)
  z = Mul (sum, most)
}"""


@pytest.mark.parametrize(("size", "left"), [(1 << 10, {"ReduceMax", "Mul"}), (1 << 12, None)])
def test_a_large_broadcast_is_not_held(size, left):
    half = np.full(size, 0.5, np.float32)
    model = dmlax.onnx.load(parse(BROADCAST, column=half[:, None], row=half))
    assert {*model.explain().after} == (left or {"ReduceMax", "ReduceSum", "Mul"})
    assert sum(each.nbytes for each in model.params.values()) <= 2 * half.nbytes
    assert model(np.ones(3, np.float32))["z"] == size**2 / 16

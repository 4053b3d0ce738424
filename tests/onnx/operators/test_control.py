"""If, Loop, Scan and local functions against ONNX Runtime, and what is refused of them."""

import jax
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import dmlax
import dmlax.onnx
from dmlax.onnx import peer

onnxruntime.set_default_logger_severity(3)
RANDOM = np.random.default_rng(1)
HEAD = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1, "local" : 1]>\n'
X = RANDOM.standard_normal((3, 4)).astype(np.float32)
BRANCHES = """agraph (float[3,4] x, bool c) => (float[3,4] y, float[4] z)
<float[4] w = {1, 2, 3, 4}> {
  t = Relu(x)
  y, z = If (c) <
    then_branch = one () => (a, b) { a = Mul(t, w)  b = Identity(w) },
    else_branch = two () => (a, b) <float[4] v = {5, 6, 7, 8}> {
      s = Add(x, v)
      zero = Constant <value_float = 0.0> ()
      d = Greater(zero, zero)
      a = If (d) <
        then_branch = three () => (p) { p = Identity(s) },
        else_branch = four () => (p) { p = Mul(s, w) }
      >
      b = Identity(v)
    }
  >
}"""
LOOP = """agraph (float[3,4] x) => (float[3,4] y, float[5,4] rows)
<int64 m = {5}> {
  cond = Constant <value = bool {1}> ()
  y, rows = Loop (m, cond, x) <
    body = step (int64 i, bool c, float[3,4] s) => (bool c2, float[3,4] s2, float[4] row) {
      CONDITION
      f = Cast <to = 1> (i)
      scaled = Mul(s, f)
      s2 = Add(scaled, x)
      axes = Constant <value_ints = [0]> ()
      row = ReduceSum <keepdims = 0> (s2, axes)
    }
  >
}"""
CASES = {  # text, inputs, and the outputs whose rows are counted
    "if": (BRANCHES, [{"x": X, "c": np.array(True)}, {"x": X, "c": np.array(False)}], ()),
    "loop": (LOOP.replace("CONDITION", "c2 = Identity(c)"), [{"x": X}], ()),
    "loop with a computed condition": (
        LOOP.replace(
            "CONDITION",
            "l = ReduceMax <keepdims = 0> (s)\n h = Constant <value_float = 9.0> ()\n"
            "c2 = Less(l, h)",
        ).replace("float[5,4]", "float[k,4]"),
        [{"x": X}, {"x": X + 3}],
        ("rows",),
    ),
    "loop that ends at once": (
        LOOP.replace("CONDITION", "c2 = Not(c)").replace("float[5,4]", "float[1,4]"),
        [{"x": X}],
        (),
    ),
    "while": (
        """agraph (float[3,4] x, int64 n) => (float[3,4] y, int64 k)
        <int64 m = {9223372036854775807}> {
          zero = Constant <value_int = 0> ()
          c = Greater(n, zero)
          y, k = Loop (m, c, x, zero) <
            body = step (int64 i, bool c1, float[3,4] s, int64 j)
              => (bool c2, float[3,4] s2, int64 j2) {
              s2 = Add(s, x)
              one = Constant <value_int = 1> ()
              j2 = Add(j, one)
              c2 = Less(j2, n)
            }
          >
        }""",
        [{"x": X, "n": np.array(n)} for n in (0, 1, 4)],
        (),
    ),
    "computed trip count": (
        """agraph (float[3,4] x, int64 n) => (float[3,4] y) {
          y = Loop (n, , x) <
            body = step (int64 i, bool c, float[3,4] s) => (bool c2, float[3,4] s2) {
              c2 = Identity(c)
              s2 = Add(s, x)
            }
          >
        }""",
        [{"x": X, "n": np.array(n)} for n in (0, 3)],
        (),
    ),
    "loop over a symbolic size": (
        """agraph (float[n,4] x) => (float[n,4] y, float[4] last) {
          s = Shape(x)
          zero = Constant <value_int = 0> ()
          m = Gather(s, zero)
          start = Constant <value_floats = [0.0, 0.0, 0.0, 0.0]> ()
          last, y = Loop (m, , start) <
            body = step (int64 i, bool c, float[4] a) => (bool c2, float[4] b, float[4] row) {
              c2 = Identity(c)
              r = Gather(x, i)
              b = Add(a, r)
              row = Identity(b)
            }
          >
        }""",
        [{"x": X}, {"x": X[:1]}],
        (),
    ),
    "a short loop that grows": (
        """agraph (float[3,4] x) => (float[12,4] y) <int64 m = {3}> {
          y = Loop (m, , x) <
            body = step (int64 i, bool c, float[k,4] s) => (bool c2, float[l,4] s2) {
              c2 = Identity(c)
              one = Constant <value_ints = [1]> ()
              j = Unsqueeze(i, one0)
              end = Add(j, one)
              part = Slice(x, one0, one3)
              s2 = Concat <axis = 0> (s, part)
            }
          >
        }""".replace("one0", "z0")
        .replace("one3", "z3")
        .replace("<int64 m = {3}> {", "<int64 m = {3}, int64[1] z0 = {0}, int64[1] z3 = {3}> {"),
        [{"x": X}],
        (),
    ),
    "a loop that shapes depend on": (
        """agraph (float[3,4] x) => (float[a,b] y) <int64 m = {4}, int64 k = {0}> {
          sum = Loop (m, , k) <
            body = step (int64 i, bool c, int64 s) => (bool c2, int64 s2) {
              c2 = Identity(c)
              s2 = Add(s, i)
            }
          >
          two = Constant <value_ints = [2]> ()
          minus = Constant <value_ints = [-1]> ()
          all = Concat <axis = 0> (two, minus)
          zero = Constant <value_ints = [0]> ()
          u = Unsqueeze(sum, zero)
          six = Concat <axis = 0> (u, two)
          y = Reshape(x, six)
        }""",
        [{"x": X}],
        (),
    ),
    "scan": (
        """agraph (float[4] s, float[3,4] x, float[4,3] z)
          => (float[4] t, float[3,4] u, float[4,3] v)
        <float[4] w = {1, 2, 3, 4}> {
          t, u, v = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1],
            scan_input_directions = [1, 0], scan_output_axes = [0, 1],
            scan_output_directions = [0, 1],
            body = step (float[4] a, float[4] b, float[4] c)
              => (float[4] d, float[4] e, float[4] f) {
              p = Add(a, b)
              d = Mul(p, w)
              e = Sub(d, c)
              f = Identity(p)
            }
          > (s, x, z)
        }""",
        [{"s": X[0], "x": X, "z": X.T.copy()}],
        (),
    ),
}


def model_of(text, functions="", opset=17):
    head = HEAD.replace(": 17", f": {opset}")
    return parser.parse_model(f"{head}{text}\n{functions}")


def compare(file, cases, counted=(), **options):
    model = dmlax.onnx.load(file, **options)
    for inputs in cases:
        theirs = peer.run(peer.start(file), inputs)
        ours = model(inputs)
        for name, wanted in theirs.items():
            found = np.asarray(ours[name])
            if name in counted:
                assert int(ours[f"{name}.count"]) == len(wanted)
                assert not np.any(found[len(wanted) :])
                found = found[: len(wanted)]
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=0)
    return model


@pytest.mark.parametrize("name", CASES)
def test_subgraphs_compute_what_onnx_runtime_computes(name, tmp_path):
    text, cases, counted = CASES[name]
    file = model_of(text)
    model = compare(file, cases, counted)
    model.save(tmp_path / "m.dmlax")
    again = dmlax.onnx.load(tmp_path / "m.dmlax")
    for inputs in cases:
        ours, theirs = model(inputs), again(inputs)
        assert ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[key], theirs[key]) for key in ours)


FUNCTIONS = """
<opset_import: ["" : 17], domain: "local">
shift (x, bias) => (y) {
  zero = Constant <value_float = 0.0> ()
  s = ReduceSum <keepdims = 0> (bias)
  c = Greater(s, zero)
  y = If (c) <
    then_branch = up () => (p) { p = Add(x, bias) },
    else_branch = down () => (p) { p = Sub(x, bias) }
  >
}
<opset_import: ["" : 17, "local" : 1], domain: "local">
scale <alpha, beta: float = 2.0> (x, bias) => (y, same) {
  a = Constant <value_float: float = @alpha> ()
  b = Constant <value_float: float = @beta> ()
  p = Mul(x, a)
  q = Mul(p, b)
  y = local.shift(q, bias)
  same = Identity(x)
}
<opset_import: ["" : 17], domain: "local">
clip (x, low, high) => (y) { y = Clip(x, low, high) }
<opset_import: ["" : 17], domain: "local">
pass (x, z) => (y, twice) { y = Identity(x) twice = Add(z, z) }
"""
CALLS = """agraph (float[3,4] x, float[4] b) => (float[3,4] y, float[3,4] z, float[4] t) {
  u, v = local.scale <alpha = 3.0> (x, b)
  w = local.scale <alpha = 0.5, beta = 4.0> (v, b)
  one = Constant <value_float = 1.0> ()
  y = local.clip(u, , one)
  z, t = local.pass(w, b)
}"""


QUANTIZED = """agraph (uint8[3,4] x, bool c) => (uint8[3,8] y)
<float s = {0.05}, uint8 z = {128}, float sw = {0.02}, int8 zw = {0}, float sy = {0.1}> {
  y = If (c) <
    then_branch = one () => (a) {
      d = DequantizeLinear(x, s, z)
      v = DequantizeLinear(w, sw, zw)
      p = MatMul(d, v)
      a = QuantizeLinear(p, sy, z)
    },
    else_branch = two () => (a) {
      h = DequantizeLinear(x, s, z)
      e = Relu(h)
      g = QuantizeLinear(e, s, z)
      d = DequantizeLinear(g, s, z)
      v = DequantizeLinear(w, sw, zw)
      p = MatMul(d, v)
      a = QuantizeLinear(p, sy, z)
    }
  >
}"""


def test_branches_share_prepared_weights_and_fuse(tmp_path):
    file = model_of(QUANTIZED)
    w = RANDOM.integers(-64, 64, (4, 8)).astype(np.int8)
    file.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    x = RANDOM.integers(0, 256, (3, 4)).astype(np.uint8)
    cases = [{"x": x, "c": np.array(c)} for c in (False, True)]
    model = dmlax.onnx.load(file)
    for inputs in cases:
        (theirs,) = peer.run(peer.start(file), inputs).values()
        np.testing.assert_array_equal(model(inputs)["y"], theirs)
    assert {name: type(x).__name__ for name, x in model.params.items()} == {"w": "PreparedMatrix"}
    (node,) = model._graph.nodes
    ops = [[inner.op for inner in graph.nodes] for graph in node.graphs.values()]
    assert ops[0] == ["QLinearMatMul"]
    assert ops[1][-1] == "QLinearMatMul"
    model.save(tmp_path / "m.dmlax")
    again = dmlax.onnx.load(tmp_path / "m.dmlax")
    assert again.params.keys() == model.params.keys()
    np.testing.assert_array_equal(again(cases[0])["y"], model(cases[0])["y"])
    both = jax.vmap(lambda c: model.apply(model.params, {"x": x, "c": c})["y"])(
        np.array([0, 1]) > 0
    )
    np.testing.assert_array_equal(both, [model(inputs)["y"] for inputs in cases])


def test_gradients_pass_loops_of_known_counts():
    model = dmlax.onnx.load(model_of(CASES["loop"][0]))
    gradient = jax.grad(lambda x: model.apply(model.params, x)["y"].sum())(X)
    np.testing.assert_allclose(gradient, np.full_like(X, 65))


def test_functions_are_inlined():
    bias = np.float32([1, -2, 3, 4])
    cases = [{"x": X, "b": bias}, {"x": X, "b": -bias}]
    file = model_of(CALLS, FUNCTIONS)
    model = dmlax.onnx.load(file)
    for inputs in cases:  # ONNX Runtime and ONNX's reference refuse the file
        found, b = model(inputs), inputs["b"]
        sign = 1 if b.sum() > 0 else -1
        wanted = np.minimum(6 * X + sign * b, 1), 2 * X + sign * b, 2 * b
        for name, value in zip("yzt", wanted, strict=True):
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)
    assert {"u", "v", "w"} < model.tensors()
    given = dmlax.onnx.load(
        file, operators={"local::scale": lambda x, b, alpha, beta=2.0: (x * alpha * beta + b, x)}
    )
    np.testing.assert_allclose(given(cases[0])["y"], model(cases[0])["y"], rtol=1e-6)


BAD = {
    "a function that calls itself": (
        "agraph (float[3] x) => (float[3] y) { y = local.f(x) }",
        """<opset_import: ["" : 17, "local" : 1], domain: "local">
        f (x) => (y) { y = local.g(x) }
        <opset_import: ["" : 17, "local" : 1], domain: "local">
        g (x) => (y) { y = local.f(x) }""",
        "function 'local.f' calls itself",
    ),
    "more inputs than a function": (
        "agraph (float[3] x) => (float[3] y) { y = local.f(x, x) }",
        """<opset_import: ["" : 17], domain: "local">
        f (x) => (y) { y = Relu(x) }""",
        "local.f 'y' has more inputs or outputs than its function",
    ),
    "an attribute that refers to none": (
        "agraph (float[3] x) => (float[3] y) { y = Elu <alpha: float = @a> (x) }",
        "",
        "refers to an attribute of a function",
    ),
    "a tensor that does not exist": (
        """agraph (float[3] x, bool c) => (float[3] y) { y = If (c) <
          then_branch = a () => (p) { p = Relu(absent) },
          else_branch = b () => (p) { p = Relu(x) }
        > }""",
        "",
        "reads 'absent', which does not exist",
    ),
    "a branch of two outputs less": (
        """agraph (float[3] x, bool c) => (float[3] y, float[3] z) { y, z = If (c) <
          then_branch = a () => (p) { p = Relu(x) },
          else_branch = b () => (p) { p = Relu(x) }
        > }""",
        "",
        "its then_branch has 0 inputs and 1 outputs, expected 0 and 2",
    ),
    "branches of two shapes": (
        """agraph (float[3] x, bool c) => (float[k] y) { y = If (c) <
          then_branch = a () => (p) { p = Relu(x) },
          else_branch = b () => (q) { q = Concat <axis = 0> (x, x) }
        > }""",
        "",
        r"its output 1 is float32\[3\] in then_branch \('p'\) and float32\[6\] in else_branch",
    ),
    "unknown operators of both branches": (
        """agraph (float[3] x, bool c) => (float[k] y, float[3] z) {
          y = If (c) <
            then_branch = a () => (p) { p = local.One(x) },
            else_branch = b () => (q) { q = local.Two(x) r = Elu <alpha = 1> (q) }
          >
          z = local.Three(x)
        }""",
        "",
        "(?s)nodes of the model.*local.One.*local.Two.*local.Three",
    ),
    "a loop that grows for long": (
        """agraph (float[1] x) => (float[k] y) <int64 m = {1000}> {
          y = Loop (m, , x) <
            body = step (int64 i, bool c, float[k] s) => (bool c2, float[l] s2) {
              c2 = Identity(c)
              s2 = Concat <axis = 0> (s, x)
            }
          >
        }""",
        "",
        r"its state 's' is float32\[1\] before an iteration and float32\[2\] after it",
    ),
    "scan outputs of a computed count": (
        """agraph (float[1] x, int64 n) => (float[k,1] y) {
          y = Loop (n, ) <
            body = step (int64 i, bool c) => (bool c2, float[1] row) {
              c2 = Identity(c)
              row = Identity(x)
            }
          >
        }""",
        "",
        "no constant limits these: give the Loop a constant trip count",
    ),
    "a loop without an end": (
        """agraph (float[1] x) => (float[1] y) {
          y = Loop ( , , x) <
            body = step (int64 i, bool c, float[1] s) => (bool c2, float[1] s2) {
              c2 = Identity(c)
              s2 = Identity(s)
            }
          >
        }""",
        "",
        "its condition is always true, and it has no trip count",
    ),
    "more scan inputs than inputs": (
        """agraph (float[3] x) => (float[3] y) { y = Scan <num_scan_inputs = 2,
          body = step (float a) => (float b) { b = Relu(a) }> (x) }""",
        "",
        "it has 1 inputs, and num_scan_inputs is 2",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name):
    text, functions, message = BAD[name]
    with pytest.raises((dmlax.UnsupportedError, dmlax.onnx.ModelError), match=message):
        dmlax.onnx.load(model_of(text, functions))


def test_many_calls_of_functions_take_no_memory():
    functions = "".join(
        f"""<opset_import: ["" : 17, "local" : 1], domain: "local">
        f{i} (x) => (y) {{ a = local.f{i + 1}(x) y = local.f{i + 1}(a) }}
        """
        for i in range(30)
    )
    functions += """<opset_import: ["" : 17], domain: "local">
        f30 (x) => (y) { y = Relu(x) }"""
    file = model_of("agraph (float[3] x) => (float[3] y) { y = local.f0(x) }", functions)
    with pytest.raises(dmlax.onnx.ModelError, match=r"function 'local.f\d+', of many nodes, needs"):
        dmlax.onnx.load(file)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_deep_subgraphs_are_refused(as_bytes):
    graph = onnx.helper.make_graph([], "g", [], [onnx.ValueInfoProto(name="x")])
    for _ in range(12):
        node = onnx.helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)
        graph = onnx.helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")])
    graph.input.extend(model_of(CASES["if"][0]).graph.input)
    file = onnx.helper.make_model(graph)
    with pytest.raises(dmlax.onnx.ModelError, match="nested deeper than 8 subgraphs"):
        dmlax.onnx.load(file.SerializeToString() if as_bytes else file)

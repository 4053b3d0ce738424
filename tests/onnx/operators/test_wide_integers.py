"""Integers of 64 bits in models, with x64 off: ONNX Runtime's values, whatever their size."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from onnx import TensorProto, helper, numpy_helper

import dmlax
import dmlax.onnx
from dmlax.onnx import peer
from support import onnx_files
from support.onnx_files import parse

SIZES = (0, 1, -1, 3, 97, -(2**15), 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**40 + 3, -(2**53) - 1)
GRAPHS = range(12)


class _Draw:
    """A random graph of operators on tensors of 64 bits."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.dtype = np.dtype(np.uint64 if seed % 4 == 3 else np.int64)
        self.nodes, self.constants, self.types = [], {}, {}
        self.inputs = {"x": self.values(), "f": self.floats(), "n": self.narrow()}
        self.tensors = ["x"]  # tensors of the dtype, [3, 4]
        self.add("Cast", "n", to=helper.np_dtype_to_tensor_dtype(self.dtype))
        for _ in range(10):
            self.node()

    def values(self):
        pool = [*SIZES, *(1 << self.random.integers(0, 62, 4))]
        drawn = self.random.choice(np.array(pool, np.int64), (3, 4))
        return drawn if self.dtype == np.int64 else abs(drawn).astype(np.uint64)

    def floats(self):
        return self.random.choice(np.float32([3e9, 2.5, 1e18, 0, 7.9, 2**31, 1e12]), (3, 4))

    def narrow(self):
        dtype = self.random.choice(["uint32", "int32", "uint8", "bool"])
        if self.dtype == np.uint64 and dtype == "int32":
            dtype = "uint32"
        return np.abs(self.random.integers(-(2**31), 2**31 - 1, (3, 4))).astype(dtype)

    def any(self):
        return str(self.random.choice(self.tensors[-6:]))

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [f"{op}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        self.tensors.append(names[0])
        return names[0]

    def node(self):
        choices = [self.pair, self.pair, self.by_constant, self.move, self.cast]
        signed = [self.choose, self.place, self.reduction]  # what ORT does not have of uint64
        choices += [self.unary, *(signed if self.dtype == np.int64 else [])]
        self.random.choice(choices)()

    def pair(self):
        op = self.random.choice(["Add", "Sub", "Mul", "Max", "Min"])
        self.add(op, self.any(), self.any())

    def by_constant(self):
        value = int(self.random.choice([2, 7, 1000, 2654435, 2**33 + 1]))
        sign = -1 if self.dtype == np.int64 and self.random.integers(2) else 1
        op = self.random.choice(["Div", "Mod", "Mul", "Add", "BitwiseAnd", "BitwiseXor", "Clip"])
        constant = self.constant(np.array(abs(value) * (1 if op == "Clip" else sign), self.dtype))
        options = {"fmod": int(self.random.integers(2))} if op == "Mod" else {}
        low = self.constant(np.array(0, self.dtype))
        self.add(op, self.any(), *([low] if op == "Clip" else []), constant, **options)

    def unary(self):
        if self.dtype == np.uint64:
            count = self.constant(np.array(self.random.integers(0, 60), np.uint64))
            way = str(self.random.choice(["LEFT", "RIGHT"]))
            return self.add("BitShift", self.any(), count, direction=way)
        return self.add(self.random.choice(["Neg", "Abs", "Sign", "BitwiseNot"]), self.any())

    def move(self):
        if self.random.integers(2):
            rows = self.constant(self.random.integers(-3, 3, 3))
            return self.add("Gather", self.any(), rows)
        axis = int(self.random.integers(2))
        self.add("Concat", self.any(), self.any(), axis=axis)
        ends = self.constant(np.array([2**63 - 1 if axis else 5, 2**63 - 1 if not axis else 6]))
        starts = self.constant(np.array([0 if axis else 2, 2 if axis else 0]))
        return self.add("Slice", self.tensors.pop(), starts, ends)

    def reduction(self):
        op = self.random.choice(["ReduceMax", "ReduceMin", "CumSum"])  # ORT sums others in float64
        axis = self.constant(np.array(1) if op == "CumSum" else np.array([0]))
        self.add(op, self.any(), axis)
        if op != "CumSum":
            self.add("Expand", self.tensors.pop(), self.constant(np.array([3, 4])))

    def cast(self):
        number = helper.np_dtype_to_tensor_dtype(self.dtype)
        if self.random.integers(2):
            return self.add("Cast", "f", to=number)
        to = int(self.random.choice([1, 6, 7, 9, 12, 13]))
        if to in (6, 12, 13, 9):
            self.add("Cast", self.any(), to=to)
            source = self.tensors.pop()
            return self.add("Cast", source, to=number)
        self.add("Cast", self.any(), to=to)
        self.tensors.pop()
        return None

    def choose(self):
        self.add(self.random.choice(["Less", "Equal", "Greater"]), self.any(), self.any())
        condition = self.tensors.pop()
        self.add("Where", condition, self.any(), self.any())

    def place(self):
        rows = self.constant(np.array([[2], [0]]))
        self.add("Gather", self.any(), self.constant(np.array([1, 1])))
        updates = self.tensors.pop()
        self.add("ScatterND", self.any(), rows, updates)
        self.add("TopK", self.any(), self.constant(np.array([4])), outputs=2)

    def file(self):
        outputs = dict.fromkeys(name for name in self.tensors if name != "x")
        return onnx_files.model(self.nodes, self.inputs, [*outputs], self.constants)


@pytest.mark.parametrize("seed", GRAPHS)
def test_random_graphs_compute_what_onnx_runtime_computes(seed):
    draw = _Draw(seed)
    file = draw.file()
    expected = peer.run(peer.start(file), draw.inputs)
    model = dmlax.onnx.load(file)
    for outputs in (model(draw.inputs), model.apply(model.params, draw.inputs)):
        for name, y in expected.items():
            assert np.asarray(outputs[name]).tolist() == y.tolist(), name


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare"])
def test_reductions_are_exact(op):
    """ONNX Runtime computes these in float64."""
    x = np.random.default_rng(3).integers(-(2**20), 2**20, (3, 2)) * 2**11 + 1
    file = parse(
        f"agraph (int64[n,2] x) => (int64[2] y) <int64[1] a = {{0}}> {{"
        f"y = {op} <keepdims = 0> (x, a) }}"
    )
    right = {
        "ReduceSum": x.sum(0),
        "ReduceProd": x.prod(0),
        "ReduceL1": abs(x).sum(0),
        "ReduceSumSquare": (x * x).sum(0),
    }
    assert np.asarray(dmlax.onnx.load(file)(x)["y"]).tolist() == right[op].tolist()


def test_means_are_truncated_and_exact():
    x = np.array([[2**60 + 1, -7], [2**60 + 5, -8]])
    file = parse("agraph (int64[2,2] x) => (int64[2,1] y) { y = ReduceMean (x, a) }", a=[0])
    assert np.asarray(dmlax.onnx.load(file)(x)["y"]).tolist() == [[2**60 + 3, -7]]


HASH = """agraph (int64[n] x) => (int64[n] y, int64[n] z, int64[n] k) <int64 m = {2654435769},
  int64 d = {1000}> {
  p = Mul (x, m)
  z = CumSum (p, i)
  y = Mod (p, d)
  v, k = TopK (z, t)
}"""


def _hash():
    return parse(HASH, i=0, t=[2])


def _of_hash(x):
    z = np.cumsum(x * 2654435769)
    return {"y": x * 2654435769 % 1000, "z": z, "k": np.argsort(-z, kind="stable")[:2]}


X = np.array([1, 977, -5, 2**31 - 1])


def test_a_product_is_the_same_in_every_transformation():
    model = dmlax.onnx.load(_hash(), input_shapes={"x": [4]})
    assert {name: y.dtype.name for name, y in model.outputs.items()} == {
        "y": "int32",  # values below 1000
        "z": "int64",
        "k": "int32",  # indices
    }
    narrow = jnp.asarray(X, jnp.int32)

    def apply(x):
        return model.apply(model.params, x)

    exported = export.deserialize(model.export(narrow).serialize())
    mapped = jax.vmap(apply)(jnp.stack([narrow, narrow]))
    mesh = jax.make_mesh((1,), ("i",))
    sharded = jax.device_put(narrow, jax.NamedSharding(mesh, jax.P("i")))
    manual = jax.jit(
        jax.shard_map(apply, mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"), check_vma=True)
    )
    ways = [
        model(X),
        model(narrow),
        apply(X),
        jax.jit(apply)(narrow),
        jax.jit(apply)(sharded),
        manual(sharded),
        jax.jit(exported.call)(model.params, {"x": narrow}),
        {name: y[1] for name, y in mapped.items()},
        {name: y[0] for name, y in jax.jit(jax.vmap(apply))(narrow[None]).items()},
    ]
    with jax.enable_x64(True):
        ways.append(dmlax.onnx.load(_hash())(X))
    for outputs in ways:
        for name, y in _of_hash(X).items():
            assert np.asarray(outputs[name]).tolist() == y.tolist(), name


def test_symbolic_sizes_and_saved_models(tmp_path):
    model = dmlax.onnx.load(_hash(), outputs=["y", "z"])
    assert str(model.outputs["z"].shape) == "(n,)"
    assert model.outputs["z"].dtype == np.int64
    exported = model.export()
    model.save(tmp_path / "saved.dmlax")
    loaded = dmlax.onnx.load(tmp_path / "saved.dmlax")
    for outputs in (
        exported.call(model.params, {"x": jnp.asarray(X, jnp.int32)}),
        loaded(X),
        loaded(X[:3] * 2**33),
    ):
        x = X if len(outputs["y"]) == 4 else X[:3] * 2**33
        assert np.asarray(outputs["z"]).tolist() == _of_hash(x)["z"].tolist()


BODIES = {
    "If": """agraph (int64[3] x, bool c) => (int64[3] y) <int64 m = {2654435769}> {
      y = If (c) <then_branch = t () => (int64[3] a) { a = Mul (x, m) },
                  else_branch = e () => (int64[3] b) { b = Identity (x) }>
    }""",
    "Loop": """agraph (int64[3] x, bool c) => (int64[3] y, int64[4,3] z)
      <int64 n = {4}, int64 m = {1000}> {
      y, z = Loop (n, , x) <body = b (int64 i, bool d, int64[3] s) =>
        (bool d2, int64[3] s2, int64[3] r) {
          d2 = Identity (d)
          p = Mul (s, m)
          s2 = Add (p, i)
          r = Sub (s, i)
      }>
    }""",
    "while": """agraph (int64[3] x, bool c) => (int64[3] y) <int64 m = {100},
      int64 l = {100000000000}> {
      y = Loop (, c, x) <body = b (int64 i, bool d, int64[3] s) => (bool d2, int64[3] s2) {
          s2 = Mul (s, m)
          t = ReduceMax <keepdims = 0> (s2)
          d2 = Less (t, l)
      }>
    }""",
    "Scan": """agraph (int64[3] x, bool c) => (int64 y, int64[3] z, bool n) <int64 o = {1}> {
      n = Not (c)
      y, z = Scan (o, x) <num_scan_inputs = 1, body = b (int64 s, int64 e) => (int64 s2, int64 r) {
          p = Mul (s, e)
          s2 = Mul (p, e)
          r = Identity (s2)
      }>
    }""",
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("is_narrow", [True, False])
def test_subgraphs(name, is_narrow):
    file = parse(BODIES[name])
    x = np.array([3, 77_777, 2**31 - 1 if is_narrow else 2**33])
    model = dmlax.onnx.load(file)
    inputs = {"x": x, "c": np.array(True)}
    expected = peer.run(peer.start(file), inputs)
    for outputs in (model(inputs), model.apply(model.params, inputs)):
        for output, y in expected.items():
            assert np.asarray(outputs[output]).tolist() == y.tolist()


def test_indices_beyond_32_bits_are_outside():
    file = parse("agraph (int64[3] i, float[5] w) => (float[3] y) { y = Gather (w, i) }")
    w, i = np.float32([1, 2, 3, 4, 5]), np.array([4, 2**32, -1 - 2**32])
    assert dmlax.onnx.load(file)(i, w)["y"].tolist() == [5, 0, 0]


def test_indices_stay_narrow_in_the_program():
    """A position is computed in 64 bits, and looked up in 32."""
    file = parse("""agraph (int64[1,4] i, float[9,2] w) => (float[1,4,2] y, int64[1,2] k)
      <int64 o = {1}> { p = Add (i, o)
      y = Gather (w, p)
      k = ArgMax <axis = 1, keepdims = 0> (y) }""")
    model = dmlax.onnx.load(file)
    text = str(jax.make_jaxpr(model.apply)(model.params, model.inputs))
    assert model.outputs["k"].dtype == np.int32
    gather = next(line for line in text.splitlines() if "= gather" in line)
    assert "i64" not in gather


def test_known_values_are_exact():
    file = parse("""agraph (int64[1] x) => (int64[1] y)
      <int64 a = {9007199254740993}, int64 o = {1}, int64 t = {10}> {
      q = Div (a, o)
      r = Mod (q, t)
      y = Add (x, r) }""")
    assert dmlax.onnx.load(file)(np.array([4]))["y"].tolist() == [7]


def test_files_of_from_jax_keep_uint32():
    x = np.array([4294967295, 7, 3000000000], np.uint32)
    file = dmlax.onnx.from_jax(lambda x: x // jnp.uint32(7), x)
    assert np.asarray(
        dmlax.onnx.load(file)(x)["y"]
        if "y" in [o.name for o in file.graph.output]
        else next(iter(dmlax.onnx.load(file)(x).values()))
    ).tolist() == [613566756, 1, 428571428]


BIG = np.array([[2**40 + 1, -(2**33), 5], [2**31, -7, 2**62 + 1]])
EACH = {  # the operator, the attributes and the inputs, of which the first is not constant
    "ArgMax": [{}, BIG],
    "ArgMin": [{"axis": 1}, BIG],
    "Cast to float": ["Cast", {"to": TensorProto.FLOAT}, BIG],
    "Cast to int32": ["Cast", {"to": TensorProto.INT32}, BIG],
    "Cast to uint64": ["Cast", {"to": TensorProto.UINT64}, BIG],
    "Cast to bool": ["Cast", {"to": TensorProto.BOOL}, BIG * 2**32],
    "CastLike": [{}, np.float32([2**40, -3.5]), np.array([1])],
    "Compress": [{"axis": 1}, BIG, np.array([True, False, True])],
    "ConstantOfShape": [{"value": numpy_helper.from_array(np.array([2**40]))}, np.array([2])],
    "CumProd": [{}, BIG, np.array(1)],
    "CumSum": [{"reverse": 1, "exclusive": 1}, BIG, np.array(1)],
    "DepthToSpace": [{"blocksize": 2}, BIG[:, :2].reshape(1, 4, 1, 1)],
    "Einsum": [{"equation": "ij,kj->ik"}, BIG, BIG],
    "Equal": [{}, BIG, np.array([1, 0, 5])],
    "GatherElements": [{"axis": 1}, BIG, np.array([[-1], [1]])],
    "GatherND": [{}, BIG, np.array([[1, 2]])],
    "Greater": [{}, BIG, np.array([2**40, 0, 5])],
    "Identity": [{}, BIG],
    "IsNaN": ["Not", {}, np.array([True])],
    "MatMul": [{}, BIG, BIG.T.copy()],
    "Max": [{}, BIG, np.array([2**35]), np.array([7])],
    "Pad": [{}, BIG, np.array([0, 1, 0, 0]), np.array(2**50)],
    "Pad by reflection": ["Pad", {"mode": "reflect"}, BIG, np.array([0, 1, 0, 0])],
    "Pow": [{}, np.array([2**40 + 1, -(2**33), 5]), np.array([1, 1, 20])],
    "ReduceMax": [{}, BIG, np.array([0])],
    "ReduceMin": [{}, BIG],
    "Relu": ["Abs", {}, BIG],
    "ScatterElements": [{"reduction": "add"}, BIG, np.array([[0], [1]]), BIG[:, 2:]],
    "ScatterND": [{"reduction": "mul"}, BIG, np.array([[1], [1]]), BIG],
    "Sign": [{}, BIG],
    "Split": [{"axis": 1}, BIG[:, :2].copy()],
    "Tile": [{}, BIG, np.array([1, 2])],
    "TopK": [{"largest": 0}, BIG, np.array([2])],
    "Trilu": [{}, BIG],
    "Where": [{}, np.array([True, False, True]), BIG, np.array(2**34)],
}


@pytest.mark.parametrize("case", EACH)
@pytest.mark.parametrize("is_known", [False, True])
def test_each_operator(case, is_known):
    is_known = is_known or case == "ConstantOfShape"
    op, attributes, *arrays = EACH[case] if isinstance(EACH[case][0], str) else (case, *EACH[case])
    names = [f"i{i}" for i in range(len(arrays))]
    outputs = ["y", "z"] if op in ("Split", "TopK") else ["y"]
    attributes = attributes | ({"num_outputs": 2} if op == "Split" else {})
    node = helper.make_node(op, names, outputs, **attributes)
    nodes = [node, *(helper.make_node("Identity", [name], [f"{name}_"]) for name in outputs)]
    constants = dict(zip(names, arrays, strict=True))
    given = {"unused": np.ones(1, np.float32)} if is_known else {"i0": constants.pop("i0")}
    wanted = [f"{name}_" for name in outputs]
    if is_known:
        nodes.append(helper.make_node("Identity", ["unused"], ["u"]))
        wanted.append("u")
    file = onnx_files.model(nodes, given, wanted, constants, 26 if op == "CumProd" else 18)
    with jax.enable_x64(True):
        expected = {name: np.asarray(y) for name, y in dmlax.onnx.load(file)(given).items()}
    if op not in ("CumProd", "DepthToSpace", "Einsum"):  # ONNX Runtime lacks them for int64
        theirs = peer.run(peer.start(file), given)
        for name, y in theirs.items():
            assert y.tolist() == expected[name].tolist()
    for name, y in dmlax.onnx.load(file)(given).items():
        assert np.asarray(y).tolist() == expected[name].tolist(), name

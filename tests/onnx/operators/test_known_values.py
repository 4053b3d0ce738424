"""Shapes that depend on constants and sizes: all that is known is computed while a model loads."""

import jax
import numpy as np
import onnxruntime
import pytest

import dmlax
import dmlax.onnx
from support import compilations
from support.onnx_files import parse

X = np.ones((4, 3), np.float32)
F = np.float32


def _shape_of(file):
    return onnxruntime.InferenceSession(file.SerializeToString()).run(None, {"x": X})[0].shape


OF_CONSTANTS = {  # nodes that make `o` of constants
    "OneHot": ("o = OneHot(a, d, v)", {"a": [1], "d": 3, "v": [2, 3]}),
    "MatMul": ("o = MatMul(a, b)", {"a": F([[1, 2]]), "b": F([[1], [2]])}),
    "Gemm": ("o = Gemm(a, b)", {"a": F([[1, 2]]), "b": F([[1], [2]])}),
    "Einsum": ('o = Einsum<equation = "i,i->i">(a, a)', {"a": F([1, 2])}),
    "Exp": ("o = Exp(a)", {"a": F([1, 1.5])}),
    "Log": ("o = Log(a)", {"a": F([21, 8])}),
    "Sum": ("o = Sum(a, a)", {"a": F([1, 2])}),
    "Mean": ("o = Mean(a, a)", {"a": F([1, 2])}),
    "Softmax": ("p = Softmax(a)\n o = Mul(p, h)", {"a": F([1, 1]), "h": F(7)}),
    "Q/DQ": (
        "q = QuantizeLinear(a, u)\n o = DequantizeLinear(q, u)",
        {"a": F([1, 2]), "u": F(0.5)},
    ),
    "EyeLike": ("e = EyeLike<dtype=7>(a)\n o = Add(e, d)", {"a": F([[1, 2]]), "d": 1}),
    "TopK": ("o, p = TopK(a, k)", {"a": F([1, 5, 3]), "k": [2]}),
    "Conv": ("c = Conv(a, b)\n o = Reshape(c, m)", {"a": F([[[1, 2, 3]]]), "b": F([[[1, 1]]])}),
    "ReduceL2": ("o = ReduceL2(a)", {"a": F([3, 4])}),
    "Sqrt": ("o = Sqrt(a)", {"a": F([4, 9])}),
    "NonZero": ("z = NonZero(a)\n o = Add(z, d)", {"a": F([0, 5, 3]), "d": 1}),
    "CumSum": ("o = CumSum(a, d)", {"a": [1, 2], "d": 0}),
    "Compress": ("o = Compress(a, c)", {"a": [1, 2, 3], "c": [True, False, True]}),
}
REST = "s64 = Cast<to=7>(o)\n s = Reshape(s64, m)\n y = Expand(one, s)"


@pytest.mark.parametrize("name", OF_CONSTANTS)
def test_shapes_of_constants(name):
    nodes, constants = OF_CONSTANTS[name]
    text = f"agraph (float[n,3] x) => (float[k] y) {{ {nodes}\n {REST} }}"
    file = parse(text, **constants, m=[-1], one=F([1]))
    assert dmlax.onnx.load(file)(X)["y"].shape == _shape_of(file)


OF_SIZES = {  # nodes that make `o` of the shape `i`; False if a symbolic size prevents it
    "Sqrt": ("f = Cast<to=1>(i)\n q = Sqrt(f)\n o = Cast<to=7>(q)", False),
    "Ceil": ("f = Cast<to=1>(i)\n q = Mul(f, h)\n c = Ceil(q)\n o = Cast<to=7>(c)", False),
    "ArgMax": ("o = ArgMax(i)", False),
    "TopK": ("o, p = TopK(i, t)", False),
    "CumSum": ("o = CumSum(i, z)", False),
    "Sqrt of a static size": ("g = Gather(i, d)\n f = Cast<to=1>(g)\n o = Sqrt(f)", True),
    "Abs": ("o = Abs(i)", True),
    "Max": ("o = Max(i, d)", True),
    "Clip": ("o = Clip(i, z, d)", True),
    "Concat": ("o = Concat<axis = 0>(i, t)", True),
    "Mod": ("o = Mod(i, t)", True),
    "ScatterND": ("a = Unsqueeze(t, z)\n o = ScatterND(i, a, t)", True),
    "Where": ("c = Greater(i, z)\n o = Where(c, i, d)", True),
    "ReduceProd": ("o = ReduceProd(i)", True),
    "ReduceSum": ("o = ReduceSum(i)", True),
    "ReduceMax": ("j = Concat<axis = 0>(t, t)\n o = ReduceMax(j)", True),
    "Tile": ("o = Tile(i, t)", True),
    "Pad": ("p = Concat<axis = 0>(t, t)\n o = Pad(i, p)", True),
    "GatherElements": ("o = GatherElements(i, t)", True),
    "Slice": ("o = Slice(i, t, e)", True),
    "NonZero": ("n = NonZero(i)\n o = Add(n, d)", True),
}


@pytest.mark.parametrize("name", OF_SIZES)
def test_shapes_of_sizes(name):
    nodes, is_symbolic = OF_SIZES[name]
    text = f"agraph (float[n,3] x) => (float[k] y) {{ i = Shape(x)\n {nodes}\n {REST} }}"
    constants = {"m": [-1], "one": F([1]), "h": F(0.5), "t": [1], "z": 0, "d": 1, "e": [2]}
    file = parse(text, **constants)
    wanted = _shape_of(file)
    if is_symbolic:
        assert dmlax.onnx.load(file)(X)["y"].shape == wanted
    else:
        text = r'symbolic here, n: give static sizes, as input_shapes=\{"x": \[1, 3\]\}'
        with pytest.raises(dmlax.UnsupportedError, match=text) as caught:
            dmlax.onnx.load(file)
        assert "depends on values" not in str(caught.value)
    static = dmlax.onnx.load(file, input_shapes={"x": [4, 3]})
    for y in (static(X)["y"], jax.jit(static.apply)(static.params, X)["y"]):
        assert y.shape == wanted


def test_values_of_an_input_are_still_named():
    text = "agraph (float[n,3] x) => (float[k] y) { o = Exp(x)\n" + REST + "}"
    file = parse(text, m=[-1], one=F([1]))
    with pytest.raises(dmlax.UnsupportedError, match="'s', depends on values of an input"):
        dmlax.onnx.load(file)


def test_element_wise_functions_of_few_elements_compile_once():
    """As a file makes windows and tables of a Fourier transform: of any shape, and broadcast."""
    text = """agraph (float[n] x) => (float[k, k] y) {
        r = Range(z, k, one)
        column = Reshape(r, m)
        table = Mul(column, r)
        c = Sqrt(table)
        is_less = Less(c, r)
        e = Where(is_less, c, one)
        y = Add(x, e)
    }"""
    for k, is_new in ((3, True), (1, False), (65, True)):  # a table has more than a row
        constants = {"z": F(0), "k": F(k), "one": F(1), "m": [-1, 1]}
        file, x = parse(text, **constants), np.ones(k, np.float32)
        with compilations() as programs:
            loaded = dmlax.onnx.load(file)
        (wanted,) = onnxruntime.InferenceSession(file.SerializeToString()).run(None, {"x": x})
        np.testing.assert_allclose(loaded(x)["y"], wanted, rtol=1e-6)
        assert (len(programs) > 2) == is_new  # a Range compiles for each length

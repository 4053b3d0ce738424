"""Float64 inside of a file, with JAX's 64-bit types off."""

import jax
import numpy as np
import pytest

import dmlax
import dmlax.onnx
from support.onnx_files import File

FLOAT32, FLOAT64 = 1, 11
RNG = np.random.default_rng(3)
MOVES = {
    "none": lambda file, x: x,
    "Reshape": lambda file, x: file.node("Reshape", x, file.constant(np.int64([-1]))),
    "Transpose": lambda file, x: file.node("Transpose", x),
    "Concat": lambda file, x: file.node("Concat", x, x, axis=0),
}
EXACT = {  # functions of a float64 tensor, and the dtype of the result, None for float64
    "IsInf": (lambda file, x: file.node("IsInf", x), bool),
    "IsNaN": (lambda file, x: file.node("IsNaN", x), bool),
    "Floor": (lambda file, x: file.node("Floor", x), None),
    "Greater": (lambda file, x: file.node("Greater", x, file.constant(np.float64(0.25))), bool),
    "Clip": (lambda file, x: file.node("Clip", x, file.constant(np.float64(-0.5))), None),
    "Mul": (lambda file, x: file.node("Mul", x, file.constant(np.float64(1.1875))), None),
    "Div": (lambda file, x: file.node("Div", x, file.constant(np.float64(3))), None),
    "square": (lambda file, x: file.node("Mul", x, x), None),
    "TopK": (lambda file, x: top(file, x), None),
}


def top(file, x):
    rows = file.node("Reshape", x, file.constant(np.int64([-1])))
    return file.node("TopK", rows, file.constant(np.int64([3])), outputs=2)[0]


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("function", EXACT)
def test_float64_that_needs_none(function, move):
    compute, dtype = EXACT[function]
    file = File(22)
    values = RNG.standard_normal((3, 4)).astype(np.float32)
    if function.startswith("Is"):
        values[0, :2] = np.inf, np.nan
    x = file.node("Cast", file.input(values), to=FLOAT64)
    y = MOVES[move](file, compute(file, x))
    y = file.node("Cast", y, to=FLOAT32) if dtype is None else y
    file.output(y, dtype or np.float32)
    file.compare()


REFUSED = {
    "a constant that float32 rounds": lambda file, x: file.node(
        "Mul", x, file.constant(np.float64(0.1))
    ),
    "two products": lambda file, x: file.node("Mul", file.node("Mul", x, x), x),
    "a softmax": lambda file, x: file.node("Softmax", x),
    "an output": lambda file, x: x,
}


@pytest.mark.parametrize("name", REFUSED)
def test_float64_that_is_needed(name):
    file = File(22)
    x = file.node("Cast", file.input(RNG.standard_normal(5).astype(np.float32)), to=FLOAT64)
    y = REFUSED[name](file, x)
    file.output(y, np.float64)
    text = r'float64 on a device needs x64: jax\.config\.update\("jax_enable_x64", True\)'
    with pytest.raises(dmlax.UnsupportedError, match=text) as caught:
        dmlax.onnx.load(file.model())
    assert x not in str(caught.value).splitlines()[-1]  # no option can return it
    with jax.enable_x64(True):
        file.compare(1e-6)

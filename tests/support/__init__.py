"""Helpers of several tests: seeded arrays, exact comparison, the oracle on NumPy arrays."""

import contextlib
import doctest
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from dmlax._cpu import library
from dmlax_conformance.format import vectors
from dmlax_conformance.format.tensors import from_numpy, to_numpy
from dmlax_conformance.format.vectors import Request, Vector
from dmlax_conformance.oracle.calls import answer
from dmlax_conformance.oracle.exact import rescale

_CPU = Path("/proc/cpuinfo")
HAS_VNNI = _CPU.exists() and "vnni" in _CPU.read_text()  # elsewhere ONNX Runtime saturates sums
NATIVE = [] if library.why_not("cpu") else ["native_cpu"]  # tests/cpu says when it must be there
needs_kernels = pytest.mark.skipif(not NATIVE, reason="the kernels are not built")
OLDEST = pytest.mark.oldest  # a test that runs on the oldest Python and JAX too
ParameterSet = type(pytest.param())
WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
DOCTEST = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
WINDOW_FIELDS = {
    "strides": ("Strides", 1),
    "dilations": ("Dilations", 1),
    "start_padding": ("StartPadding", 0),
    "end_padding": ("EndPadding", 0),
}


def in_turn(values: Iterable[Any], turn: int = 0) -> list[Any]:
    """Parameters of a test: every other quick one runs on the oldest pair too, from `turn` on."""
    parameters = [
        value if isinstance(value, ParameterSet) else pytest.param(*_as_tuple(value))
        for value in values
    ]
    quick = [i for i, parameter in enumerate(parameters) if not parameter.marks]
    for i in quick[turn % 2 :: 2]:
        parameters[i] = pytest.param(*parameters[i].values, marks=OLDEST)
    return parameters


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def by_implementations(cases: Iterable[tuple[Any, ...]], names: Sequence[str]) -> list[Any]:
    """Every case by the kernels, every other case by `xla` or `reference` in turn; others slow."""
    turns = itertools.cycle(("xla", "", "reference", ""))
    return [
        pytest.param(*case, name, marks=() if name in (*NATIVE, turn) else pytest.mark.slow)
        for case, turn in zip(cases, turns, strict=False)
        for name in names
    ]


@functools.cache
def suite() -> list[Vector]:
    """Every golden vector; to read them takes seconds."""
    return vectors.load_all()


def run_page(page: Path) -> None:
    """Runs the programs of a page, which must show what happens."""
    result = doctest.testfile(str(page), module_relative=False, optionflags=DOCTEST)
    assert result.attempted > 2
    assert result.failed == 0


def bits(x: Any) -> np.ndarray:
    """The bit patterns of any array."""
    array = np.asarray(x)
    return array.astype(np.uint8) if array.dtype == bool else array.view(WORDS[array.itemsize])


def assert_same(actual: Any, expected: Any) -> None:
    """Same dtype, same shape, same bits."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(bits(actual), bits(expected))


@contextlib.contextmanager
def compilations() -> Iterator[list[str]]:
    """The programs that JAX compiles meanwhile, an event for each."""
    found: list[str] = []

    def listen(event: str, *_: Any, **__: Any) -> None:
        if "backend_compile" in event:
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def shaped(*sizes: int, dtype: Any = "uint8") -> jax.ShapeDtypeStruct:
    """The shape of an array that is not there."""
    return jax.ShapeDtypeStruct(sizes, dtype)


def draw(seed: int, dtype: Any, shape: Sequence[int] | int = ()) -> np.ndarray:
    """Integers over a dtype's whole range."""
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    return np.asarray(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))


def wild_floats(seed: int, shape: Sequence[int] | int, dtype: Any = np.float32) -> np.ndarray:
    """Finite nonzero floats of any exponent and sign, a tenth of them subnormal."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    fraction = np.finfo(dtype).nmant
    top = 2 ** (dtype.itemsize * 8 - fraction - 1) - 1
    field = rng.integers(0, top, shape) * (rng.random(shape) > 0.1)
    words = (field << fraction) | rng.integers(1, 1 << fraction, shape)
    words |= rng.integers(0, 2, shape) << (dtype.itemsize * 8 - 1)
    return np.asarray(words.astype(WORDS[dtype.itemsize]).view(dtype))


def oracle(
    operator: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, tuple[Any, Sequence[int]]],
    **attributes: Any,
) -> dict[str, np.ndarray]:
    """The conformance suite's answer, from NumPy arrays; absent inputs are None."""
    given = {k: from_numpy(np.asarray(v)) for k, v in inputs.items() if v is not None}
    asked = {k: Request(np.dtype(dtype).name, tuple(size)) for k, (dtype, size) in outputs.items()}
    return {k: to_numpy(v) for k, v in answer(operator, attributes, given, asked).items()}


def window_attributes(spatial: int, group_count: int = 1, **windows: Any) -> dict[str, Any]:
    """DirectML's fields, from dmlax's keywords."""
    attributes = {
        field: list(windows.get(keyword) or (default,) * spatial)
        for keyword, (field, default) in WINDOW_FIELDS.items()
    }
    return attributes | {"GroupCount": group_count}


def coordinates(x: np.ndarray, width: int | None = None) -> np.ndarray:
    """uint32 rows of what is not zero by its bits, ascending."""
    words = bits(x)
    if x.dtype.kind not in "iub":  # bfloat16 is of kind V
        words = words << words.dtype.type(1)
    rows = np.argwhere(words != 0).astype(np.uint32)
    return rows[:, x.ndim - (x.ndim if width is None else width) :]


def padded_rows(rows: np.ndarray, size: int, fill_value: int = 0) -> np.ndarray:
    """The first `size` rows, and `fill_value` after them."""
    table = np.full((size, rows.shape[1]), fill_value, np.uint32)
    table[: len(rows)] = rows[:size]
    return table


def sums_of_products(
    x: np.ndarray,
    w: np.ndarray,
    input_zero_point: int = 0,
    filter_zero_point: Any = 0,
    group_count: int = 1,
    **windows: Any,
) -> np.ndarray:
    """A convolution of rank 4 by brute force in int64, wrapped to int32."""
    defaults = {k: default for k, (_, default) in WINDOW_FIELDS.items()}
    strides, dilations, start, end = (
        windows.get(k) or (default,) * 2 for k, default in defaults.items()
    )
    x = np.pad(
        x.astype(np.int64) - input_zero_point, [(0, 0), (0, 0), *zip(start, end, strict=True)]
    )
    w = w.astype(np.int64) - np.reshape(np.asarray(filter_zero_point, np.int64), (-1, 1, 1, 1))
    outputs, channels, *kernel = w.shape
    sizes = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(x.shape[2:], kernel, dilations, strides, strict=True)
    ]
    x = x.reshape(len(x), group_count, channels, *x.shape[2:])
    w = w.reshape(group_count, outputs // group_count, channels, *kernel)
    total = np.zeros((len(x), group_count, outputs // group_count, *sizes), np.int64)
    for tap in np.ndindex(*kernel):
        pixels = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilations, sizes, strides, strict=True)
        ]
        met = x[(slice(None),) * 3 + tuple(pixels)]
        total += np.einsum("ngchw,gkc->ngkhw", met, w[(slice(None),) * 3 + tap])
    return total.reshape(len(x), outputs, *sizes).astype(np.int32)


def requantized(
    accumulator: np.ndarray, scales: Sequence[Any], zero_point: Any, dtype: Any
) -> np.ndarray:
    """Correctly rounded, a Fraction an element; scales and zero point broadcast."""
    operands = np.broadcast_arrays(accumulator, *scales, zero_point)
    rows = zip(*(x.reshape(-1).tolist() for x in operands), strict=True)
    name = np.dtype(dtype).name
    words = [
        rescale(a, Fraction(sx) * Fraction(sw) / Fraction(sy), z, name) for a, sx, sw, sy, z in rows
    ]
    return np.array(words, dtype).reshape(operands[0].shape)

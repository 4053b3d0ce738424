"""Functions of JAX's primitives at edge values: ONNX Runtime beside JAX."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx
from jax import lax

import dmlax
import dmlax.onnx
from dmlax.onnx import peer
from tools.differential.own_process import in_own_process

Function = Callable[..., Any]
DTYPES = [
    np.dtype(x)
    for x in (
        *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float16"),
        ml_dtypes.bfloat16,
    )
]
_UNARY = (
    "abs neg sign floor ceil exp log tanh sqrt sin cos tan asin acos atan sinh cosh asinh acosh "
)
_UNARY += "atanh erf logistic rsqrt cbrt log1p expm1 exp2 erfc is_finite square round bitwise_not"
_BINARY = "add sub mul div rem pow max min eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor"


def _primitive(name: str, **params: Any) -> Function:
    return lambda *xs: getattr(lax, name)(*xs, **params)


ELEMENTWISE: dict[str, tuple[int, Function]] = {
    **{name: (1, _primitive(name)) for name in _UNARY.split()},
    **{name: (2, _primitive(name)) for name in _BINARY.split()},
    "round_to_even": (1, lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)),
    **{f"integer_pow_{y}": (1, _primitive("integer_pow", y=y)) for y in (-2, -1, 0, 1, 2, 3, 5, 7)},
    "clamp": (2, lambda x, y: lax.clamp(x, y, jnp.maximum(x, jnp.ones_like(x)))),
    "select": (2, lambda x, y: jnp.where(x > y, x, y)),
    "power_of_int": (1, lambda x: 2.0**x),
    "float_power": (1, lambda x: lax.pow(jnp.float32(-1.5), x) if x.dtype.kind in "iu" else x),
    "softplus": (1, jax.nn.softplus),
    "elu": (1, jax.nn.elu),
    "gelu": (1, lambda x: jax.nn.gelu(x, approximate=False)),
    "silu": (1, jax.nn.silu),
    "logaddexp": (2, jnp.logaddexp),
    "mod": (2, jnp.mod),
    "floor_divide": (2, jnp.floor_divide),
    "by_three": (1, lambda x: (x // 3, x % 3) if x.dtype.kind in "iu" else x),
    **{f"to_{x.name}": (1, lambda x, to=x: x.astype(to)) for x in DTYPES},
}
if hasattr(lax, "one_minus_square"):  # JAX 0.12 and newer have it
    ELEMENTWISE["one_minus_square"] = 1, lax.one_minus_square


def _reduce(name: str, axes: tuple[int, ...]) -> Function:
    return lambda x: getattr(lax, f"reduce_{name}")(x, axes)


def _windows(operation: Function, start: Any, **options: Any) -> Function:
    def function(x: jax.Array) -> jax.Array:
        arguments = (1, 1, 2, 2), (1, 1, 1, 2)
        value = np.asarray(start(x.dtype), x.dtype)
        return lax.reduce_window(x[None, None], value, operation, *arguments, **options)

    return function


def _lowest(dtype: np.dtype) -> Any:
    return -np.inf if jnp.issubdtype(dtype, jnp.floating) else np.iinfo(dtype).min


def _conv(x: jax.Array) -> jax.Array:
    to = jnp.int32 if x.dtype.itemsize == 1 else x.dtype
    options = {"padding": "SAME", "preferred_element_type": to}
    return lax.conv_general_dilated(x[None, None], x[None, None, :2, :2], (1, 1), **options)


SHAPED: dict[str, Function] = {
    **{
        f"reduce_{name}_{len(axes)}": _reduce(name, axes)
        for name in ("sum", "max", "min", "prod", "and", "or", "xor")
        for axes in ((0,), (0, 1))
    },
    **{name: _primitive(name, axis=1, index_dtype=np.int32) for name in ("argmax", "argmin")},
    "cumsum": _primitive("cumsum", axis=1),
    "cumsum_reversed": _primitive("cumsum", axis=0, reverse=True),
    "rev": lambda x: x[:, ::-1],
    "pad": lambda x: lax.pad(x, jnp.ones((), x.dtype), [(1, 2, 0), (-7, 8, 0)]),
    "concatenate": lambda x: jnp.concatenate([x, x.T.reshape(x.shape)]),
    "slice": lambda x: x[1::2, :5],
    "spread": lambda x: lax.broadcast_in_dim(x, (*x.shape, 3), (0, 1)),
    "select_n": lambda x: lax.select_n(jnp.arange(6, dtype=jnp.int32) % 3, *x[:3]),
    "stack": lambda x: jnp.stack([x, x], 1),
    "tile": lambda x: jnp.tile(x, (2, 3)),
    "split": lambda x: jnp.split(x, 2, 1)[1],
    "unstack": lambda x: jnp.unstack(x)[1],
    "iota": lambda x: lax.broadcasted_iota(x.dtype, x.shape, 1) == x,
    "take": lambda x: x[jnp.uint8([1, 0]), ::2],
    "take_filled": lambda x: x.at[jnp.array([1, 9])].get(mode="fill"),
    "gather": lambda x: x[jnp.array([1, 0]), jnp.array([2, 1])],
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (jnp.int8(1), jnp.int8(5)), (2, 2)),
    "update": lambda x: lax.dynamic_update_slice(x, x[:2, :2], (jnp.int8(1), jnp.int8(9))),
    "scan": lambda x: lax.scan(lambda carry, row: (row, carry), x[0], x),
    "empty_scan": lambda x: lax.scan(lambda carry, row: (row, carry), x[0], x[:0]),
    "cond": lambda x: lax.cond(x[0, 0] == x[0, 0], lambda y: y, lambda y: y[::-1], x),
    "max_windows": _windows(lax.max, _lowest, padding="SAME"),
    "max_windows_padded": _windows(lax.max, _lowest, padding=[(0, 0), (0, 0), (2, 3), (0, 1)]),
    "sum_windows": _windows(lax.add, lambda _: 0, padding="SAME"),
    "dot": lambda x: lax.dot(x, x.T),
    "dot_wide": lambda x: lax.dot(x, x.T, preferred_element_type=jnp.promote_types(x.dtype, "i4")),
    "vector_dot": lambda x: jnp.dot(x[0], x[1]),
    "empty_dot": lambda x: lax.dot(x[:, :0], x[:, :0].T),
    "conv": _conv,
    "searchsorted": lambda x: jnp.searchsorted(jnp.arange(9).astype(x.dtype), x, side="right"),
    "interp": lambda x: jnp.interp(x, jnp.arange(4.0), jnp.array([1.0, 3.0, 2.0, 5.0])),
    "softmax": jax.nn.softmax,
    "variance": lambda x: jnp.var(x, 1),
}
_SUMS = ("sum", "prod", "dot", "conv", "cumsum", "softmax", "variance", "interp", "reduce_prod")
_COMPOSED = ("elu", "gelu", "silu", "softplus", "logaddexp")  # they round in between
_OF_FLOATS = ("softmax", "variance")  # JAX casts infinities to the integers
_WINDOWS = "windows"  # part of the names of functions that from_jax has for some dtypes only


def edges(dtype: Any) -> np.ndarray:
    """Values near 0 and near the ends of a dtype; JAX flushes subnormals on CPUs, so none."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return np.array([False, True])
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        numbers = [ends.min, ends.min + 1, -100, -7, -3, -2, -1, 0, 1, 2, 3, 5, 7, 31, 100]
        numbers += [ends.max // 2, ends.max // 2 + 1, ends.max - 1, ends.max]
        return np.array([x for x in numbers if ends.min <= x <= ends.max], dtype)
    ends = ml_dtypes.finfo(dtype)
    floats = [0, 1e-8, 1e-4, 0.1, 0.49999997, 0.5, 0.9, 0.99, 1, 1.0000001, 1.5, 2, 2.5, 3, 3.14]
    floats += [4, 5, 7.5, 9, 10, 12, 15, 18.5, 20, 30, 60, 88, 89, 104, 1000, 65504, 8388607.5]
    floats += [8388609, 2.0**24 + 2, 2.2e9, 3e9, 1e18, 1e19, 1e-20, 1e-30, 1e30, np.inf]
    floats += [float(ends.max), float(ends.tiny), 4 * float(ends.tiny)]
    with np.errstate(over="ignore"):
        values = np.array([sign * x for sign in (1, -1) for x in floats] + [np.nan]).astype(dtype)
    return values[(values == 0) | ~(np.abs(values) < ends.tiny)]


def arguments(name: str, dtype: np.dtype, seed: int = 0) -> list[np.ndarray]:
    """All edge values, all pairs of them, or a matrix of them; small numbers for sums of floats."""
    if name in ELEMENTWISE:
        count, _ = ELEMENTWISE[name]
        grids = np.meshgrid(*[edges(dtype)] * count, indexing="ij")
        return [np.ascontiguousarray(grid) for grid in grids]
    rng = np.random.default_rng(seed)
    if dtype.kind in "biu" or not any(part in name for part in _SUMS):
        return [rng.choice(edges(dtype), (4, 6))]
    return [rng.integers(0, 5, (4, 6)).astype(dtype)]


def function_of(name: str) -> Function:
    return ELEMENTWISE[name][1] if name in ELEMENTWISE else SHAPED[name]


def names_of(dtype: np.dtype) -> Iterator[str]:
    """The functions that JAX and from_jax have for a dtype."""
    for name in (*ELEMENTWISE, *SHAPED):
        integers = dtype.kind in "biu"
        if name == "conv" and integers and dtype not in (np.int8, np.uint8):
            continue
        if name in (_COMPOSED if dtype == jnp.bfloat16 else _OF_FLOATS if integers else ()):
            continue
        if _WINDOWS in name and integers and (dtype not in (np.int8, np.uint8) or "sum" in name):
            continue
        try:
            jax.eval_shape(function_of(name), *arguments(name, dtype))
        except (TypeError, ValueError):
            continue
        yield name


def run(function: Function, inputs: list[np.ndarray], opset: int | None) -> list[np.ndarray]:
    """Runs an export by ONNX Runtime, after the checks of `onnx`; bfloat16 is float32 outside."""
    halves = [x.dtype == ml_dtypes.bfloat16 for x in inputs]

    def outside(*xs: jax.Array) -> Any:
        pairs = zip(xs, halves, strict=True)
        outputs = function(*(x.astype(jnp.bfloat16) if half else x for x, half in pairs))
        return jax.tree.map(lambda y: y.astype(_outside(y.dtype)), outputs)

    model = dmlax.onnx.from_jax(
        outside, *(x.astype(_outside(x.dtype)) for x in inputs), opset=opset
    )
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    names = [x.name for x in model.graph.input]
    feeds = {name: x.astype(_outside(x.dtype)) for name, x in zip(names, inputs, strict=True)}
    return in_own_process(_start_and_run, model.SerializeToString(), feeds)


def _start_and_run(model: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return list(peer.start(model, threads=1).run(None, feeds))


def _outside(dtype: Any) -> Any:
    return jnp.float32 if dtype == jnp.bfloat16 else dtype


def wanted(function: Function, inputs: list[np.ndarray]) -> list[list[np.ndarray]]:
    """JAX's outputs, and those of wider floats: it rounds some functions worse than ONNX does."""
    outputs = [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(*inputs))]
    wide = {2: np.float32, 4: np.float64}
    if any(x.dtype.kind in "biu" for x in inputs):
        return [outputs]
    with jax.enable_x64(True), np.errstate(all="ignore"):
        others = jax.jit(function)(*(x.astype(wide[x.dtype.itemsize]) for x in inputs))
        pairs = zip(jax.tree.leaves(others), outputs, strict=True)
        return [outputs, [np.asarray(x).astype(y.dtype) for x, y in pairs]]


def compare(got: np.ndarray, *references: np.ndarray) -> str:
    """Where no reference is near, by relative error alone; "" if everywhere one is."""
    want = references[0]
    outside = np.dtype(_outside(want.dtype))
    if (got.dtype, got.shape) != (outside, want.shape):
        return f"{got.dtype}{got.shape}, expected {outside}{want.shape}"
    if got.dtype.kind in "biu":
        same = got == want
    else:
        ends = ml_dtypes.finfo(want.dtype)
        room = {2: 2, 4: 64}[want.dtype.itemsize] * float(ends.eps)
        least = float(ends.tiny if ends.nexp == 8 else 2 * ends.smallest_subnormal)
        a, same = got.astype(np.float64), np.zeros(want.shape, bool)
        for reference in references:
            b = reference.astype(np.float64)
            with np.errstate(all="ignore"):
                same |= (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= room * np.abs(b))
            same |= (np.abs(a) <= least * 1.001) & (np.abs(b) <= least * 1.001)
    if same.all():
        return ""
    places = np.argwhere(~same)[:5]
    pairs = [
        f"{tuple(map(int, at))}: {got[tuple(at)]}, expected {want[tuple(at)]}" for at in places
    ]
    return "; ".join(pairs)


def check_together(dtype: np.dtype, opset: int | None) -> list[str]:
    """Compares all functions of a dtype, which are one program; returns what differs."""
    names = list(names_of(dtype))
    inputs = [arguments(name, dtype) for name in names]
    ends = list(itertools.accumulate(map(len, inputs), initial=0))

    def function(*xs: jax.Array) -> list[Any]:
        places = zip(names, itertools.pairwise(ends), strict=True)
        return [jax.tree.leaves(function_of(name)(*xs[a:b])) for name, (a, b) in places]

    flat = list(itertools.chain(*inputs))
    structure = jax.eval_shape(function, *flat)
    labels = [name for name, outputs in zip(names, structure, strict=True) for _ in outputs]
    references = wanted(function, flat)
    outputs = zip(labels, run(function, flat, opset), *references, strict=True)
    found = ((name, compare(got, *wants)) for name, got, *wants in outputs)
    return [f"{dtype} {name}: {why}" for name, why in found if why]


def check(seed: int) -> tuple[str, str]:
    """Draws a function, its dtype, an opset, and moves around it; says "right" or what differs."""
    rng = np.random.default_rng(seed)
    dtype = DTYPES[rng.integers(len(DTYPES))]
    name = str(rng.choice(list(names_of(dtype))))
    opset = [None, 18, 20, 21, 23][rng.integers(5)]
    flips = rng.random(2) < 0.5
    inputs = arguments(name, dtype, seed)
    if name in ELEMENTWISE and rng.random() < 0.3:
        inputs = [x[:0] for x in inputs]

    def function(*xs: jax.Array) -> Any:
        xs = tuple(x.T.reshape(x.shape) if flips[0] else x for x in xs)
        outputs = jax.tree.leaves(function_of(name)(*xs))
        return [y.T if flips[1] else y for y in outputs]

    title = f"{dtype} {name}, opset {opset}, moves {flips.tolist()}"
    try:
        outputs = zip(run(function, inputs, opset), *wanted(function, inputs), strict=True)
        found = [why for got, *wants in outputs if (why := compare(got, *wants))]
    except dmlax.UnsupportedError as error:
        return "refused", f"{title}: {error}"
    except Exception as error:
        return "raw", f"{title}: {type(error).__name__}: {error}"
    return ("wrong", f"{title}: {found[0]}") if found else ("right", "")


def check_all(seeds: range) -> list[tuple[int, str, str]]:
    """Judges some functions; the process keeps no program of them."""
    found = [(seed, *check(seed)) for seed in seeds]
    jax.clear_caches()
    return found

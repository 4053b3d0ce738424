"""Random element-wise calls for the kernels, and what they should give by the suite's oracle."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import dmlax
from support import WORDS, bits, draw, oracle, random_calls, wild_floats

QUANTIZE, DEQUANTIZE = "element_wise_quantize_linear", "element_wise_dequantize_linear"
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


@dataclass(frozen=True)
class Call:
    """One call: parameters that broadcast, or lie along an axis."""

    operator: str
    x: np.ndarray
    scale: np.ndarray
    zero_point: np.ndarray | None
    axis: int | None
    output_dtype: np.dtype
    arithmetic: str

    def __call__(self, implementation: str) -> jax.Array:
        """Outputs by dmlax."""
        options: dict[str, Any] = {"axis": self.axis, "implementation": implementation}
        if self.operator == QUANTIZE:
            options |= {"output_dtype": self.output_dtype, "arithmetic": self.arithmetic}
        function = getattr(dmlax, self.operator)
        result: jax.Array = function(self.x, self.scale, self.zero_point, **options)
        return result

    def expected(self) -> np.ndarray:
        """Outputs by rational arithmetic, or NumPy's float32."""
        scale, zero = self._spread(self.scale), self._spread(self.zero_point)
        if self.arithmetic == "float32":
            return _quantize_float32(self.x, scale, zero, self.output_dtype)
        inputs = {"InputTensor": self.x, "ScaleTensor": scale, "ZeroPointTensor": zero}
        asked = {"OutputTensor": (self.output_dtype, self.x.shape)}
        return oracle(self.operator, inputs, asked)["OutputTensor"]

    def _spread(self, parameter: np.ndarray | None) -> np.ndarray | None:
        if parameter is None or self.axis is None or parameter.size == 1:
            return parameter if parameter is None or parameter.ndim else parameter.reshape(1)
        return parameter.reshape(
            [-1 if i == self.axis % self.x.ndim else 1 for i in range(self.x.ndim)]
        )


def _quantize_float32(
    x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None, dtype: np.dtype
) -> np.ndarray:
    limits, offset = np.iinfo(dtype), 0 if zero is None else zero.astype(np.int64)
    with np.errstate(all="ignore"):
        quotient = x.astype(np.float32) / scale.astype(np.float32)
        rounded = np.rint(np.clip(quotient, -1000, 1000))
    rounded = np.where(np.isnan(rounded), -1000, rounded).astype(np.int64)
    return np.clip(rounded + offset, limits.min, limits.max).astype(dtype)


def call(seed: int) -> Call:
    """A random call of a few hundred elements, of any dtypes and broadcasting."""
    rng = np.random.default_rng(seed)
    shape = _shape(rng)
    axis = int(rng.integers(len(shape))) if rng.random() < 0.4 else None
    scale_shape, zero_shape = (_parameter_shape(rng, shape, axis) for _ in range(2))
    if rng.random() < 0.5:
        zero_shape = scale_shape
    if axis is not None and rng.random() < 0.5:
        axis -= len(shape)
    if seed % 2:
        return _quantize(rng, seed, shape, axis, scale_shape, zero_shape)
    dtype, to = rng.choice(INTEGERS), rng.choice(["float32", "float32", "float16"])
    x = draw(seed + 1, dtype, shape) >> int(rng.choice([0, 0, 5]))
    zero = draw(seed + 2, dtype, zero_shape) if rng.random() < 0.7 else None
    scale = _scales(rng, seed + 3, scale_shape, to)
    return Call(DEQUANTIZE, x, scale, zero, axis, np.dtype(to), "exact")


def _quantize(
    rng: np.random.Generator,
    seed: int,
    shape: tuple[int, ...],
    axis: int | None,
    scale_shape: tuple[int, ...],
    zero_shape: tuple[int, ...],
) -> Call:
    dtype, output = rng.choice(["float32", "float32", "float16", "int32"]), rng.choice(INTEGERS[:2])
    scale = _scales(rng, seed + 1, scale_shape, "float16" if dtype == "float16" else "float32")
    zero = draw(seed + 2, output, zero_shape) if rng.random() < 0.7 else None
    arithmetic = str(rng.choice(["exact", "exact", "float32"]))
    found = Call(QUANTIZE, np.zeros(shape, dtype), scale, zero, axis, np.dtype(output), arithmetic)
    spread = np.broadcast_to(found._spread(scale), shape).astype(np.float64)
    x = _inputs(rng, seed + 3, spread, np.dtype(dtype))
    return Call(QUANTIZE, x, scale, zero, axis, np.dtype(output), arithmetic)


def _shape(rng: np.random.Generator) -> tuple[int, ...]:
    kinds = [(1, 700), (2, 30), (3, 9), (4, 6), (8, 3)]
    rank, most = kinds[int(rng.integers(len(kinds)))]
    shape = rng.integers(1, most, rank)
    if rng.random() < 0.3:  # rows that are long enough for one scale
        shape[-1] = rng.integers(30, 140)
    if rng.random() < 0.05:
        shape[0] = 0
    return tuple(shape.tolist())


def _parameter_shape(
    rng: np.random.Generator, shape: tuple[int, ...], axis: int | None
) -> tuple[int, ...]:
    if axis is not None:
        return [(shape[axis],), (shape[axis],), (1,), ()][int(rng.integers(4))]
    own = shape[int(rng.integers(len(shape) + 1)) :]
    return tuple(int(n) if rng.random() < 0.6 else 1 for n in own)


def _scales(rng: np.random.Generator, seed: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Ordinary ones, powers of two, or finite ones of any exponent."""
    kind = rng.random()
    if kind < 0.3:
        return wild_floats(seed, shape, dtype)
    if kind < 0.4:
        return np.asarray(np.ldexp(1.0, rng.integers(-6, 6, shape)), dtype)
    sign = rng.choice([1, 1, -1], shape)
    return np.asarray(sign * rng.uniform(0.001, 3, shape), dtype)


def _inputs(rng: np.random.Generator, seed: int, scale: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Near ties, quotients in range, and any bits, NaN and infinities among them."""
    shape = scale.shape
    anything = draw(seed, f"uint{dtype.itemsize * 8}", shape).view(dtype)
    with np.errstate(all="ignore"):
        ties = (rng.integers(-300, 300, shape) + 0.5) * scale
        inside = rng.uniform(-300, 300, shape) * scale
    if dtype.kind == "i":
        ties, inside = (np.clip(v, -(2**31), 2**31 - 1).astype(dtype) for v in (ties, inside))
        near = ties + rng.integers(-1, 2, shape).astype(dtype) * (np.abs(ties) < 2**30)
    else:
        with np.errstate(all="ignore"):
            ties, inside = ties.astype(dtype), inside.astype(dtype)
        words = bits(ties) + rng.integers(-2, 3, shape).astype(WORDS[dtype.itemsize])
        near = words.view(dtype)
    which = rng.random(shape)
    return np.where(which < 0.4, near, np.where(which < 0.7, inside, anything)).astype(dtype)


mismatches = functools.partial(random_calls.find_mismatches, call)

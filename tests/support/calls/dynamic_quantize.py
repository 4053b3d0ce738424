"""Random dynamic quantizations, and what they should give by fractions or NumPy's float32."""

import functools
from dataclasses import dataclass
from fractions import Fraction

import jax
import numpy as np

import dmlax
from support import draw, random_calls


@dataclass(frozen=True)
class Call:
    """One call."""

    x: np.ndarray
    dtype: np.dtype
    arithmetic: str

    def __call__(self, implementation: str) -> jax.Array:
        """Outputs by dmlax: all three results as bytes, one after another."""
        found = dmlax.dynamic_quantize_linear(
            self.x,
            output_dtype=self.dtype,
            arithmetic=self.arithmetic,
            implementation=implementation,
        )
        parts = (found.output, found.scale, found.zero_point)
        flat = [jax.lax.bitcast_convert_type(part.ravel(), np.uint8).ravel() for part in parts]
        return jax.numpy.concatenate(flat)

    def expected(self) -> np.ndarray:
        """The results that the call should give."""
        parts = (
            self._float32()
            if self.arithmetic == "float32"
            else dynamic_quantize(self.x, self.dtype)
        )
        return np.concatenate([np.atleast_1d(part).ravel().view(np.uint8) for part in parts])

    def _float32(self) -> tuple[np.ndarray, np.float32, np.ndarray]:
        """ONNX Runtime's recipe."""
        limits, x = np.iinfo(self.dtype), self.x.astype(np.float32)
        low, high = np.minimum(x.min(initial=0), 0), np.maximum(x.max(initial=0), 0)
        with np.errstate(all="ignore"):
            scale = (high - low) / np.float32(255)
            scale = scale if scale > 0 else np.float32(1)
            zero = np.rint(np.clip(np.float32(limits.min) - low / scale, limits.min, limits.max))
            y = np.clip(np.rint(x / scale) + zero, limits.min, limits.max)
        return y.astype(self.dtype), scale, zero.astype(self.dtype)


def dynamic_quantize(x: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.float32, np.ndarray]:
    """The exact results."""
    limits = np.iinfo(dtype)
    values = [Fraction(float(each)) for each in x.ravel()]
    low, high = min(values, default=Fraction(0)), max(values, default=Fraction(0))
    low, high = min(low, Fraction(0)), max(high, Fraction(0))
    scale = round_to_float32((high - low) / 255) or np.float32(1)
    step = Fraction(float(scale))
    zero = min(max(round(limits.min - low / step), limits.min), limits.max)
    y = [min(max(round(value / step) + zero, limits.min), limits.max) for value in values]
    return np.array(y, dtype).reshape(x.shape), scale, np.asarray(zero, dtype)


def round_to_float32(value: Fraction) -> np.float32:
    """The nearest float32, ties to even, of a fraction that is not negative."""
    unit = Fraction(2) ** -149
    while value >= unit * 2**24:
        unit *= 2
    return np.float32(float(round(value / unit) * unit))


def call(seed: int) -> Call:
    """A random call of a few hundred elements."""
    rng = np.random.default_rng(seed)
    dtype, arithmetic = rng.choice(["int8", "uint8"]), str(rng.choice(["exact", "float32"]))
    shape = tuple(rng.integers(1, 8, rng.integers(1, 4)).tolist())
    if rng.random() < 0.2:
        shape = (int(rng.integers(0, 300)),)
    kind = rng.integers(5)
    if kind == 0:  # multiples of a float, so that ranges are whole and quotients ties
        x = rng.integers(-255, 256, shape) * np.float32(rng.choice([1, 0.5, 0.1]))
    elif kind == 1:  # subnormals
        x = draw(seed + 1, np.int32, shape) % 2000 * np.float32(2.0**-149)
    elif kind == 2:
        x = rng.standard_normal(shape) * 10.0 ** rng.integers(-38, 37)
    elif kind == 3:  # ends far apart
        x = rng.choice([-1, 1], shape) * 2.0 ** rng.integers(-149, 126, shape)
    else:
        x = rng.uniform(0.5, 1, shape) * float(rng.choice([-1, 0, 1]))
    x = x.astype(np.float32)
    if rng.random() < 0.2:
        with np.errstate(over="ignore"):
            halves = x.astype(np.float16)
        x = np.where(np.isfinite(halves), halves, np.float16(7))
    return Call(x, np.dtype(dtype), arithmetic)


mismatches = functools.partial(random_calls.find_mismatches, call)

"""Fourier transforms on the device, and the windows and mel matrices of known sizes on the host."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax.errors import UnsupportedError
from dmlax.onnx.errors import ModelError
from dmlax.onnx.operators.table import Known, operator
from dmlax.onnx.operators.values import DTYPES, expect_memory

_MELS = 2595  # mels for a factor of 10 in frequency
_FIRST_HERTZ = 700  # the mel scale is linear below and logarithmic above


def _scalar(name: str, value: np.ndarray) -> int:
    """A known number."""
    if value.size != 1 or value.dtype == object:
        raise UnsupportedError(f"{name} is {value}, expected one number: give static input_shapes")
    number: int = value.reshape(()).item()
    return number


def _to_complex(x: Array) -> Array:
    """A signal whose last axis holds its real part, and perhaps its imaginary part."""
    x = x.astype(np.float32)
    if x.shape[-1] == 1:
        return x[..., 0]
    if x.shape[-1] != 2:
        raise ModelError(f"its last axis has the size {x.shape[-1]}, expected 1 or 2")
    return lax.complex(x[..., 0], x[..., 1])


def _to_parts(x: Array, dtype: np.dtype) -> Array:
    return jnp.stack([x.real, x.imag], axis=-1).astype(dtype)


def _transform(x: Array, length: int, axis: int, onesided: int, inverse: int) -> Array:
    """The Fourier transform of an axis, which is cut or filled with zeros to a length."""
    if not isinstance(length, int):
        raise UnsupportedError(f"its length is {length}: give input_shapes static sizes")
    if length < 1:
        raise ModelError(f"its length is {length}, expected 1 or more")
    if onesided and jnp.iscomplexobj(x) != bool(inverse):
        raise ModelError("a onesided transform takes a real signal, and its inverse a complex one")
    names = ("rfft", "irfft") if onesided else ("fft", "ifft")
    transformed: Array = getattr(jnp.fft, names[bool(inverse)])(x, length, axis)
    return transformed


@operator("DFT", 17)
def fourier_transform_by_attribute(
    x: Array, length: Known | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Array:
    """The discrete Fourier transform along an axis."""
    rank = len(x.shape)
    if not -rank <= axis < rank or axis % rank == rank - 1:
        raise ModelError(f"its axis is {axis}, expected one of a signal of rank {rank - 1}")
    axis, signal = axis % rank, _to_complex(x)
    if length is not None:
        size = _scalar("dft_length", length)
    else:
        size = 2 * (x.shape[axis] - 1) if onesided and inverse else x.shape[axis]
    spectrum = _transform(signal, size, axis, onesided, inverse)
    is_real = onesided and inverse
    return spectrum[..., None].astype(x.dtype) if is_real else _to_parts(spectrum, x.dtype)


@operator("DFT", 20)
def fourier_transform(
    x: Array,
    length: Known | None = None,
    axis: Known | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Array:
    """The discrete Fourier transform along an axis."""
    place = -2 if axis is None else _scalar("axis", axis)
    return fourier_transform_by_attribute(x, length, axis=place, inverse=inverse, onesided=onesided)


@operator("STFT", 17)
def short_time_fourier_transform(
    x: Array,
    frame_step: Known,
    window: Array | None = None,
    frame_length: Known | None = None,
    *,
    onesided: int = 1,
) -> Array:
    """The Fourier transforms of overlapping frames `[batch, frame, frequency, 2]`."""
    if len(x.shape) == 2:  # ONNX Runtime takes a real signal without its last axis
        x = x[:, :, None]
    if len(x.shape) != 3:
        raise ModelError(f"its signal has rank {len(x.shape)}, expected 2 or 3")
    step, size = _scalar("frame_step", frame_step), x.shape[1]
    if frame_length is not None:
        size = _scalar("frame_length", frame_length)
    elif window is not None:
        size = window.shape[0]
    if step < 1:
        raise ModelError(f"frame_step is {step}, expected 1 or more")
    if window is not None and tuple(window.shape) != (size,):
        raise ModelError(f"its window has the shape {list(window.shape)}, expected {[size]}")
    signal = _to_complex(x)
    if isinstance(size, int) and isinstance(x.shape[1], int) and size > x.shape[1]:
        raise ModelError(f"frame_length is {size}, expected at most {x.shape[1]}")
    count = (x.shape[1] - size) // step + 1
    index = step * jnp.arange(count)[:, None] + jnp.arange(size)
    frames = signal[:, index]
    if window is not None:
        frames = frames * window.astype(frames.dtype)
    return _to_parts(_transform(frames, size, 2, onesided, 0), x.dtype)


def _dtype(number: int) -> np.dtype:
    if number not in DTYPES:
        raise UnsupportedError(f"output_datatype is {number}, which is not known")
    dtype: np.dtype = DTYPES[number]
    return dtype


def _cosine_window(a0: float, a1: float, a2: float) -> Callable[..., np.ndarray]:
    """A window that is a sum of cosines, with ONNX Runtime's float32 coefficients."""

    def compute(size: Known, *, output_datatype: int = 1, periodic: int = 1) -> np.ndarray:
        count, dtype = _scalar("size", size), _dtype(output_datatype)
        if count < 0:
            raise ModelError(f"size is {count}, expected 0 or more")
        expect_memory(np.float64, 3, count)
        with np.errstate(all="ignore"):  # a window of one element divides by 0
            angle = np.float64(2 * np.pi) / (count if periodic else count - 1) * np.arange(count)
            window = a0 - a1 * np.cos(angle) + (a2 * np.cos(2 * angle) if a2 else 0)
            return window.astype(dtype)

    return compute


_HAMMING, _BLACKMAN = np.float32(25) / np.float32(46), np.float32(0.16) / np.float32(2)
for _op, *_coefficients in (
    ("HannWindow", np.float32(0.5), np.float32(0.5), np.float32(0)),
    ("HammingWindow", _HAMMING, np.float32(1) - _HAMMING, np.float32(0)),
    ("BlackmanWindow", np.float32(0.5) - _BLACKMAN, np.float32(0.5), _BLACKMAN),
):
    operator(_op, 17)(_cosine_window(*map(float, _coefficients)))


@operator("MelWeightMatrix", 17)
def mel_weight_matrix(
    bin_count: Known,
    dft_length: Known,
    sample_rate: Known,
    lower_edge_hertz: Known,
    upper_edge_hertz: Known,
    *,
    output_datatype: int = 1,
) -> np.ndarray:
    """A triangle over the frequencies of a spectrum for every mel bin: `[frequency, bin]`."""
    count, length = _scalar("num_mel_bins", bin_count), _scalar("dft_length", dft_length)
    rate, dtype = _scalar("sample_rate", sample_rate), _dtype(output_datatype)
    edges = [_scalar("an edge", edge) for edge in (lower_edge_hertz, upper_edge_hertz)]
    if min(count, length, rate) < 1 or not 0 <= min(edges) <= max(edges) < np.inf:
        raise ModelError("a size, rate or edge is out of range")
    if (length + 1) * max(edges) // rate > length // 2:
        raise ModelError(f"the edge {max(edges)} Hz is beyond the spectrum of {length} samples")
    expect_memory(np.float64, 4, length // 2 + 1, count)
    low, high = (_MELS * np.log10(1 + edge / _FIRST_HERTZ) for edge in edges)
    mels = low + (high - low) / (count + 2) * np.arange(count + 2)
    hertz = _FIRST_HERTZ * (np.power(10.0, mels / _MELS) - 1)
    left, center, right = (
        np.floor((length + 1) * hertz / rate)[start : start + count] for start in range(3)
    )
    frequency = np.arange(length // 2 + 1)[:, None]
    rising = (frequency - left) / np.maximum(center - left, 1)
    falling = (right - frequency) / np.maximum(right - center, 1)
    weights = np.where(frequency < center, rising, falling)
    weights = np.where(frequency == center, 1, weights)
    return np.where((frequency >= left) & (frequency <= right), weights, 0).astype(dtype)

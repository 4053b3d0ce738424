"""Hazards of plain JAX on an NVIDIA GPU; dmlax, compared with each, must be right.

    PYTHONPATH=src:tests:conformance/src python3 tests/cuda/hazards.py

Needs JAX and NumPy alone. A hazard that a newer JAX no longer has is reported, and is no failure.
tests/test_hazards.py holds, on any machine, that dmlax gives CUDA none of these programs.

With XLA_FLAGS=--xla_gpu_autotune_level=0 the one hazard of that flag is shown, which `xla` has too.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import dmlax
from support import draw, sums_of_products

IMPLEMENTATIONS = ("xla", "auto")
LENGTHS = range(1, 41)
NOT_AUTOTUNED = "--xla_gpu_autotune_level=0"


def main() -> None:
    """Show each hazard; stop where dmlax has it too."""
    device = jax.devices()[0]
    if device.platform != "gpu":
        raise SystemExit(f"needs a GPU, and JAX sees {device}")
    print(f"{device.device_kind}, jax {jax.__version__}")
    hazards = [_odd_contractions, _added_constants, _int32_convolutions, _float32_accumulators]
    if NOT_AUTOTUNED in os.environ.get("XLA_FLAGS", ""):
        hazards = [_products_not_autotuned]
    for line in (line for hazard in hazards for line in hazard()):
        print(line)


def _odd_contractions() -> Iterator[str]:
    """A product of int8 into int32 whose contraction 4 does not divide: silently wrong."""
    wrong = [length for length in LENGTHS if not _is_right(_product, length)]
    yield _report("int8 products into int32, contractions of length", wrong)
    for length in LENGTHS:
        _compare(*_drawn(length, (2, length, 3, 5), (16, length, 1, 1)))
    yield f"  dmlax: lengths {LENGTHS[0]} to {LENGTHS[-1]} exact"


def _added_constants() -> Iterator[str]:
    """A constant added to every element of a short product: silently left out."""
    lengths = (16, 32, 64, 128, 256)
    added = lambda a, b: _product(a, b) + 1000  # noqa: E731
    wrong = [length for length in lengths if not _is_right(added, length, 1000)]
    yield _report("a constant added to int8 products into int32, contractions of length", wrong)
    for length in lengths:
        x = draw(length, np.int8, (2, length, 3, 5))
        w = np.full((16, length, 1, 1), 3, np.int8)  # the zero point's term is the same for all
        sums = sums_of_products(x, w, 5)
        for implementation in IMPLEMENTATIONS:
            options = {"input_zero_point": np.int8(5), "implementation": implementation}
            call = partial(dmlax.convolution_integer, **options)
            got = jax.jit(lambda x, call=call, w=w: call(x, w))(x)
            np.testing.assert_array_equal(got, sums, implementation)
    yield "  dmlax: exact"


def _products_not_autotuned() -> Iterator[str]:
    """A product of int8 into int32 by XLA without autotuning: silently wrong, some doubled."""
    lengths = (16, 32, 64, 128, 256)
    wrong = [length for length in lengths if not _is_right(_product, length)]
    yield _report(f"int8 products into int32 with {NOT_AUTOTUNED}, contractions of length", wrong)
    for length in lengths:
        _compare(*_drawn(length, (2, length, 3, 5), (16, length, 1, 1)), ["mosaic_gpu"])
    yield "  dmlax: mosaic_gpu exact; leave autotuning on for xla"


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    axes = (((1,), (1,)), ((), ()))
    return lax.dot_general(a, b, axes, preferred_element_type=jnp.int32)


def _is_right(function: Callable[..., jax.Array], length: int, added: int = 0) -> bool:
    a, b = _drawn(length, (28, length), (16, length))
    wanted = a.astype(np.int64) @ b.T.astype(np.int64) + added
    return np.array_equal(jax.jit(function)(a, b), wanted)


def _int32_convolutions() -> Iterator[str]:
    """Convolutions of int32, or of int8 into int32: not compiled."""
    x, w = _drawn(1, (1, 8, 6, 6), (4, 8, 1, 1))
    refused = []
    for dtype in (jnp.int8, jnp.int32):
        convolve = partial(_convolve, dtype=dtype, into=jnp.int32)
        try:
            jax.block_until_ready(jax.jit(convolve)(x, w))
        except jax.errors.JaxRuntimeError:
            refused.append(jnp.dtype(dtype).name)
    yield _report("convolutions into int32, not compiled, of", refused)
    _compare(x, w)
    yield "  dmlax: exact"


def _float32_accumulators() -> Iterator[str]:
    """A convolution of int8 into float32: 24 bits of each sum."""
    x, w = np.full((1, 40_000, 1, 1), 127, np.int8), np.full((4, 40_000, 1, 1), 127, np.int8)
    x[0, 0], w[1, 0] = 126, 125
    wanted = sums_of_products(x, w)
    got = jax.jit(partial(_convolve, dtype=jnp.int8, into=jnp.float32))(x, w)
    wrong = wanted[np.asarray(got).astype(np.int64) != wanted]
    yield _report("convolutions of int8 into float32, sums of", [*map(int, wrong)])
    _compare(x, w)
    yield "  dmlax: exact"


def _convolve(x: jax.Array, w: jax.Array, dtype: jnp.dtype, into: jnp.dtype) -> jax.Array:
    x, w = jnp.asarray(x).astype(dtype), jnp.asarray(w).astype(dtype)
    return lax.conv_general_dilated(x, w, (1, 1), "VALID", preferred_element_type=into)


def _compare(
    x: np.ndarray, w: np.ndarray, implementations: Sequence[str] = IMPLEMENTATIONS
) -> None:
    wanted = sums_of_products(x, w)
    for implementation in implementations:
        got = dmlax.convolution_integer(x, w, implementation=implementation)
        np.testing.assert_array_equal(got, wanted, implementation)


def _drawn(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [draw(seed + i, np.int8, shape) for i, shape in enumerate(shapes)]


def _report(hazard: str, shown: list[object]) -> str:
    return f"{hazard}: {', '.join(map(str, shown)) or 'no longer wrong in this JAX'}"


if __name__ == "__main__":
    main()

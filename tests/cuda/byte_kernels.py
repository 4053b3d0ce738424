"""Random lookups, sums, products and maxima by the Hopper kernels, and by xla or the definition.

    PYTHONPATH=src:tests python3 tests/cuda/byte_kernels.py 0 60

checks the calls of these seeds on the attached GPU, and prints how many there were.
"""

import functools
import sys
from collections.abc import Callable

import jax
import numpy as np

import dmlax
from dmlax._core import pairs

DTYPES = (np.int8, np.uint8)
PAIRS = [  # shapes that broadcast: rows that are repeated, and that XLA writes out
    ((7, 9, 48), (7, 1, 48)),
    ((5, 16), (5, 16)),
    ((3, 1, 16), (3, 33, 16)),
    ((3, 5, 7), (3, 1, 7)),
    ((2000,), ()),
    ((4, 1, 1), (4, 9, 16)),
    ((2, 8, 1, 32), (1, 8, 6, 32)),
    ((70_001,), (70_001,)),
]
Call = tuple[Callable[..., jax.Array], tuple[np.ndarray, ...], str]
"""A function of operands and an implementation, the operands, and what has the same bits."""


def draw(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Bytes of either dtype."""
    return rng.integers(0, 256, shape, np.uint8).view(rng.choice(DTYPES))


def draw_pool(rng: np.random.Generator) -> Call:
    """A max_pooling of one or two spatial axes, channels last."""
    rank = int(rng.integers(1, 3))
    size, strides = (rng.integers(1, 4, rank).tolist() for _ in range(2))
    start, end = ([int(rng.integers(taps)) for taps in size] for _ in range(2))
    x = draw(rng, 3, *rng.integers(3, 20, rank), int(rng.choice([4, 8, 12, 16, 20, 64, 96])))
    options = {
        "window_size": size,
        "strides": strides,
        "start_padding": start,
        "end_padding": end,
        "dimension_numbers": "NHWC" if rank == 2 else "NWC",
    }
    return functools.partial(dmlax.max_pooling, **options), (x,), "xla"


def draw_lookup(rng: np.random.Generator) -> Call:
    """A lookup of any count."""
    return dmlax.quantized_lookup, (draw(rng, int(rng.integers(1, 10**5))), draw(rng, 256)), "xla"


def draw_pair(rng: np.random.Generator) -> Call:
    """A sum or a product that broadcasts."""
    shapes = PAIRS[int(rng.integers(len(PAIRS)))]
    a, b = (draw(rng, *shape) for shape in shapes[:: int(rng.choice([1, -1]))])
    functions = (
        dmlax.element_wise_quantized_linear_add,
        dmlax.element_wise_quantized_linear_multiply,
    )
    scales = dict(zip(("a_scale", "b_scale", "output_scale"), rng.uniform(0.01, 1, 3), strict=True))
    options = {
        **{name: np.float32(scale) for name, scale in scales.items()},
        "a_zero_point": draw(rng).astype(a.dtype),
        "b_zero_point": draw(rng).astype(b.dtype),
        "output_dtype": rng.choice(DTYPES),
        "arithmetic": str(rng.choice(["exact", "float32"])),
    }
    return functools.partial(functions[int(rng.integers(2))], **options), (a, b), "reference"


def differs(seed: int) -> bool:
    """True if a call of the kernel and of another have other bits; every third one is mapped."""
    rng = np.random.default_rng(seed)
    function, operands, other = (draw_pool, draw_lookup, draw_pair)[seed % 3](rng)
    found = []
    for implementation in ("mosaic_gpu", other):
        call = functools.partial(function, implementation=implementation)
        if seed % 9 < 3:
            axes = (0, *[None] * (len(operands) - 1))
            mapped = np.stack([operands[0], ~operands[0]]), *operands[1:]
            found.append(jax.jit(jax.vmap(call, axes))(*mapped))
        else:
            found.append(jax.jit(call)(*operands))
    ours, wanted = map(np.asarray, found)
    return ours.dtype != wanted.dtype or not np.array_equal(ours, wanted)


def main() -> None:
    """The program."""
    pairs._WORTH_A_TABLE = 0  # so that few elements take the kernel too
    first, last = map(int, sys.argv[1:])
    wrong = [seed for seed in range(first, last) if differs(seed)]
    print(f"{jax.devices()[0]}: {last - first} calls, different: {wrong}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

"""Rows of 8-bit levels times columns of blocks: the bits of the kernel and of XLA."""

from collections.abc import Iterator
from functools import partial

import jax
import numpy as np

from dmlax._fused.block_product.plan import Blocks
from dmlax.onnx.operators import n_bits


def mismatches(implementation: str, first: int, last: int) -> Iterator[str]:
    """The products from `first` to `last` whose bits differ from those of `xla`."""
    for seed in range(first, last):
        rng = np.random.default_rng(seed)
        bits, block = int(rng.choice([4, 8])), 16 << int(rng.integers(0, 6))
        blocks = int(rng.choice([1, 3, 16, 17, 64, 70, 150])) if block < 128 else 1 + seed % 5
        rows, columns = int(rng.choice([0, 1, 2, 3, 4, 5, 9, 33])), int(rng.integers(1, 70))
        depth, shape = block * blocks, (columns, blocks)
        a = rng.normal(size=(rows, depth)) * 2.0 ** rng.integers(-4, 5, (rows, depth))
        _spoil(rng, a, block)
        points = np.zeros((0, 0), np.uint8)
        if seed % 3:
            points = rng.integers(0, 256, (columns, -(-blocks * bits // 8)), np.uint8)
        scale = rng.normal(size=shape).astype(np.float16 if seed % 4 == 3 else np.float32)
        held = rng.integers(0, 256, (columns, depth * bits // 8), np.uint8)
        held[rng.random(held.shape) < 0.2] = rng.choice([0, 255])
        operands = jax.device_put(Blocks(a.astype(np.float32), held, scale, points))
        plan, operands = n_bits.BLOCKS.plan(operands, block, bits, ("exact", "float32")[seed % 2])
        found, wanted = (
            np.asarray(jax.jit(partial(n_bits.BLOCKS.call, plan, implementation=name))(operands))
            for name in (implementation, "xla")
        )
        is_nan = np.isnan(wanted)
        same = np.where(is_nan, np.isnan(found), found.view(np.uint32) == wanted.view(np.uint32))
        if not same.all():
            yield f"{seed}: {plan}, {np.argwhere(~same)[0]}: {found[~same][0]}, {wanted[~same][0]}"


def _spoil(rng: np.random.Generator, a: np.ndarray, block: int) -> None:
    """Makes some blocks of rows zero, tiny, equal, of ties, infinite or NaN."""
    for row in a:
        for _ in range(3):
            at = int(rng.integers(0, row.size // block)) * block
            part = row[at : at + block]
            kind = int(rng.integers(0, 7))
            if kind < 3:
                part[:] = rng.normal(size=block) * (0, 1e-37, 1e-40)[kind]
            elif kind == 3:
                part[:] = 127  # the largest sums
            elif kind == 4:
                part[:] = rng.integers(-254, 255, block) / 2
                part[0] = 127
            elif rng.random() < 0.3:
                part[int(rng.integers(0, block))] = (np.inf, np.nan)[kind - 5]

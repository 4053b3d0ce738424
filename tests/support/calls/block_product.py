"""Few rows times columns of 4-bit blocks: the bits of the kernel and of XLA's product of a row."""

from collections.abc import Iterator
from functools import partial

import jax
import numpy as np

from dmlax._fused.block_product.plan import Blocks
from dmlax.onnx.operators import n_bits

_ROWS = (1, 2, 3, 4, 5, 8, 32)
_SIZES = (  # depth, columns and the block's size
    *((16, 8, 16), (64, 24, 32), (512, 1000, 64), (4096, 72, 32)),
    *((1024, 2048, 128), (96, 40, 16), (11008, 16, 256), (2048, 4096, 32)),
)


def mismatches(implementation: str, first: int, last: int) -> Iterator[str]:
    """The products from `first` to `last` whose rows lack the bits of `xla` for the row alone."""
    for seed in range(first, last):
        rng = np.random.default_rng(seed)
        depth, columns, block = _SIZES[seed % len(_SIZES)]
        shape, rows = (columns, depth // block), _ROWS[seed % len(_ROWS)]
        points: np.ndarray = np.full((1, 1), 8, np.float32)
        if seed % 3:
            points = rng.integers(0, 16, shape).astype(np.uint8 if seed % 3 == 1 else np.float32)
        operands = Blocks(
            rng.normal(size=(rows, depth)).astype(np.float32),
            rng.integers(0, 256, (columns, depth // 2), np.uint8),
            rng.normal(size=shape).astype(np.float32),
            points + points.dtype.type(0 if points.dtype == np.uint8 else 0.25),
        )
        plan, operands = n_bits.BLOCKS.plan(jax.device_put(operands), block)
        if n_bits.BLOCKS.lowerings[0].why_not(plan, "cpu"):
            return  # the instruction set has no kernel
        found = jax.jit(partial(n_bits.BLOCKS.call, plan, implementation=implementation))(operands)
        for row, bits in enumerate(np.asarray(found).view(np.uint32)):
            alone, row_operands = n_bits.BLOCKS.plan(
                operands._replace(a=operands.a[row : row + 1]), block
            )
            wanted = jax.jit(partial(n_bits.BLOCKS.call, alone, implementation="xla"))
            if not np.array_equal(bits, np.asarray(wanted(row_operands))[0].view(np.uint32)):
                yield f"{seed}, row {row}: {plan}"

"""The products of a pipeline stage, by one of two loops: `wgmma`, or `mma.sync` on other GPUs.

Both read the same swizzled matrices, and a thread has the same accumulators: of rows l / 4 and 8 on
of its warp's 16, in columns 2 (l % 4) and the next one of every eight.
"""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import jax

from dmlax._cuda import cp_async, ir, mma, tuning, wgmma
from dmlax._cuda.block import Block
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.epilogue import Accumulators
from dmlax._cuda.ir import Value, constant

_Copied = TypeVar("_Copied")


class Products(Protocol):
    """The products of a block, whose matrices are in shared memory."""

    def begin(self) -> None:
        """Writes what all stages read; a barrier must follow."""

    def wait_for_copies(self, pending: int) -> None:
        """Waits for this thread's commit groups but the last `pending`; a barrier must follow."""

    def add(
        self,
        step: Value,
        stage: Value,
        accumulators: Accumulators,
        copy: Callable[[], _Copied],
    ) -> tuple[Accumulators, _Copied]:
        """Adds a stage's products to the accumulators, and runs `copy`, which copies a stage ahead.

        The sums may be unfinished.
        """

    def finish(self, accumulators: Accumulators) -> Accumulators:
        """Waits for the sums."""


def products_of(block: Block) -> Products:
    """The loop that the tile is for."""
    return _WarpProducts(block) if block.tile.by_warps else _WarpgroupProducts(block)


class _Places:
    """The places of a stage's matrices in shared memory."""

    def __init__(self, block: Block) -> None:
        self.block, self.tile, self.problem = block, block.tile, block.problem
        sliding, tile = block.problem.sliding, block.tile
        self.row_bytes = sliding.pixel_bytes if sliding else tile.depth
        self.right = block.right if block.keeps_right else block.stages + tile.rows * tile.depth
        size = block.span_bytes
        self.right_size = tile.columns * tile.depth if block.keeps_right else size

    def right_stage(self, step: Value, stage: Value) -> Value:
        """Bytes from the first stage of right to one."""
        keeps = self.block.keeps_right
        return step * (self.tile.spans * self.right_size) if keeps else stage

    def depths(self) -> Iterator[tuple[int, int, int]]:
        """Products along the depth: bytes from left's row, and the span and bytes of right's."""
        tile, sliding = self.tile, self.problem.sliding
        for span, depth in itertools.product(range(tile.spans), range(0, tile.depth, mma.DEPTH)):
            at = span * self.block.span_bytes + depth
            if sliding:
                at = sliding.offset(span * tile.depth + depth)
            yield at, span, depth


class _WarpgroupProducts:
    """The products of warpgroups: descriptors of the first stage's matrices."""

    def __init__(self, block: Block) -> None:
        self.places, self.block, self.tile = _Places(block), block, block.tile
        rows = ir.broadcast_lane(ir.warpgroup(), 0) * (self.tile.products * wgmma.ROWS)
        row_bytes = self.places.row_bytes
        self.left = wgmma.descriptor(block.stages + rows * row_bytes, row_bytes)
        matrices = self.places.right, block.ones
        self.right, self.ones = (wgmma.descriptor(x, self.tile.depth) for x in matrices)

    def begin(self) -> None:
        """Writes the ones that sum rows of left, as a right matrix of 8 columns."""
        if not self.block.problem.sums_rows:
            return
        self.tile.visit(
            2 * self.tile.depth,
            lambda word: ir.store_shared(self.block.ones + word * 4, constant(0x01010101)),
        )
        ir.ptx_effect("fence.proxy.async.shared::cta;")

    def wait_for_copies(self, pending: int) -> None:
        """Waits so that products may read what was copied."""
        wgmma.wait_for_copies(pending)

    def add(
        self,
        step: Value,
        stage: Value,
        accumulators: Accumulators,
        copy: Callable[[], _Copied],
    ) -> tuple[Accumulators, _Copied]:
        """Begins the products, copies, and waits for all but those that stay in flight."""
        products, unsigned = self._list(step, stage), self.block.problem.unsigned
        begin = functools.partial(wgmma.multiply_async, products=products, unsigned=unsigned)
        begun = _with_values(accumulators, begin)
        copied = copy()
        pending = int(self.tile.in_flight)
        return _with_values(begun, functools.partial(wgmma.wait, pending=pending)), copied

    def finish(self, accumulators: Accumulators) -> Accumulators:
        """Waits for the products in flight, if any."""
        return _with_values(accumulators, wgmma.wait) if self.tile.in_flight else accumulators

    def _list(self, step: Value, stage: Value) -> list[wgmma.Product]:
        tile, places, count = self.tile, self.places, self.tile.columns // 2
        left = self.left + (stage >> 4).extend()
        right = self.right + (places.right_stage(step, stage) >> 4).extend()
        products = []
        for i in range(tile.products):
            for at, span, depth in places.depths():
                a = wgmma.advance(left, i * wgmma.ROWS * places.row_bytes + at)
                b = wgmma.advance(right, span * places.right_size + depth)
                products.append(wgmma.Product(i * count, a, b, tile.columns))
                if self.block.problem.sums_rows:
                    ones, first = wgmma.advance(self.ones, depth), tile.products * count + 4 * i
                    products.append(wgmma.Product(first, a, ones, 8))
        return products


class _WarpProducts:
    """The products of warps: the addresses of the matrices that a lane loads."""

    def __init__(self, block: Block) -> None:
        self.places, self.block, self.tile = _Places(block), block, block.tile
        warps_row = ir.warp() * mma.ROWS + ir.warpgroup() * ((self.tile.products - 1) * wgmma.ROWS)
        lane = ir.lane()
        # Of four matrices left's first two are of rows, right's of chunks.
        left = (warps_row + (lane & 15)) * self.places.row_bytes + (lane >> 4) * CHUNK
        right = ((lane & 7) + ((lane >> 4) << 3)) * self.tile.depth + ((lane >> 3) & 1) * CHUNK
        self.left, self.right = left, self.places.right + swizzle(right, self.tile.depth)

    def begin(self) -> None:
        """Writes nothing."""

    def wait_for_copies(self, pending: int) -> None:
        """Waits for copies."""
        cp_async.wait_group(pending)

    def add(
        self,
        step: Value,
        stage: Value,
        accumulators: Accumulators,
        copy: Callable[[], _Copied],
    ) -> tuple[Accumulators, _Copied]:
        """Copies between products: those before keep the tensor cores busy meanwhile."""
        places, tile = self.places, self.tile
        left, right = self.block.stages + stage, self.right + places.right_stage(step, stage)
        here, loads = left + swizzle(self.left, places.row_bytes), []
        for at, span, depth in places.depths():
            # Rows are aligned to their size: a chunk further on is a bit of it, swizzled or not.
            a = (here ^ depth) + (at - depth)
            if self.block.problem.sliding:
                a = left + swizzle(self.left + at, places.row_bytes)
            loads.append((a, (right ^ depth) + span * places.right_size))
        multiply = functools.partial(
            mma.multiply_tiles,
            left_distance=wgmma.ROWS * places.row_bytes,
            right_distance=2 * mma.COLUMNS * tile.depth,
            tiles=(tile.products, tile.columns // mma.COLUMNS),
            unsigned=self.block.problem.unsigned,
            sums_rows=self.block.problem.sums_rows,
        )
        first, others = (
            loads[: tuning.PRODUCTS_BEFORE_COPIES],
            loads[tuning.PRODUCTS_BEFORE_COPIES :],
        )
        if first:
            accumulators = _with_values(accumulators, functools.partial(multiply, loads=first))
        copied = copy()
        if others:
            accumulators = _with_values(accumulators, functools.partial(multiply, loads=others))
        return accumulators, copied

    def finish(self, accumulators: Accumulators) -> Accumulators:
        """The sums are finished."""
        return accumulators


def swizzle(place: Value, row_bytes: int) -> Value:
    """The place of a byte of a matrix as `wgmma.swizzle` permutes its chunks."""
    chunks = row_bytes // CHUNK - 1
    return place ^ (((place >> 7) & chunks) << 4) if chunks else place


def _with_values(
    accumulators: Accumulators, function: Callable[[list[Value]], list[Value]]
) -> Accumulators:
    """Applies a function to the list of all values."""
    values, structure = jax.tree.flatten(accumulators)
    result: Accumulators = jax.tree.unflatten(structure, function(values))
    return result

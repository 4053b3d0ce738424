"""Tiles of a matrix product: their sizes, which block makes which, and the order of columns."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dmlax._cuda import tuning, wgmma
from dmlax._cuda.capability import CHUNK, HOPPER, Capability
from dmlax._cuda.ir import IntOrValue
from dmlax._cuda.launch import ThreadBlock


@dataclass(frozen=True)
class Sliding:
    """Left's rows as windows that slide over pixels: those of a tile are copied once for all taps.

    A row is a pixel of the padded images, which follow one another, and its window begins there.
    """

    pixel_bytes: int
    width: int  # pixels from a row of taps to the next
    taps: tuple[int, int]

    @property
    def pixels_beyond(self) -> int:
        """Pixels of a tile's windows beyond those of its rows."""
        return (self.taps[0] - 1) * self.width + self.taps[1] - 1

    def offset(self, depth: int) -> int:
        """Bytes from a pixel to what its window has at a depth."""
        tap, byte = divmod(depth, self.pixel_bytes)
        down, right = divmod(tap, self.taps[1])
        return (down * self.width + right) * self.pixel_bytes + byte


@dataclass(frozen=True)
class GemmProblem:
    """A matrix product of bytes: left (rows, depth) by the transpose of right (columns, depth).

    Several groups have different matrices, of equal sizes.
    """

    rows: int
    columns: int
    depth: int  # bytes, a multiple of a chunk's
    groups: int = 1
    unsigned: bool = False  # left is uint8, else int8; right is int8
    adds: bool = False  # an addend to the outputs
    looks_up: bool = False  # bytes of the outputs in a table
    sums_rows: bool = False  # the sums of left's rows, which zero points of right are multiplied by
    tables: int = 1  # byte tables; each serves an equal part of the columns
    gathers: bool = False  # left's rows are windows of an image
    sliding: Sliding | None = None  # these windows, where a tile copies their pixels once


@dataclass(frozen=True)
class Tile(ThreadBlock):
    """The outputs that a thread block makes at once, and its pipeline.

    `warpgroups` of `products` times 64 rows, and `columns`. A pipeline stage has `depth` bytes of
    every row, and shared memory has `stages` of them. `blocks` run on a multiprocessor. If products
    are `in_flight`, those of a stage run on while those of the next begin. A stage may have several
    `spans` of `depth` bytes, which are separate matrices: threads then wait for one another less
    often. Warps multiply `by_warps`, else warpgroups.
    """

    products: int
    columns: int
    depth: int
    stages: int
    blocks: int
    in_flight: bool = False
    spans: int = 1
    by_warps: bool = False

    @property
    def stages_ahead(self) -> int:
        """Stages whose copies have begun before a stage's products begin, itself included."""
        return self.stages - 1 - self.in_flight

    @property
    def rows(self) -> int:
        """Rows of the outputs."""
        return self.warpgroups * self.products * wgmma.ROWS

    @property
    def step_depth(self) -> int:
        """Bytes of a row in a pipeline stage."""
        return self.spans * self.depth

    @property
    def stage_bytes(self) -> int:
        """Bytes of both matrices' rows in one pipeline stage."""
        return (self.rows + self.columns) * self.step_depth

    @property
    def run(self) -> int:
        """Columns side by side that a thread has: the rows of right are permuted for it."""
        return min(self.columns, 64) // 4

    def column_at(self, place: IntOrValue) -> IntOrValue:
        """The column at a place of the table, where those of four lanes are side by side."""
        run = self.run
        within = place & (4 * run - 1)
        return (place - within) + ((within >> 2) & 3) * run + (within >> 4) * 4 + (within & 3)

    def column_of(self, row: IntOrValue) -> IntOrValue:
        """The column whose right row is at a row of a stage: a thread gets two in every eight."""
        run = self.run
        within = row & (4 * run - 1)
        return (row - within) + ((within >> 1) & 3) * run + (within >> 3) * 2 + (within & 1)

    @property
    def rows_at_once(self) -> int:
        """Rows of a stage that all threads copy at once, one chunk a thread."""
        return self.threads // (self.depth // CHUNK)

    @property
    def has_column_distances(self) -> bool:
        """True if all threads' columns are as far apart as the rows that they copy."""
        period = 4 * self.run
        return period % self.rows_at_once == 0 or self.rows_at_once % period == 0

    def column_distance(self, rows: int) -> int:
        """Distance from a row's column to that of the row so many on, as many as copied at once."""
        run = self.run
        return rows // (4 * run) * (4 * run) + rows % (4 * run) // 8 * 2


@dataclass(frozen=True)
class Schedule:
    """The tiles of a product: a block makes tile after tile of the same columns."""

    problem: GemmProblem
    tile: Tile
    row_tiles: int  # blocks begin with these; a block's next tile is this many further
    capability: Capability = HOPPER

    @classmethod
    def of(
        cls,
        problem: GemmProblem,
        tile: Tile,
        multiprocessors: int,
        capability: Capability = HOPPER,
    ) -> "Schedule":
        """All tiles at once where these are few and long, else as many as run at a time."""
        whole = cls(problem, tile, -(-problem.rows // tile.rows), capability)
        running = tile.blocks * multiprocessors
        if whole.blocks <= running or (whole.blocks < 2 * running and whole.steps > 8):
            return whole
        return replace(whole, row_tiles=max(1, running // (whole.column_tiles * problem.groups)))

    @property
    def column_tiles(self) -> int:
        """Tiles along a group's columns."""
        return -(-self.problem.columns // self.tile.columns)

    @property
    def steps(self) -> int:
        """Pipeline stages of a tile's depth."""
        return -(-self.problem.depth // self.tile.step_depth)

    @property
    def summed_depth(self) -> int:
        """Bytes of a row that are summed: the depth in whole stages."""
        return self.steps * self.tile.step_depth

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.row_tiles * self.column_tiles * self.problem.groups

    @property
    def one_tile_a_block(self) -> bool:
        """True if no block makes a second tile."""
        return self.rows_at_once >= self.problem.rows

    @property
    def rows_at_once(self) -> int:
        """Rows from a block's tile to its next one."""
        return self.row_tiles * self.tile.rows


def count_tiles(problem: GemmProblem, tile: Tile) -> int:
    """Tiles of all groups."""
    columns = -(-problem.columns // tile.columns)
    return -(-problem.rows // tile.rows) * columns * problem.groups


def choose_tile(problem: GemmProblem, multiprocessors: int) -> Tile:
    """The fastest on an H200."""
    if problem.sliding:
        tile = sliding_tile(problem.sliding, problem.depth)
        many = count_tiles(problem, tile) > multiprocessors
        return replace(tile, products=1) if many and problem.sliding.pixel_bytes > CHUNK else tile
    tile = _choose_tile(problem, multiprocessors)
    small = tile.warpgroups <= 2 and tile.products == 1 and tile.depth == 128
    alone = count_tiles(problem, tile) <= multiprocessors
    return _add_spans(problem, tile) if small and alone else tile


def choose_tiles_by_warps(problem: GemmProblem, multiprocessors: int) -> Iterator[Tile]:
    """Tiles whose products are `mma.sync`: the fastest on an H200, then those for less memory."""
    if problem.sliding:
        tile = sliding_tile(problem.sliding, problem.depth)
    else:
        tile = _choose_tile_by_warps(problem, multiprocessors)
        depth = next(size for size in (128, 64, 32) if size <= max(problem.depth, 32))
        tile = replace(tile, depth=min(depth, tile.depth))
    yield from _shrink(replace(tile, by_warps=True), is_fixed=problem.sliding is not None)


def _choose_tile_by_warps(problem: GemmProblem, multiprocessors: int) -> Tile:
    """A tile of many outputs a warp, which loads both matrices' rows for its products."""
    columns = next((count for count in (16, 32, 64) if problem.columns <= count), 128)
    wide, usual, small = (
        *(Tile(2, 2, 128, 128, 3, 1), Tile(1, 2, 128, 64, 4, 2)),
        Tile(1, 2, min(columns, 64), 64, 4, 4),
    )
    long = problem.depth >= 4 * wide.depth
    many = count_tiles(problem, wide) >= 2.5 * multiprocessors
    if problem.adds and columns == 128:  # the epilogue takes many registers
        tile = Tile(1, 2, 128, 128, 3, 1) if long else Tile(1, 1, 128, 64, 3, 3)
    elif problem.adds and columns == 64:
        tile = replace(small, blocks=3)
    elif columns < 128:
        tile = Tile(2, 2, columns, 64, 3, 2)
    elif many and long:
        tile = wide
    else:
        tile = usual if count_tiles(problem, usual) >= 4 * multiprocessors else small
    if tile.columns < 128 and count_tiles(problem, tile) < multiprocessors:
        tile = replace(small, products=1)
    if 2 * count_tiles(problem, tile) <= multiprocessors:
        return _narrow(problem, Tile(1, 1, columns, 128, 4, 2), multiprocessors)
    return tile


def _shrink(tile: Tile, *, is_fixed: bool) -> Iterator[Tile]:
    """The tile, and others that take less shared memory; only the stages of some may change."""
    narrow = tile if is_fixed else replace(tile, depth=min(tile.depth, 64))
    for blocks in range(tile.blocks, 0, -1):
        for each in (tile, narrow):
            for stages in range(tile.stages, 2, -1):
                yield replace(each, blocks=blocks, stages=stages)
    yield replace(narrow, blocks=1, stages=2)
    if not is_fixed:
        yield replace(narrow, blocks=1, stages=2, columns=min(tile.columns, 64))


def sliding_tile(sliding: Sliding, depth: int) -> Tile:
    """The largest tile of windows that slide; a step is of all their depth."""
    return Tile(2, 2, 64, 64, 3 if sliding.pixel_bytes == CHUNK else 2, 2, spans=depth // 64)


def _add_spans(problem: GemmProblem, tile: Tile) -> Tile:
    """The tile of a block with a multiprocessor to itself: stages of as many spans as divide."""
    steps = _steps(problem, tile)
    for spans in (4, 3, 2):
        stages = min(tuning.SPANS_BYTES // (spans * tile.stage_bytes), 4)
        if steps % spans == 0 and steps >= 2 * spans and stages >= 3:
            return replace(tile, spans=spans, stages=stages, blocks=1)
    return tile


def _choose_tile(problem: GemmProblem, multiprocessors: int) -> Tile:
    """A tile of one span: long sums want tiles that share, short ones many outputs."""
    depth = next(size for size in (128, 64, 32) if size <= max(problem.depth, 32))
    columns = next((count for count in (16, 32, 64) if problem.columns <= count), 128)
    if many := _choose_tile_of_many_groups(problem, columns, multiprocessors):
        return many
    if problem.adds and _fills_waves(problem, _WIDE, multiprocessors):
        return _choose_wide_tile(problem)
    if problem.adds and columns >= 64:  # blocks of few threads, which take many registers
        tile = Tile(1, 2, 64, min(depth, 64), 3, 3)
        if columns == 128 and depth >= 64:
            tile = Tile(1, 1, 128, depth, 2 if depth == 128 else 3, 3)
    elif columns == 128 and depth == 128:
        if alone := _choose_tile_of_one_wave(problem, multiprocessors):
            return alone
        if _fills_waves(problem, _WIDE, multiprocessors):
            return _choose_wide_tile(problem)
        tile = Tile(2, 1, 128, depth, 3, 2)
        tiles = count_tiles(problem, tile)
        if multiprocessors <= tiles < 4 * multiprocessors and _steps(problem, tile) < 10:
            tile = Tile(1, 1, 128, depth, 2, 4)
    elif columns == 64 and _keeps_long_rows(problem, multiprocessors):
        tile = Tile(1, 2, 64, 128, 3, 3)
    else:
        tile = Tile(2, 2, min(columns, 64), min(depth, 64), 3, 2)
        few = count_tiles(problem, tile) < 2 * tile.blocks * multiprocessors
        if _steps(problem, tile) == 1 and few:
            tile = replace(tile, products=1, blocks=3)
    if 2 * count_tiles(problem, tile) <= multiprocessors:
        return _narrow(problem, Tile(1, 1, columns, depth, 4, 2), multiprocessors)
    return tile


_WIDE = Tile(3, 1, 256, 128, 3, 1)


def _choose_wide_tile(problem: GemmProblem) -> Tile:
    """The wide tile; of fewer columns where the epilogue adds or has several tables."""
    more = problem.adds or problem.tables > 1
    if more and problem.columns % (192 * problem.tables) == 0:
        if not problem.adds:
            return Tile(4, 1, 192, 64, 6, 1, in_flight=True)
        return Tile(3 if _steps(problem, _WIDE) >= 12 else 4, 1, 192, 128, 3, 1)
    is_usual = not (problem.adds or problem.gathers)
    return Tile(3, 1, 256, 64, 6, 1, in_flight=True) if is_usual else _WIDE


def _fills_waves(problem: GemmProblem, tile: Tile, multiprocessors: int) -> bool:
    """True for three waves or more of whole tiles, nearly all full, of sums that are not short."""
    waves = -(-count_tiles(problem, tile) // multiprocessors)
    made = waves * multiprocessors * tile.rows * tile.columns
    full = problem.rows * problem.columns * problem.groups >= 0.95 * made
    whole = problem.columns % tile.columns == 0
    return whole and full and waves >= 3 and _steps(problem, tile) >= 6


def _choose_tile_of_many_groups(
    problem: GemmProblem, columns: int, multiprocessors: int
) -> Tile | None:
    """The tile of products of an attention, of which there are many; None of others."""
    if problem.groups < multiprocessors or problem.adds or problem.depth < 64:
        return None
    if columns == 128 and problem.depth == 64:
        return Tile(1, 1, 128, 64, 2, 4)
    return Tile(1, 2, 64, 64, 3, 4) if columns == 64 else None


def _choose_tile_of_one_wave(problem: GemmProblem, multiprocessors: int) -> Tile | None:
    """The tile of which nearly every multiprocessor makes one, of a long sum; None without one."""
    for tile, least_steps in ((_WIDE, 8), (Tile(3, 1, 128, 128, 4, 1), 16)):
        whole = problem.columns % tile.columns == 0
        busy = 0.9 * multiprocessors <= count_tiles(problem, tile) <= multiprocessors
        if whole and busy and _steps(problem, tile) >= least_steps:
            return tile
    return None


def _keeps_long_rows(problem: GemmProblem, multiprocessors: int) -> bool:
    """True for whole stages of 128 bytes, one or two, and several tiles a block."""
    many = problem.rows * problem.groups > 2 * 3 * 128 * multiprocessors
    return problem.depth in (128, 256) and many


def _narrow(problem: GemmProblem, tile: Tile, multiprocessors: int) -> Tile:
    """Halves a tile's columns while there are no more tiles than multiprocessors."""
    narrower = replace(tile, columns=tile.columns // 2)
    if tile.columns <= 32 or count_tiles(problem, narrower) > multiprocessors:
        return tile
    return _narrow(problem, narrower, multiprocessors)


def _steps(problem: GemmProblem, tile: Tile) -> int:
    return -(-problem.depth // tile.depth)

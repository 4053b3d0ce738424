"""A thread block of a matrix product: the place of its first tile, and its shared memory."""

from dmlax._cuda import ir, lane_table, wgmma
from dmlax._cuda.addend_tiles import ring_bytes
from dmlax._cuda.capability import CHUNK, HOPPER, RESERVED, Capability
from dmlax._cuda.column_table import ColumnTable
from dmlax._cuda.ir import Pointer, Value, constant, select
from dmlax._cuda.quantized_sum import Adder
from dmlax._cuda.tile import GemmProblem, Schedule, choose_tile, choose_tiles_by_warps


class Block:
    """One thread block: its first tile, its shared memory; addresses there are 32 bits."""

    def __init__(self, schedule: Schedule, shared: Pointer) -> None:
        self.schedule, self.tile, self.problem = schedule, schedule.tile, schedule.problem
        self.keeps_right = keeps_right(schedule)
        self.stages = ir.round_up(shared.shared_address(), wgmma.ALIGNMENT)
        self.right = self.stages + _stages_bytes(schedule)  # the matrix, where it is kept
        self.ones = self.right + _kept_bytes(schedule)
        self.table = ColumnTable(self.ones + 8 * self.tile.depth, self.tile.columns)
        self.constants = self.table.end  # the epilogue's, if any
        # The ring of the addend's tiles, if there is an addend.
        self.ring = self.constants + Adder.BYTES
        self.bytes = self.table.end  # the table of the outputs' bytes, if any
        self.stage_bytes = _stage_bytes(schedule)
        self.span_bytes = self.stage_bytes // self.tile.spans
        rest = ir.block() // schedule.column_tiles
        self.first_column = (ir.block() - rest * schedule.column_tiles) * self.tile.columns
        row_tile, self.group = divmod(rest, self.problem.groups)
        self.first_row = row_tile * self.tile.rows

    def column_of_all(self, column: Value) -> Value:
        """A tile's column among those of all groups; columns beyond the group are its last."""
        return self.group * self.problem.columns + self.column_of_group(column)

    def column_of_group(self, column: Value) -> Value:
        """A tile's column among those of its group; columns beyond are the last."""
        return ir.minimum(self.first_column + column, self.problem.columns - 1)

    @property
    def span_offsets(self) -> list[tuple[int, int]]:
        """The offsets of a stage's spans in shared memory, and along the depth."""
        spans = range(self.tile.spans)
        return [(span * self.span_bytes, span * self.tile.depth) for span in spans]

    def next_stage(self, stage: Value) -> Value:
        """The stage after one, as bytes from the first."""
        last = (self.tile.stages - 1) * self.stage_bytes
        return select(stage == last, constant(0), stage + self.stage_bytes)


def choose_schedule(
    problem: GemmProblem,
    multiprocessors: int,
    output_columns: int,
    capability: Capability = HOPPER,
) -> Schedule:
    """The tiles that are fastest, on an H200, of those that fit a GPU's shared memory."""
    if capability.wgmma:
        return Schedule.of(problem, choose_tile(problem, multiprocessors), multiprocessors)
    tiles = choose_tiles_by_warps(problem, multiprocessors)
    schedules = (Schedule.of(problem, tile, multiprocessors, capability) for tile in tiles)
    return next(schedule for schedule in schedules if has_room(schedule, output_columns))


def shared_bytes(schedule: Schedule, output_columns: int) -> int:
    """Bytes of a block's shared memory; some align the stages."""
    of_matrices = _stages_bytes(schedule) + _kept_bytes(schedule)
    return of_matrices + _other_bytes(schedule, output_columns)


def keeps_right(schedule: Schedule) -> bool:
    """True if a block copies its columns of the right matrix once, for all its tiles.

    The block must have several tiles and enough shared memory. If windows slide, no stage has a
    part of the right matrix.
    """
    if schedule.problem.sliding:
        return True
    tile, all_rows = schedule.tile, schedule.problem.rows
    stages = _round_up(tile.stages * tile.rows * tile.step_depth)
    used = stages + _right_bytes(schedule) + _other_bytes(schedule, CHUNK)
    return (
        schedule.rows_at_once < all_rows
        and tile.blocks * (used + RESERVED) <= schedule.capability.shared_bytes
    )


def _other_bytes(schedule: Schedule, output_columns: int) -> int:
    """Shared bytes beside the stages and the right matrix."""
    tile = schedule.tile
    size = wgmma.ALIGNMENT + 8 * tile.depth + ColumnTable.bytes_of(tile.columns)
    if schedule.problem.adds:
        size += Adder.BYTES + ring_bytes(schedule, output_columns)
    return size + (lane_table.BYTES if schedule.problem.looks_up else 0)


def has_room(schedule: Schedule, output_columns: int) -> bool:
    """True if as many blocks as the tile wants fit a multiprocessor."""
    size = shared_bytes(schedule, output_columns) + RESERVED
    return schedule.tile.blocks * size <= schedule.capability.shared_bytes


def _kept_bytes(schedule: Schedule) -> int:
    """Bytes of the columns that are kept."""
    return _right_bytes(schedule) if keeps_right(schedule) else 0


def _right_bytes(schedule: Schedule) -> int:
    """Bytes of a tile's columns of the right matrix."""
    return _round_up(schedule.tile.columns * schedule.summed_depth)


def _stages_bytes(schedule: Schedule) -> int:
    return _round_up(schedule.tile.stages * _stage_bytes(schedule))


def _stage_bytes(schedule: Schedule) -> int:
    """Bytes of a pipeline stage: the left rows, and the right ones unless they are kept."""
    tile = schedule.tile
    if sliding := schedule.problem.sliding:
        return _round_up((tile.rows + sliding.pixels_beyond) * sliding.pixel_bytes)
    return tile.rows * tile.step_depth if keeps_right(schedule) else tile.stage_bytes


def _round_up(size: int) -> int:
    return -(-size // wgmma.ALIGNMENT) * wgmma.ALIGNMENT

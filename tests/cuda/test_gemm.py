"""The matrix product's tiles: they fit a multiprocessor, and small products use all of them."""

import itertools

import pytest

# Registers of a multiprocessor; a thread's, without accumulators.
REGISTERS, OTHER_REGISTERS = 65_536, 40
SHARED_MEMORY = 228 * 1024  # bytes of a multiprocessor; each block takes 1,024 more than it asks


ROWS = (2, 392, 6272, 25_088, 100_352, 401_408)
COLUMNS = (1, 16, 17, 64, 65, 256, 512, 2048)
DEPTHS = (16, 48, 64, 256, 576, 2304, 18_432)


@pytest.mark.parametrize("adds", [False, True])
def test_blocks_of_every_tile_fit_a_multiprocessor(written, adds):
    from dmlax._cuda.block import shared_bytes
    from dmlax._cuda.tile import GemmProblem, Schedule, choose_tile

    for rows, columns, depth in itertools.product(ROWS, COLUMNS, DEPTHS):
        problem = GemmProblem(rows, columns, depth, adds=adds)
        tile = choose_tile(problem, 132)
        used = shared_bytes(Schedule.of(problem, tile, 132), columns)
        assert tile.blocks * (used + 1024) <= SHARED_MEMORY, problem
        accumulators = tile.products * tile.columns // 2
        registers = REGISTERS // (tile.blocks * tile.threads)
        assert registers >= accumulators + OTHER_REGISTERS, problem


@pytest.mark.parametrize(
    ("rows", "columns", "tiles"), [(32, 1152, 36), (49, 512, 16), (196, 256, 32)]
)
def test_small_products_are_spread_over_the_multiprocessors(written, rows, columns, tiles):
    from dmlax._cuda.tile import GemmProblem, choose_tile, count_tiles

    problem = GemmProblem(rows, columns, 512)
    assert count_tiles(problem, choose_tile(problem, 132)) == tiles


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "tiles"), [(25_088, 256, 1024, 131), (6272, 512, 2048, 132)]
)
def test_long_sums_are_one_wave_of_wide_tiles_where_these_fit(written, rows, columns, depth, tiles):
    from dmlax._cuda.tile import GemmProblem, Schedule, choose_tile

    problem = GemmProblem(rows, columns, depth)
    tile = choose_tile(problem, 132)
    assert (tile.rows, tile.blocks) == (192, 1)
    assert Schedule.of(problem, tile, 132).blocks == tiles
    shorter, more = GemmProblem(rows, columns, 512), GemmProblem(3 * rows // 2, columns, depth)
    assert 192 not in {choose_tile(each, 132).rows for each in (shorter, more)}


@pytest.mark.parametrize(("columns", "depth"), [(2304, 768), (768, 768), (768, 3072)])
def test_waves_of_wide_tiles_are_taken_where_these_are_full(written, columns, depth):
    from dmlax._cuda.tile import GemmProblem, choose_tile

    full, half = (GemmProblem(rows, columns, depth) for rows in (25_216, 13_000))
    assert [choose_tile(each, 132).columns for each in (full, half)] == [256, 128]


@pytest.mark.parametrize(
    ("columns", "depth", "options", "sizes"),
    [
        (2304, 768, {"looks_up": True, "tables": 3}, (256, 192)),
        (3072, 768, {"looks_up": True}, (192, 256)),
        (768, 768, {"adds": True}, (256, 192)),
        (768, 3072, {"adds": True}, (192, 192)),
        (1024, 768, {"adds": True}, (192, 256)),
    ],
)
def test_wide_tiles_are_of_fewer_columns_where_epilogues_do_more(
    written, columns, depth, options, sizes
):
    from dmlax._cuda.block import has_room
    from dmlax._cuda.tile import GemmProblem, Schedule, choose_tile

    problem = GemmProblem(25_216, columns, depth, **options)
    tile = choose_tile(problem, 132)
    assert (tile.rows, tile.columns) == sizes
    assert tile.in_flight == ("adds" not in options)
    assert tile.stages_ahead == tile.stages - (2 if tile.in_flight else 1)
    assert has_room(Schedule.of(problem, tile, 132), columns)


@pytest.mark.parametrize(("columns", "depth", "rows"), [(208, 64, 64), (64, 208, 128)])
def test_many_groups_take_tiles_of_few_rows(written, columns, depth, rows):
    from dmlax._cuda.block import shared_bytes
    from dmlax._cuda.tile import GemmProblem, Schedule, choose_tile

    problem = GemmProblem(197, columns, depth, 1536, sums_rows=True)
    tile = choose_tile(problem, 132)
    assert tile.rows == rows
    used = shared_bytes(Schedule.of(problem, tile, 132), columns)
    assert tile.blocks * (used + 1024) <= SHARED_MEMORY
    accumulators = tile.products * (tile.columns // 2 + 4)
    assert REGISTERS // (tile.blocks * tile.threads) >= accumulators + OTHER_REGISTERS


@pytest.mark.parametrize(
    ("rows", "depth", "groups", "row_tiles"),
    [
        (128 * 132, 128, 1, 132),
        (128 * 400, 128, 1, 264),
        (128 * 400, 2048, 1, 400),
        (128 * 400, 128, 2, 132),
    ],
    ids=["all run at once", "short", "long", "groups"],
)
def test_blocks_begin_with_as_many_tiles_as_run_at_once(written, rows, depth, groups, row_tiles):
    from dmlax._cuda.tile import GemmProblem, Schedule, Tile

    tile = Tile(2, 1, 128, 128, 3, 2)
    schedule = Schedule.of(GemmProblem(rows, 128, depth, groups), tile, 132)
    assert (schedule.row_tiles, schedule.blocks) == (row_tiles, row_tiles * groups)
    assert schedule.rows_at_once == 128 * row_tiles


@pytest.mark.parametrize("columns", [16, 32, 64, 128])
def test_the_table_has_each_column_once_and_four_threads_side_by_side(written, columns):
    from dmlax._cuda.tile import Tile

    tile = Tile(2, 1, columns, 128, 3, 2)
    found = [tile.column_at(place) for place in range(columns)]
    assert sorted(found) == [*range(columns)]
    for start in range(0, columns, 4 * tile.run):
        for part in range(0, tile.run, 4):
            four = [start + lane * tile.run + part + i for lane in range(4) for i in range(4)]
            place = start + 4 * part
            assert found[place : place + 16] == four


@pytest.mark.parametrize("columns", [16, 32, 64, 128, 256])
@pytest.mark.parametrize("depth", [32, 64, 128])
@pytest.mark.parametrize("warpgroups", [1, 2, 3, 4])
def test_rows_of_a_stage_have_each_column_once_at_the_distances_that_are_copied(
    written, warpgroups, depth, columns
):
    from dmlax._cuda.tile import Tile

    tile = Tile(warpgroups, 1, columns, depth, 3, 2)
    found = [tile.column_of(row) for row in range(columns)]
    assert sorted(found) == [*range(columns)]
    assert tile.has_column_distances or warpgroups == 3
    for row in range(tile.rows_at_once, columns):
        first, distance = row % tile.rows_at_once, row - row % tile.rows_at_once
        if tile.has_column_distances:
            assert found[row] == found[first] + tile.column_distance(distance)


def test_a_loop_whose_body_gives_another_structure_is_refused(written):
    import jax

    from dmlax._cuda import ir

    with pytest.raises(TypeError, match="is not"):
        ir._flatten((), jax.tree.structure([0]))


def test_windows_have_no_products_in_flight(written):
    from dmlax._cuda.tile import GemmProblem, choose_tile

    tiles = (choose_tile(GemmProblem(25_216, 768, 768, gathers=x), 132) for x in (False, True))
    assert [(tile.depth, tile.stages, tile.in_flight) for tile in tiles] == [
        (64, 6, True),
        (128, 3, False),
    ]


@pytest.mark.parametrize(
    ("sizes", "spans"), [((392, 512, 4608), 4), ((1568, 512, 4608), 2), ((25_088, 256, 512), 1)]
)
def test_tiles_that_have_a_multiprocessor_take_several_spans(written, sizes, spans):
    from dmlax._cuda.tile import GemmProblem, choose_tile

    assert choose_tile(GemmProblem(*sizes), 132).spans == spans

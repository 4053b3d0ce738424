"""Names of axes: Shardy's rule, and the tiles of every array from those of the output."""

import numpy as np
import pytest

from dmlax._core import axis_names
from dmlax._core.axis_names import AxisNames, ShardingRule

PRODUCT = AxisNames(("m -", "- n", "n"), ("m n",))
GROUPED = AxisNames(
    ("image group -", "group.channel - -"),
    ("image group.channel -",),
    (("group", 2), ("channel", 3)),
)


def rule(names, operands, outputs):
    written = ShardingRule(axis_names.pieces(names, outputs[0]))
    sides = written.write(names.operands, operands), written.write(names.outputs, outputs)
    return " -> ".join(sides), written.options


def tiles(shape, count):
    """Devices 0, 1, ... in the tiles of an output."""
    return np.arange(count).reshape(*shape, -1)


def test_a_rule_has_a_factor_for_every_name_and_every_whole_axis():
    text, options = rule(PRODUCT, [(4, 5), (5, 6), (6,)], [(4, 6)])
    assert text == "m whole0, whole1 n, n -> m n"
    assert options == {"need_replication_factors": ("whole0", "whole1")}


def test_an_axis_of_groups_has_factors_of_its_parts():
    text, options = rule(GROUPED, [(8, 10, 7), (6, 5, 3)], [(8, 6, 7)])
    assert text == (
        "image (group whole0) whole1, (group channel) whole2 whole3 -> image (group channel) whole4"
    )
    sizes = {name: size for name, size in options.items() if isinstance(size, int)}
    assert sizes == {"group": 2, "whole0": 5, "channel": 3}


@pytest.mark.parametrize("size", [0, 1])
def test_axes_of_one_piece_or_none_are_whole(size):
    text, _ = rule(PRODUCT, [(size, 5), (5, 6), (6,)], [(size, 6)])
    assert text == "whole0 whole1, whole2 n, n -> whole3 n"


def test_operands_are_split_as_the_output():
    grid = axis_names.grid(PRODUCT, tiles((2, 2), 4))
    assert grid.tiles("m n").tolist() == [[[0], [1]], [[2], [3]]]
    assert grid.tiles("m -").tolist() == [[[0, 1]], [[2, 3]]]
    assert grid.tiles("- n").tolist() == [[[0, 2], [1, 3]]]
    assert grid.tiles("n").tolist() == [[0, 2], [1, 3]]
    assert grid.tiles("").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("count", "output", "input"),
    [
        (2, [[0], [1]], [[0], [1]]),
        (3, [[0, 1, 2]], [[0, 1, 2]]),  # would cut a group in two parts, beside a whole one
        (4, [[0, 1], [2, 3]], [[0, 1], [2, 3]]),  # 4 does not divide 6
        (6, [[0], [1], [2], [3], [4], [5]], [[0, 1, 2], [3, 4, 5]]),
    ],
)
def test_groups_are_split_before_their_channels(count, output, input):
    grid = axis_names.grid(GROUPED, tiles((1, count, 1), count))
    assert grid.tiles("group.channel").tolist() == output
    assert grid.tiles("group").tolist() == input


def test_axes_without_a_name_are_gathered():
    grid = axis_names.grid(GROUPED, tiles((1, 1, 4), 4))
    assert grid.tiles("image group.channel -").shape == (1, 1, 1, 4)


def test_pieces_limit_how_far_a_name_is_split():
    names = AxisNames(("n -",), ("n",), (("n", 3),))
    assert axis_names.grid(names, tiles((2,), 2)).tiles("n").tolist() == [[0, 1]]
    assert axis_names.grid(names, tiles((6,), 6)).tiles("n").tolist() == [[0, 1], [2, 3], [4, 5]]


def test_a_map_names_its_axis():
    once = PRODUCT.mapped((0, None, 1))
    assert once.operands == ("map2 m -", "- n", "n map2")
    assert once.mapped((2, 0, None)).operands == ("map2 m map3 -", "map3 - n", "n map2")
    assert once.outputs == ("map2 m n",)


@pytest.mark.parametrize(
    ("shape", "found"),
    [((), ""), ((6,), "n"), ((1,), "-"), ((4, 1), "m -"), ((1, 4, 6), "- m n"), ((1, 6), "- n")],
)
def test_operands_that_broadcast_have_the_names_of_the_axes_they_vary_along(shape, found):
    assert axis_names.broadcast(shape, "m n", (4, 6)) == found


def test_parameters_of_channels_lie_along_one_axis():
    assert axis_names.along((1, 6, 1, 1), "channel", 6) == "- channel - -"
    assert axis_names.along((1,), "channel", 6) == "-"

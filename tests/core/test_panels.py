"""Panels: the order of their bytes, and back."""

import jax.numpy as jnp
import numpy as np
import pytest

from dmlax._core.panels import PanelShape, pack_panels, unpack_panels
from support import assert_same, draw

SHAPES = [(1, 1, 1), (1, 64, 64), (1, 65, 63), (2, 3, 130), (3, 128, 4), (1, 0, 5), (1, 5, 0)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("batch", [(), (2,)], ids=str)
def test_panels_unpack_to_their_rows(shape, batch):
    shape = PanelShape(*shape)
    rows = draw(1, np.int8, (*batch, shape.groups * shape.rows, shape.depth))
    packed = pack_panels(shape, rows)
    assert packed.shape == (*batch, *shape.packed)
    assert_same(unpack_panels(shape, packed), rows)
    assert_same(pack_panels(shape, jnp.asarray(rows)), packed)
    assert_same(unpack_panels(shape, jnp.asarray(packed)), rows)


def test_a_panel_has_four_bytes_of_each_of_64_rows_and_then_the_next():
    shape = PanelShape(2, 70, 9)
    rows = draw(2, np.int8, (140, 9))
    words = pack_panels(shape, rows).reshape(2, 2, 16, 64, 4)
    for group, panel, word, row, byte in np.ndindex(words.shape):
        at, k = 64 * panel + row, 4 * word + byte
        wanted = rows[70 * group + at, k] if at < 70 and k < 9 else 0
        assert words[group, panel, word, row, byte] == wanted

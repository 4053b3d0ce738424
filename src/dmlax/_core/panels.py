"""Panels: packed rows in the order in which a native product reads them (`_cpu/gemm/rows.h`).

A panel has 64 rows: the first four bytes of all rows, then the next four, so that one load fills a
vector register. Rows are padded with zeros to whole panels, and their bytes to a step of the widest
product.
"""

from typing import Literal, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array

Packing: TypeAlias = Literal["rows", "panels"]
PACKINGS = ("auto", "panels", "rows")

PANEL_WIDTH = 64
_K_PACK = 4
_DEPTH_STEP = 64


class PanelShape(NamedTuple):
    """Rows of one group, of `depth` bytes, as panels."""

    groups: int
    rows: int
    depth: int

    @property
    def panels(self) -> int:
        """The panels of one group."""
        return -(-self.rows // PANEL_WIDTH)

    @property
    def words(self) -> int:
        """The words of four bytes of a row."""
        return -(-self.depth // _DEPTH_STEP) * _DEPTH_STEP // _K_PACK

    @property
    def packed(self) -> tuple[int, int]:
        """The sizes: all panels, and their bytes."""
        return self.groups * self.panels, self.words * _K_PACK * PANEL_WIDTH

    @property
    def pieces(self) -> int:
        """The equal pieces into which one group's rows can be cut: whole panels."""
        return 1 if self.rows % PANEL_WIDTH else self.panels


def pack_panels(shape: PanelShape, rows: Array) -> Array:
    """(..., groups * rows, depth) -> (..., panels, bytes), of NumPy or JAX."""
    batch = rows.shape[:-2]
    grouped = rows.reshape(*batch, shape.groups, shape.rows, shape.depth)
    missing = shape.panels * PANEL_WIDTH - shape.rows, shape.words * _K_PACK - shape.depth
    pad = np.pad if isinstance(rows, np.ndarray) else jnp.pad
    padded = pad(grouped, [(0, 0)] * (len(batch) + 1) + [(0, count) for count in missing])
    words = padded.reshape(*batch, shape.groups, shape.panels, PANEL_WIDTH, shape.words, _K_PACK)
    return words.swapaxes(-2, -3).reshape(*batch, *shape.packed)


def unpack_panels(shape: PanelShape, panels: Array) -> Array:
    """The inverse of `pack_panels`."""
    batch = panels.shape[:-2]
    words = panels.reshape(*batch, shape.groups, shape.panels, shape.words, PANEL_WIDTH, _K_PACK)
    sizes = shape.groups, shape.panels * PANEL_WIDTH, shape.words * _K_PACK
    rows = words.swapaxes(-2, -3).reshape(*batch, *sizes)[..., : shape.rows, : shape.depth]
    return rows.reshape(*batch, shape.groups * shape.rows, shape.depth)

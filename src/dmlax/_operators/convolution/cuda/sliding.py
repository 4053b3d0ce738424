"""Windows that slide over pixels in shared memory, which are copied once for all taps.

A product's left rows are all pixels of the padded images, one after another: a tap further on is so
many rows further on. Rows whose window leaves the image, or reaches the next one, are not stored.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from dmlax._cuda import capability, cp_async, gemm, ir, tuning, wgmma
from dmlax._cuda.capability import CHUNK, HOPPER
from dmlax._cuda.ir import Value, select
from dmlax._cuda.pixels import split_pixel
from dmlax._cuda.tile import Sliding, sliding_tile
from dmlax._operators.convolution.cuda.operands import WindowLoader
from dmlax._operators.convolution.cuda.problem import ConvProblem


@dataclass(frozen=True)
class SlidingWindows:
    """The padded images of a convolution without strides."""

    problem: ConvProblem

    @classmethod
    def of(cls, problem: ConvProblem) -> "SlidingWindows | None":
        """The windows of a convolution that is faster with them, else None."""
        plain = problem.strides == problem.dilations == (1, 1) and problem.groups == 1
        few = problem.output_channels == tuning.SLIDING_COLUMNS and problem.sum is None
        # A product takes 32 bytes of a window, which lie side by side where its pixels do.
        fits = problem.channels == 64 or (problem.channels == 16 and problem.kernel[1] % 4 == 0)
        many = problem.taps > 1 and problem.output_pixels >= tuning.FEWEST_SLIDING_PIXELS
        if not (plain and few and fits and many):
            return None
        windows = cls(problem)
        return windows if windows._fit_twice else None

    @property
    def _fit_twice(self) -> bool:
        """True if two blocks fit a multiprocessor."""
        tile = sliding_tile(self.sliding, self.problem.depth)
        pixels = tile.stages * (tile.rows + self.sliding.pixels_beyond)
        filter = tuning.SLIDING_COLUMNS * self.problem.depth
        most = tuning.MOST_SLIDING_BYTES * capability.chosen().shared_bytes // HOPPER.shared_bytes
        return pixels * self.problem.channels + filter <= most

    @property
    def pixels(self) -> int:
        """Pixels of all padded images."""
        return self.problem.images * math.prod(self.problem.padded_input)

    @property
    def sliding(self) -> Sliding:
        """The windows as a tile of the product reads them."""
        return Sliding(self.problem.channels, self.problem.padded_input[1], self.problem.kernel)

    def place_of(self, pixel: Value) -> Value:
        """The output pixel whose window begins at a pixel of the padded images, or beyond all."""
        image, y, x = split_pixel(pixel, *self.problem.padded_input)
        height, width = self.problem.output
        exists = (image < self.problem.images) & (y < height) & (x < width)
        return select(exists, (image * height + y) * width + x, self.pixels)


class SlidingLoader(WindowLoader):
    """The loader of the pixels in which a tile's windows slide."""

    def __init__(self, windows: SlidingWindows, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.windows = windows

    def locate(self, row: Value) -> Any:
        """The row itself."""
        return row

    def copy(self, rows: Sequence[Any], chunk: gemm.Chunk) -> None:
        """Begins to copy the thread's chunks of a tile's pixels."""
        size, tile = self.problem.pixel_bytes, self.tile
        across = size // CHUNK
        first_row, to = rows[0] - self.copies.row, chunk.to - self.copies.offset
        pixel = ir.thread() // across
        part = ir.thread() - pixel * across
        at_once, count = tile.threads // across, tile.rows + self.windows.sliding.pixels_beyond
        for first in range(0, count, at_once):
            here = pixel + first
            with nullcontext() if first + at_once <= count else ir.when(here < count):
                source = self._source(first_row + here, part * CHUNK)
                cp_async.copy(to + wgmma.swizzle(here, part, size), *source)

    def _source(self, pixel: Value, byte: Value) -> tuple[Value, int, Value | None]:
        """A chunk of a pixel of the padded images, its size and how much is read, None for all.

        Beyond the images is the last one's last pixel.
        """
        problem, pixel = self.problem, ir.minimum(pixel, self.windows.pixels - 1)
        if not problem.padded:
            return self.input.address_signed(self._offset(pixel, byte)), CHUNK, None
        image, y, x = split_pixel(pixel, *problem.padded_input)
        (top, _), (left, _) = problem.padding
        height, width = problem.input
        y, x = y - top, x - left
        source = self.input.address_signed(self._offset((image * height + y) * width + x, byte))
        source, count = self.source_where((y < height) & (x < width), source, CHUNK)
        return source, CHUNK, count

    def _offset(self, pixel: Value, byte: Value) -> Value:
        return self._shorten(pixel.extend() * self.problem.pixel_bytes + byte.extend())

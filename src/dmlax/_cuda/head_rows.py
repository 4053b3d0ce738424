"""The addresses of a head's rows in an array that interleaves the rows of all heads."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmlax._cuda.ir import IntOrValue


@dataclass(frozen=True)
class HeadRows:
    """The rows of the matrices of all heads of all images; distances are in bytes."""

    heads: int  # the heads of an image
    image: int  # the step from an image to the next one
    head: int  # the step from a head to the next one
    row: int  # the step from a row of a head to its next row
    start: int  # the place of the first row

    def offset(self, group: "IntOrValue") -> "IntOrValue":
        """The offset of the first row of a matrix, in the width of its number."""
        image = group // self.heads
        return image * self.image + (group - image * self.heads) * self.head + self.start

"""Draws strides.svg: the elements of a {2, 3} tensor in four buffers.

    python docs/pictures/strides.py

Needs matplotlib.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from svg import save

INK, GREY = "#1f2933", "#b8c0c8"
ROWS = ("#2f6fb0", "#d97706")  # elements of row 0 and of row 1
BOTH = "#7a5ea8"
SIZES = (2, 3)
BUFFER = 8  # elements
LAYOUTS = {
    "packed": (3, 1),
    "padded rows": (4, 1),
    "transposed": (1, 2),
    "broadcast": (0, 1),
}


def main() -> None:
    """Write the picture next to this file."""
    matplotlib.rcParams["font.size"] = 11
    figure, axes = pyplot.subplots(figsize=(7.6, 2.9))
    for line, (name, strides) in enumerate(LAYOUTS.items()):
        _buffer(axes, -line, name, strides)
    axes.set(xlim=(-4.6, BUFFER), ylim=(-len(LAYOUTS) + 0.4, 1.0), aspect="equal")
    axes.axis("off")
    save(figure, Path(__file__).with_suffix(".svg"))


def _buffer(axes: Axes, y: float, name: str, strides: tuple[int, int]) -> None:
    """One buffer, and the tensor's elements at each of its places."""
    axes.text(-4.6, y + 0.36, name, color=INK, va="center", weight="bold")
    axes.text(-1.55, y + 0.36, f"{{{strides[0]},{strides[1]}}}", color=INK, va="center")
    inside: dict[int, list[tuple[int, int]]] = {}
    for row in range(SIZES[0]):
        for column in range(SIZES[1]):
            inside.setdefault(row * strides[0] + column * strides[1], []).append((row, column))
    for offset in range(BUFFER):
        _box(axes, offset, y, inside.get(offset, []))


def _box(axes: Axes, x: float, y: float, elements: list[tuple[int, int]]) -> None:
    rows = {row for row, _ in elements}
    colour = BOTH if len(rows) == 2 else ROWS[rows.pop()] if rows else "none"
    edge = colour if elements else GREY
    box = FancyBboxPatch(
        (x + 0.06, y), 0.88, 0.72, boxstyle="round,pad=0,rounding_size=0.08", fc=colour, ec=edge
    )
    axes.add_patch(box)
    label = f"{'*' if len(elements) == 2 else elements[0][0]},{elements[0][1]}" if elements else ""
    axes.text(x + 0.5, y + 0.35, label, color="white", ha="center", va="center", size=10)


if __name__ == "__main__":
    main()

"""Draws cpu_speed.svg and gpu_speed.svg: speeds relative to other libraries, from results.

    python docs/pictures/speed.py

Needs matplotlib.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from svg import save

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "benchmarks" / "results"
INK, GREY, LINE = "#1f2933", "#8a94a0", "#d5dae0"
BLUE, ORANGE, PURPLE = "#2f6fb0", "#d97706", "#7a5ea8"
Rows = Sequence[dict[str, Any]]


def main() -> None:
    """A file for the CPU and one for the GPU."""
    pyplot.rcParams["font.size"] = 9
    convolutions, arrays = rows("convolution-cpu-jax"), rows("nonzero-cpu-jax")
    for row in convolutions:
        row["over"] = 1 / row["ratio"]
    over = "size=count over"
    nonzero = {"jnp.nonzero(size=)": "speed-up", "np.nonzero*": f"{over} np"}
    picture(
        "cpu_speed",
        "Intel Xeon with AMX, 2 threads",
        (convolutions, "over", "Quantized convolution: speed relative to ONNX Runtime"),
        (arrays, nonzero | {"torch.nonzero*": f"{over} torch"}, "(*: size = count)"),
    )
    convolutions, arrays = rows("convolution-h200"), rows("nonzero-h200")
    peers = ("xla", "torch_nonzero", "torch_nonzero_static")
    for row in arrays:
        row |= {peer: row[f"{peer}_ms"] / row["mosaic_gpu_ms"] for peer in peers}
    picture(
        "gpu_speed",
        "NVIDIA H200",
        (convolutions, "over torch", "Quantized convolution: speed relative to PyTorch in bf16"),
        (arrays, {peer.replace("_", ".", 1): peer for peer in peers}, ""),
    )


def picture(
    name: str,
    machine: str,
    convolutions: tuple[Rows, str, str],
    arrays: tuple[Rows, dict[str, str], str],
) -> None:
    """Convolutions by batch above, nonzero by peer below."""
    table, column, title = convolutions
    heights = (len({row["layer"] for row in table}), len(arrays[0]))
    figure, (upper, lower) = pyplot.subplots(
        2, figsize=(7.4, sum(heights) / 4.6 + 2), height_ratios=heights
    )
    batches = sorted({row["batch"] for row in table})
    draw(
        upper,
        list(dict.fromkeys(row["layer"] for row in table)),
        {
            f"batch {batch}": ([row[column] for row in table if row["batch"] == batch], color)
            for batch, color in zip(batches, (ORANGE, BLUE), strict=True)
        },
        title,
    )
    table, columns, note = arrays
    draw(
        lower,
        [row["array"] for row in table],
        {
            label: ([row[column] for row in table], color)
            for (label, column), color in zip(columns.items(), (BLUE, ORANGE, PURPLE), strict=True)
        },
        f"nonzero_coordinates: relative speed {note}".rstrip(),
    )
    figure.suptitle(machine, x=0.01, ha="left", fontsize=11)
    figure.tight_layout(h_pad=2)
    save(figure, HERE / f"{name}.svg")


def rows(start: str) -> Rows:
    """The rows of the file whose name begins like this and goes on with a version."""
    (file,) = RESULTS.glob(f"{start}*.json")
    found = json.loads(file.read_text(encoding="utf-8"))
    (report,) = (value for name, value in found.items() if name != "environment")
    table: Rows = report["rows"]
    return table


def draw(
    axes: Axes, names: Sequence[str], series: dict[str, tuple[list[float], str]], title: str
) -> None:
    """A line for each name, a dot for each peer; left of 1 the peer is faster."""
    places = range(len(names))
    ends = zip(*(values for values, _ in series.values()), strict=True)
    for place, values in zip(places, ends, strict=True):
        axes.plot((min(values), max(values)), (place, place), color=LINE, zorder=1)
    for label, (values, color) in series.items():
        axes.plot(values, places, "o", color=color, markersize=6, label=label, zorder=2)
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_xscale("log")
    ticks = [tick for tick in (0.5, 1, 2, 3, 5, 10, 20, 50, 100) if tick < 2 * axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(places, names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=INK)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_title(title, loc="left", pad=30, weight="bold", fontsize=11)
    legend = {"loc": "lower left", "bbox_to_anchor": (0, 1), "frameon": False}
    axes.legend(ncols=len(series), borderaxespad=0.2, handletextpad=0.2, **legend)


if __name__ == "__main__":
    main()

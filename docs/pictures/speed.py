"""Draws cpu_speed.svg and gpu_speed.svg: speeds relative to other libraries, from results.

    python docs/pictures/speed.py

Needs matplotlib.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from svg import save

sys.path.append(str(Path(__file__).parents[2] / "tools/benchmarks"))
from stored import read

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "tools/benchmarks/results"
INK, GREY, LINE = "#1f2933", "#8a94a0", "#d5dae0"
COLORS = ("#2f6fb0", "#d97706", "#7a5ea8", "#2e8b57")
Rows = Sequence[dict[str, Any]]


INSTRUCTION_SETS = {
    "amx_int8": "AMX",
    "avx512_vnni": "AVX-512 VNNI",
    "avx2": "AVX2",
}
Chart = tuple[Sequence[str], dict[str, list[float]], str]  # names, values by series, a title


def main() -> None:
    """A file for the CPU and one for the GPU."""
    pyplot.rcParams["font.size"] = 9
    arrays = rows("nonzero-cpu-jax")
    peers = {"np.nonzero*": "size=count over np", "torch.nonzero*": "size=count over torch"}
    note = " (another Xeon; *: size = count)"
    picture(
        "cpu_speed",
        "Intel Xeon, 2 threads",
        convolutions_by_set(),
        nonzero(arrays, {"jnp.nonzero(size=)": "speed-up"} | peers, note),
    )
    operators = rows("operators-h200")
    table = [row for row in operators if row["operator"] == "convolution, exact"]
    table = [
        row | dict(zip(("layer", "batch"), row["size"].split(", "), strict=True)) for row in table
    ]
    batches = ("batch 32", "batch 128")
    table = [row for row in table if row["layer"].startswith(("resnet50.", "mobilenet."))]
    series = {
        batch: [row["over torch"] for row in table if row["batch"] == batch] for batch in batches
    }
    arrays = [row | {"array": row["size"]} for row in operators if row["operator"] == "nonzero"]
    for row in arrays:
        row["over xla"] = row["xla us"] / row["us"]
    peers = {"xla": "over xla", "torch.nonzero or nonzero_static": "over torch"}
    title = "Quantized convolution: speed relative to PyTorch in bf16"
    picture("gpu_speed", "NVIDIA H200", (layers(table), series, title), nonzero(arrays, peers))


def convolutions_by_set() -> Chart:
    """The layers in NHWC at batch 1 on each instruction set."""
    tables = {
        label: [row for row in rows(f"layers-cpu-{name}", "layers") if is_shown(row)]
        for name, label in INSTRUCTION_SETS.items()
    }
    series = {label: [1 / row["ratio"] for row in table] for label, table in tables.items()}
    title = "Quantized convolution, NHWC, batch 1: speed relative to ONNX Runtime"
    return layers(tables["AMX"]), series, title


def is_shown(row: dict[str, Any]) -> bool:
    """True for the layout and the batch of the picture."""
    return row["layout"] == "NHWC" and row["batch"] == 1


def nonzero(table: Rows, columns: dict[str, str], note: str = "") -> Chart:
    """The arrays, by peer."""
    series = {label: [row[column] for row in table] for label, column in columns.items()}
    return [row["array"] for row in table], series, f"nonzero_coordinates: relative speed{note}"


def layers(table: Rows) -> Sequence[str]:
    """Their names, once."""
    return list(dict.fromkeys(row["layer"] for row in table))


def picture(name: str, machine: str, *charts: Chart) -> None:
    """One chart above the other."""
    heights = [len(names) for names, _, _ in charts]
    figure, axes = pyplot.subplots(
        len(charts), figsize=(7.4, sum(heights) / 4.6 + 2), height_ratios=heights
    )
    for place, chart in zip(axes, charts, strict=True):
        draw(place, *chart)
    figure.suptitle(machine, x=0.01, ha="left", fontsize=11)
    figure.tight_layout(h_pad=2)
    save(figure, HERE / f"{name}.svg")


def rows(start: str, name: str | None = None) -> Rows:
    """The rows of a report, or the only one, of the file whose name begins like this."""
    (file,) = RESULTS.glob(f"{start}*.json")
    reports = read(file)
    del reports["environment"]
    (report,) = [reports[name]] if name else reports.values()
    table: Rows = report["rows"]
    return table


def draw(axes: Axes, names: Sequence[str], series: dict[str, list[float]], title: str) -> None:
    """A line for each name, a dot for each peer; left of 1 the peer is faster."""
    places = range(len(names))
    ends = zip(*series.values(), strict=True)
    for place, values in zip(places, ends, strict=True):
        axes.plot((min(values), max(values)), (place, place), color=LINE, zorder=1)
    for (label, values), color in zip(series.items(), COLORS, strict=False):
        axes.plot(values, places, "o", color=color, markersize=6, label=label, zorder=2)
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    marks = (0.2, 0.5, 1, 2, 3, 5, 10, 20, 50, 100)
    ticks = [mark for mark in marks if min(low, 0.9) < mark < 2 * high]
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

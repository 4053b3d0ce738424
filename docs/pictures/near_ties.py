"""Draws near_ties.svg: how often each arithmetic rounds a quantized result wrongly.

    python docs/pictures/near_ties.py

Needs dmlax-conformance, matplotlib, onnx and onnxruntime besides dmlax. Prints the counts that
README.md quotes.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import islice
from math import floor, log2
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import onnx
import onnxruntime
from grading.near_ties import Draw, NearTie, family, float32, kind

import dmlax

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from svg import save

COUNT = 1000
INK, RED, GREEN, GREY = "#1f2933", "#c8102e", "#1a7f37", "#8a94a0"
WRONG = LinearSegmentedColormap.from_list("wrong", ["#ffffff", "#f7b6b6", "#e4454f"])
ZERO_POINT = 128  # a uint8 output's: results lie up to 127 either way

# Problems --------------------------------------------------------------------------------------


def problems() -> dict[str, list[NearTie]]:
    """A thousand accumulators with their scales, of each kind."""
    return {
        "random": list(islice(_random(Draw(2)), COUNT)),
        "near ties\nof float32": family("float32", COUNT),
        "near ties\nof float64": family("float64", COUNT),
        "exact\nties": family("exact", COUNT),
    }


def _random(draw: Draw) -> Iterator[NearTie]:
    while True:
        accumulator = draw.odd(10 + draw.randrange(21)) * (1 - 2 * draw.randrange(2))
        sx, sw, sy = (Fraction(draw.odd(24), 2**30) for _ in range(3))
        wanted = Fraction(draw.randrange(2**20), 2**13)  # 0 to 128
        sw = wanted * sy / sx / abs(accumulator)
        yield NearTie(accumulator, *map(float32, (sx, sw or sx, sy)))


# Arithmetics -----------------------------------------------------------------------------------


class Operands:
    """The same problems as arrays."""

    def __init__(self, ties: Sequence[NearTie]) -> None:
        words = np.array([tie[1:] for tie in ties], np.uint32)
        self.scales = words.T.copy().view(np.float32)
        self.accumulator = np.array([tie.accumulator for tie in ties], np.int32)
        self.multiplier = [sx * sw / sy for sx, sw, sy in (tie.scales for tie in ties)]


def truth(operands: Operands) -> np.ndarray:
    """Outputs by fractions."""
    pairs = zip(operands.accumulator.tolist(), operands.multiplier, strict=True)
    return _clamped([round(accumulator * multiplier) for accumulator, multiplier in pairs])


def in_float32(operands: Operands) -> np.ndarray:
    """One combined multiplier."""
    sx, sw, sy = operands.scales
    return _clamped(np.rint(operands.accumulator.astype(np.float32) * (sx * sw / sy)))


def in_float64(operands: Operands) -> np.ndarray:
    """One combined multiplier."""
    sx, sw, sy = operands.scales.astype(np.float64)
    return _clamped(np.rint(operands.accumulator * (sx * sw / sy)))


def in_fixed_point(operands: Operands, bits: int) -> np.ndarray:
    """A multiplier of `bits` significant bits, and integers of any size."""
    rounded = []
    for accumulator, multiplier in zip(
        operands.accumulator.tolist(), operands.multiplier, strict=True
    ):
        unit = Fraction(2) ** (floor(log2(multiplier)) + 1 - bits)
        rounded.append(round(accumulator * round(multiplier / unit) * unit))
    return _clamped(rounded)


def by_onnx_runtime(operands: Operands) -> np.ndarray:
    """QLinearConv on the CPU; the input is its zero point, so only the bias counts."""
    session = onnxruntime.InferenceSession(_model().SerializeToString())
    outputs = []
    for bias, (sx, sw, sy) in zip(operands.accumulator, operands.scales.T, strict=True):
        feeds = {"sx": sx, "sw": sw, "sy": sy, "bias": bias.reshape(1)}
        outputs.append(session.run(None, {k: np.asarray(v) for k, v in feeds.items()})[0].item())
    return np.array(outputs, np.int64)


def by_dmlax(operands: Operands, arithmetic: str = "exact") -> np.ndarray:
    """The operator itself, mapped over the problems."""

    def one(bias: jax.Array, scales: jax.Array) -> jax.Array:
        sx, sw, sy = scales
        x, w = jnp.zeros((1, 1, 1, 1), jnp.uint8), jnp.ones((1, 1, 1, 1), jnp.int8)
        y = dmlax.quantized_linear_convolution(
            x,
            w,
            bias.reshape(1),
            input_scale=sx,
            filter_scale=sw,
            output_scale=sy,
            output_zero_point=jnp.uint8(ZERO_POINT),
            arithmetic=arithmetic,
        )
        return y.reshape(())

    outputs = jax.jit(jax.vmap(one))(operands.accumulator, operands.scales.T)
    return np.asarray(outputs, np.int64)


def _clamped(rounded: Sequence[int] | np.ndarray) -> np.ndarray:
    limited = [min(max(int(value), -ZERO_POINT), 255 - ZERO_POINT) for value in rounded]
    return np.array(limited, np.int64) + ZERO_POINT


def _model() -> onnx.ModelProto:
    value = onnx.helper.make_tensor_value_info
    constants = {
        "x": np.zeros((1, 1, 1, 1), np.uint8),
        "zx": np.uint8(0),
        "w": np.ones((1, 1, 1, 1), np.int8),
        "zw": np.int8(0),
        "zy": np.uint8(ZERO_POINT),
    }
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "bias"]
    scales = [value(name, onnx.TensorProto.FLOAT, []) for name in ("sx", "sw", "sy")]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("QLinearConv", names, ["y"])],
        "one",
        [*scales, value("bias", onnx.TensorProto.INT32, [1])],
        [value("y", onnx.TensorProto.UINT8, [1, 1, 1, 1])],
        [onnx.numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()],
    )
    opset = [onnx.helper.make_opsetid("", 13)]
    return onnx.helper.make_model(graph, ir_version=10, opset_imports=opset)


ARITHMETICS = {
    "float32": in_float32,
    f"ONNX Runtime {onnxruntime.__version__}, CPU": by_onnx_runtime,
    'dmlax, "float32"': lambda operands: by_dmlax(operands, "float32"),
    "float64": in_float64,
    "fixed point, 31 bits": lambda operands: in_fixed_point(operands, 31),
    "fixed point, 53 bits": lambda operands: in_fixed_point(operands, 53),
    "fixed point, 80 bits": lambda operands: in_fixed_point(operands, 80),
    'dmlax, "exact"': by_dmlax,
}


# Pictures --------------------------------------------------------------------------------------


def counts(ties: dict[str, list[NearTie]]) -> np.ndarray:
    """Wrong results: a row for each arithmetic, a column for each kind of problem."""
    columns = []
    for members in ties.values():
        operands = Operands(members)
        right = truth(operands)
        columns.append([(run(operands) != right).sum() for run in ARITHMETICS.values()])
    return np.array(columns).T


def draw_counts(axes: Axes, kinds: Sequence[str], wrong: np.ndarray) -> None:
    """The counts as a coloured table."""
    axes.pcolormesh(wrong, cmap=WRONG, norm=PowerNorm(0.5, 0, COUNT * 0.6))
    axes.invert_yaxis()
    for (row, column), value in np.ndenumerate(wrong):
        last = row == len(wrong) - 1
        style = {"color": GREEN if last else INK, "weight": "bold" if last else "normal"}
        place = (column + 0.5, row + 0.5)
        axes.text(*place, str(value), ha="center", va="center", fontsize=11, **style)
    axes.set_xticks(np.arange(len(kinds)) + 0.5, kinds)
    axes.set_yticks(np.arange(len(ARITHMETICS)) + 0.5, list(ARITHMETICS))
    axes.set_xticks(range(1, len(kinds)), minor=True)
    axes.set_yticks(range(1, len(ARITHMETICS)), minor=True)
    axes.grid(which="minor", color="#d5dae0", linewidth=0.8)
    axes.tick_params(which="both", length=0)
    axes.xaxis.tick_top()
    axes.set_title(f"Wrong results of {COUNT:,}", loc="left", pad=12, weight="bold", fontsize=11)


def draw_one(axes: Axes, members: Sequence[NearTie]) -> None:
    """One problem on the number line, with the float64 numbers around it."""
    tie = next(tie for tie in members if _instructive(tie))
    quotient = abs(tie.quotient)
    half = int(quotient) + Fraction(1, 2)
    spacing = float(np.spacing(float(half)))
    offset = float(quotient - half)
    for step in range(-2, 3):
        axes.plot(2 * (step * spacing,), (-0.25, 0.25), color=GREY, linewidth=1.5)
        label = f"{float(half):g}" if step == 0 else ""
        axes.text(step * spacing, -0.45, label, ha="center", va="top", color=INK)
    axes.axhline(0, color=GREY, linewidth=1)
    axes.plot(offset, 0, "o", color=GREEN, markersize=9, zorder=3)
    axes.plot(0, 0, "o", color=RED, markersize=9, zorder=3)
    right, wrong = round(quotient), round(half)
    ends = {"arrowstyle": "-", "color": INK, "linewidth": 0.8}
    sides = (("right", -0.45), ("left", 0.45))
    first, second = sides if offset < 0 else sides[::-1]
    side = "above" if offset > 0 else "below"
    exact = f"the real number is {abs(offset):.1g} {side}: {right}"
    for text, at, color, (align, shift) in (
        (exact, offset, GREEN, first),
        (f"float64 computes a tie and rounds to even: {wrong}", 0.0, RED, second),
    ):
        where = (at + shift * spacing, 0.75)
        axes.annotate(text, (at, 0.1), where, ha=align, va="center", color=color, arrowprops=ends)
    axes.set(xlim=(-2.6 * spacing, 2.6 * spacing), ylim=(-0.9, 1.1), xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_visible(False)
    scales = "{:.9g} · {:.9g} / {:.9g}".format(*map(float, tie.scales))
    title = f"{abs(tie.accumulator):,} · {scales}, among the float64 numbers around it"
    axes.set_title(title, loc="left", pad=8, weight="bold", fontsize=11)


def _instructive(tie: NearTie) -> bool:
    """Float64 computes a tie, and the wrong integer is the even one."""
    quotient = abs(tie.quotient)
    half = int(quotient) + Fraction(1, 2)
    far = abs(quotient - half) > Fraction(np.spacing(float(half))) / 5
    return kind(tie.quotient) == "float64" and round(quotient) != round(half) and far


def main() -> None:
    """Count, print, draw."""
    ties = problems()
    wrong = counts(ties)
    for name, row in zip(ARITHMETICS, wrong, strict=True):
        print(f"{name:28}", *(f"{value:5}" for value in row))
    matplotlib.rcParams["text.color"] = INK
    figure = pyplot.figure(figsize=(9, 6), layout="constrained")
    top, bottom = figure.subfigures(2, height_ratios=(1, 3.2))
    draw_one(top.subplots(), ties["near ties\nof float64"])
    draw_counts(bottom.subplots(), list(ties), wrong)
    save(figure, Path(__file__).with_suffix(".svg"))


if __name__ == "__main__":
    main()

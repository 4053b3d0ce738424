"""The report of a quantized function."""

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dmlax._core import compat
from dmlax._explain import table

_Shapes = Sequence[tuple[int, ...]]


class Line(NamedTuple):
    """A line of the report: one layer, or one step that stayed float for a reason.

    Attributes:
      name: the path of the weights, or the line of the code.
      operator: the step's kind, or the equation's name.
      runs: the dtype of the result, or "float" and the reason.
      signal_to_noise: decibels of the result on the first batch; NaN for a float step.
      before: bytes of the float weights.
      after: bytes of the integers.
      multiply_adds: of one call on a batch.
    """

    name: str
    operator: str
    runs: str
    signal_to_noise: float
    before: int
    after: int
    multiply_adds: int


class Report(NamedTuple):
    """A line for each layer: where it runs, and how exactly. It prints as a table.

    Attributes:
      lines: of the layers, and of what stayed float for a reason.
      floats: how many other operations are float, by the line of the code, as a normalization's.
    """

    lines: tuple[Line, ...]
    floats: Mapping[str, int] = MappingProxyType({})

    @property
    def integer_share(self) -> float:
        """The share of the multiply-adds that run in integers; 1.0 if there are none."""
        sums = [x.multiply_adds for x in self.lines if not x.runs.startswith("float")]
        return sum(sums) / max(1, self.multiply_adds) if self.multiply_adds else 1.0

    @property
    def multiply_adds(self) -> int:
        """The multiply-adds of one call on a batch."""
        return sum(x.multiply_adds for x in self.lines)

    def __str__(self) -> str:
        rows = [("layer", "operator", "runs in", "signal to noise", "bytes before", "after")]
        rows += [
            (
                *x[:3],
                "" if np.isnan(x.signal_to_noise) else f"{x.signal_to_noise:.1f} dB",
                str(x.before),
                str(x.after),
            )
            for x in self.lines
        ]
        floats = [f"in float: {count} at {place}" for place, count in self.floats.items()]
        return "\n".join([*table(rows), *floats, self._share()])

    def _share(self) -> str:
        return f"{self.integer_share:.1%} of {self.multiply_adds:,} multiply-adds run in integers"

    def plot(self) -> Any:
        """Draws the signal to noise of each line, and gray bars for steps in float.

        Needs matplotlib, which the extra `plot` installs.

        Returns:
          A `matplotlib.figure.Figure`: `figure.savefig("report.png")`.
        """
        from matplotlib.figure import Figure

        lines = self.lines
        floats = [i for i, x in enumerate(lines) if x.runs.startswith("float")]
        noises = [x.signal_to_noise if np.isfinite(x.signal_to_noise) else 0.0 for x in lines]
        figure = Figure(figsize=(9, 1.2 + 0.22 * len(lines)), layout="constrained")
        axes = figure.subplots()
        axes.barh(range(len(lines)), noises, label="in integers")
        if floats:
            axes.barh(floats, max(1.0, *noises), color="lightgray", label="in float")
            figure.legend(loc="outside lower right", ncols=2, fontsize=8)
        short = [x.name if len(x.name) < 50 else f"...{x.name[-46:]}" for x in lines]
        names = [f"{name}  {x.operator}" for name, x in zip(short, lines, strict=True)]
        axes.set_yticks(range(len(lines)), names)
        axes.set(xlabel="signal to noise, dB", title=self._share(), ylim=(len(lines) - 0.4, -0.6))
        axes.tick_params("y", labelsize=8, length=0)
        axes.grid(axis="x", alpha=0.3)
        return figure


def multiply_adds(name: str, params: dict[str, Any], operands: _Shapes, results: _Shapes) -> int:
    """The products that an equation sums, from the shapes; those of a loop for each step."""
    if name == "dot_general":
        (axes, _), _ = params["dimension_numbers"]
        return int(math.prod(results[0]) * math.prod(operands[0][i] for i in axes))
    if name == "conv_general_dilated":
        outputs = operands[1][params["dimension_numbers"].rhs_spec[0]]
        return int(math.prod(results[0]) * math.prod(operands[1]) // max(1, outputs))
    sums = (
        multiply_adds(e.primitive.name, e.params, _shapes(e.invars), _shapes(e.outvars))
        for jaxpr in _programs(params)
        for e in jaxpr.eqns
    )
    return int(params.get("length", 1)) * sum(sums)


def _shapes(atoms: Any) -> _Shapes:
    return [tuple(atom.aval.shape) for atom in atoms]


def _programs(params: dict[str, Any]) -> Iterator[Any]:
    """The programs that an equation holds."""
    for value in params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            if (program := compat.closed(each)) is not None:
                yield program.jaxpr

"""Which equations of a program become which operators."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.moves import MOVES
from dmlax.quantization.program import LAYERS, Equation, Program, within

_AFFINE = ("add", "sub", "mul", "div")
_MOVES = {*MOVES, "pad", "convert_element_type"}  # their other operands are constants
_OF_ELEMENTS = """
abs acos acosh add and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy
cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite le
lgamma log log1p logistic lt max min mul ne neg nextafter not or pow rem round rsqrt select_n
sign sin sinh sqrt square stop_gradient sub tan tanh xor
"""
_POINTWISE = frozenset(_OF_ELEMENTS.split())
_FIRST, _SPATIAL, _LAST = "N", "DHW", "C"


@dataclass(eq=False)
class Step:
    """One operator, or one equation in float.

    Attributes:
      kind: "convolution", "product", "sum", "multiplication", "average", "max", "concatenation",
        "lookup", "move" or "float".
      operands: the values that depend on the inputs.
      result: after the absorbed equations.
      weights: the constant of a convolution or a product, -1 of all else, also of a product of two
        values.
      affine: equations (name, constant) that are folded into weights and bias.
      why: the reason of a float step.
      is_integer: if it runs in integers; else the equation and the absorbed ones run in float.
      absorbed: the equations that follow and are part of the step; all those of a lookup.
      spread: the factors by which zeros spread the input of a transposed convolution, by axis.
      name: the path of the weights, or else the line of the code.
      fused: of a sum, the convolution or product whose result nothing else reads: one operator.
    """

    kind: str
    equation: Equation
    operands: tuple[int, ...]
    result: int
    weights: int = -1
    swapped: bool = False
    affine: list[tuple[str, int]] = field(default_factory=list)
    why: str = ""
    is_integer: bool = False
    absorbed: list[Equation] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    spread: dict[int, int] = field(default_factory=dict)
    name: str = ""
    fused: "Step | None" = None

    @property
    def place(self) -> str:
        """The line of the code, with the last folder of its path."""
        return "/".join(self.equation.line.split("/")[-2:])

    @property
    def reads(self) -> tuple[int, ...]:
        """The values that it reads: its operands in integers, else those of all its equations."""
        equations = (self.equation, *self.absorbed)
        return self.operands if self.is_integer else tuple(x for e in equations for x in e.operands)


class Planner:
    """Matches equations in order; a step absorbs those that only its result needs."""

    def __init__(self, program: Program) -> None:
        self.program = program
        read = [x for equation in program.equations for x in equation.operands]
        self.uses = Counter([*read, *program.outputs])
        self.consumers = {x: each for each in program.equations for x in each.operands}
        self.absorbed: set[int] = set()
        self.sources: dict[int, int] = {}

    def steps(self) -> list[Step]:
        """The steps, in order."""
        found = []
        for equation in self.program.equations:
            if equation.results[:1] and equation.results[0] in self.absorbed:
                continue
            step = self._match(equation)
            if step.kind in ("convolution", "product", "sum", "multiplication"):
                self._absorb(step)
            found.append(step)
        return found

    def uniform(self, number: int) -> bool:
        """If a constant is one number, for any parameters."""
        return not self.program.paths[number] and not self.program.varying(number)

    def _is(self, number: int, value: float | None) -> bool:
        """If a value is a constant, for any parameters: this number, or a positive one."""
        if number not in self.program.constants or not self.uniform(number):
            return False
        found = float(self.program.first(number))
        return found > 0 if value is None else found == value

    def _trace_back(self, step: Step) -> bool:
        """If the result is a function of one value, element by element."""
        equation, shapes = step.equation, self.program.shapes
        sources = {self.sources.get(x, x) for x in step.operands}
        sizes = {shapes[x] for x in (*step.operands, *equation.results)}
        fixed = (self.uniform(x) for x in equation.operands if x not in step.operands)
        if equation.name not in _POINTWISE or len(sources) > 1 or len(sizes) > 1 or not all(fixed):
            return False
        self.sources[step.result] = sources.pop()
        return True

    def _match(self, equation: Equation) -> Step:
        name, program = equation.name, self.program
        loose = tuple(x for x in equation.operands if x not in program.constants)
        result = equation.results[0] if equation.results else -1
        step = Step("float", equation, loose, result)
        if name not in LAYERS and within(equation.params) & {*LAYERS}:
            step.why = f"no operator is a {name} of layers: write the loop in Python"
            return step
        pointwise, moves = self._trace_back(step), name in _MOVES
        floats = [*equation.operands[: 1 if moves else 2], *equation.results[:1]]
        if not all(jnp.issubdtype(program.dtypes[x], jnp.floating) for x in floats):
            return step
        if name == "conv_general_dilated":
            self._convolution(step)
        elif name == "dot_general":
            self._product(step)
        elif moves and loose == equation.operands[:1]:
            zero = name != "pad" or self._is(equation.operands[1], 0)
            step.kind = "move" if zero else "float"
        elif name in ("add", "mul") and len(loose) == 2 and not pointwise:
            step.kind = "sum" if name == "add" else "multiplication"
        elif name == "add" and any(program.paths.get(x) for x in equation.operands):
            step.kind, step.operands = "sum", equation.operands  # of a value and a parameter
        elif name == "concatenate":
            step.kind, step.operands = "concatenation", equation.operands
        elif name in ("reduce_window_max", "reduce_window_sum"):
            self._window(step)
        elif name == "reduce_sum":
            self._mean(step)
        return step

    def _convolution(self, step: Step) -> None:
        params, (x, w) = step.equation.params, step.equation.operands
        if w not in self.program.constants or x in self.program.constants:
            step.why = "its filter depends on the inputs"
        elif params["batch_group_count"] != 1:
            step.why = "no operator groups the batch"
        elif len(self.program.shapes[w]) not in (3, 4) or min(np.ravel(params["padding"])) < 0:
            step.why = "no operator has this rank or negative padding"
        else:
            step.kind, step.weights = "convolution", w
            spatial = params["dimension_numbers"].lhs_spec[2:]
            step.spread = dict(zip(spatial, params["lhs_dilation"], strict=True))
            step.options = {
                "strides": tuple(params["window_strides"]),
                "dilations": tuple(params["rhs_dilation"]),
                "padding": tuple(params["padding"]),
                "group_count": params["feature_group_count"],
                "dimension_numbers": params["dimension_numbers"],
            }

    def _product(self, step: Step) -> None:
        a, b = step.equation.operands
        step.kind, step.swapped = "product", a in self.program.constants
        if len(step.operands) == 1:
            step.weights = a if step.swapped else b

    def _window(self, step: Step) -> None:
        params = step.equation.params
        window, strides = params["window_dimensions"], params["window_strides"]
        layout, spatial = _layout(window, strides, params["padding"])
        if layout is None or any(n != 1 for n in params["base_dilation"]):
            step.why = "its window is not spatial"
            return
        starts, ends = zip(*(params["padding"][i] for i in spatial), strict=True)
        options = {
            "window_size": tuple(window[i] for i in spatial),
            "strides": tuple(strides[i] for i in spatial),
            "dilations": tuple(params["window_dilation"][i] for i in spatial),
            "start_padding": starts,
            "end_padding": ends,
            "dimension_numbers": layout,
        }
        if step.equation.name == "reduce_window_max":
            step.kind, step.options = "max", options
        elif not any((*starts, *ends)) and (after := self._divided(step, math.prod(window))):
            step.kind, step.options = "average", options
            self._take(step, after)
        else:
            step.why = "it is no mean over windows without padding"

    def _divided(self, step: Step, size: int) -> Equation | None:
        """The equation that alone reads the result, and divides it by a size."""
        after = self.consumers.get(step.result)
        if after is None or self.uses[step.result] != 1 or after.name != "div":
            return None
        return after if self._is(after.operands[1], size) else None

    def _mean(self, step: Step) -> None:
        """A sum over all spatial axes, divided by their size."""
        shape, axes = self.program.shapes[step.operands[0]], tuple(step.equation.params["axes"])
        rank = len(shape)
        letters = _SPATIAL[-len(axes) :]
        layouts = {
            tuple(range(1, rank - 1)): _FIRST + letters + _LAST,
            tuple(range(2, rank)): _FIRST + _LAST + letters,
        }
        after = self._divided(step, math.prod(shape[i] for i in axes))
        if 3 <= rank <= 5 and axes in layouts and after is not None:
            step.kind, step.options = "average", {"dimension_numbers": layouts[axes]}
            self._take(step, after)

    def _absorb(self, step: Step) -> None:
        """Folds what follows into the weights and bias, and activations into the clamp."""
        activated = False
        while self.uses[step.result] == 1 and step.result in self.consumers:
            after = self.consumers[step.result]
            if len(after.operands) != 2:
                return
            first = after.operands[0] == step.result
            other = after.operands[1] if first else after.operands[0]
            if other not in self.program.constants:
                return
            if after.name == "max" and self._is(other, 0):
                activated = True
            elif after.name == "min" and activated and self._is(other, None):
                pass
            elif (
                step.weights >= 0
                and not activated
                and after.name in _AFFINE
                and (first or after.name in ("add", "mul"))
                and self.program.varying(other) <= {*channel_axes(self.program, step)}
            ):
                step.affine.append((after.name, other))
            else:
                return
            self._take(step, after)

    def _take(self, step: Step, after: Equation) -> None:
        step.result = after.results[0]
        step.absorbed.append(after)
        self.absorbed.add(step.result)


def unsupported(program: Program, steps: Sequence[Step]) -> list[tuple[Step, list[str]]]:
    """The steps that stay float for a reason, although they read parameters, and these."""
    found = [
        (step, [path for x in step.equation.operands for path in program.paths.get(x, ())])
        for step in steps
        if step.why
    ]
    return [pair for pair in found if pair[1]]


def _layout(window: Any, strides: Any, padding: Any) -> tuple[str | None, Sequence[int]]:
    """The layout in which a window covers the spatial axes alone, and these axes."""
    rank = len(window)
    still = [
        w == 1 and s == 1 and tuple(p) == (0, 0)
        for w, s, p in zip(window, strides, padding, strict=True)
    ]
    if not 3 <= rank <= 5 or not still[0]:
        return None, ()
    letters = _SPATIAL[-(rank - 2) :]
    if still[-1]:
        return _FIRST + letters + _LAST, range(1, rank - 1)
    return (_FIRST + _LAST + letters, range(2, rank)) if still[1] else (None, ())


def channel_axes(program: Program, step: Step) -> Sequence[int]:
    """The axes of the result along which the output channels lie."""
    if step.kind == "convolution":
        return (step.options["dimension_numbers"].out_spec[1],)
    rank, batch = len(program.shapes[step.equation.results[0]]), len(batched(step)[0])
    count = len(program.shapes[step.weights]) - len(contracted(step)[1]) - batch
    first = batch if step.swapped else rank - count
    return range(first, first + count)


def channels(program: Program, step: Step, value: Any) -> Array:
    """One float32 value per output channel, of a constant that varies along their axes alone."""
    axes, array = channel_axes(program, step), jnp.asarray(value, jnp.float32)
    shape = program.shapes[step.equation.results[0]]
    if array.ndim:
        array = array[tuple(slice(None) if i in axes else 0 for i in range(array.ndim))]
    return jnp.broadcast_to(array, [shape[i] for i in axes]).reshape(-1)


def contracted(step: Step) -> tuple[Sequence[int], Sequence[int]]:
    """The axes over which a product sums, of its input and of its weights."""
    (left, right), _ = step.equation.params["dimension_numbers"]
    return (right, left) if step.swapped else (left, right)


def batched(step: Step) -> tuple[Sequence[int], Sequence[int]]:
    """The batch axes of a product, of its input and of its weights."""
    _, (left, right) = step.equation.params["dimension_numbers"]
    return (right, left) if step.swapped else (left, right)

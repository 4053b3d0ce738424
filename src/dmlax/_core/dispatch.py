"""Operators: their lowerings, and the choice between them."""

import functools
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import jax
import numpy as np
from jax import Array

from dmlax._core import choice, compat, labels, splitting
from dmlax._core.arguments import MOST_ELEMENTS, Aval, Rules, is_static, structs
from dmlax._core.axis_names import AxisNames
from dmlax.errors import UnsupportedError

Implementation = Literal["auto", "reference", "xla", "native_cpu", "mosaic_gpu"]
_IMPLEMENTATIONS = ("reference", "xla", "native_cpu", "mosaic_gpu")
_SLOW = "reference"
_PLATFORM_OF = {"native_cpu": "cpu", "mosaic_gpu": "cuda"}
PLATFORMS = ("cpu", "cuda", "tpu")


def is_faster(name: str, other: str | None, platform: str) -> bool:
    """True for an implementation that a platform runs before another one, None for nothing."""
    order = (None, *_IMPLEMENTATIONS)
    return _PLATFORM_OF.get(name, platform) == platform and order.index(name) > order.index(other)


class Plan(Protocol):
    """The part of a plan that dispatch reads; a plan is hashable and holds all that is static."""

    @property
    def input(self) -> Aval:
        """The dtype and shape of the first operand."""

    @property
    def output(self) -> object:
        """The dtypes and shapes of the results: an aval or a tuple of them."""

    def notes(self) -> Sequence[str]:
        """The lines that `explain` adds."""


PlanT = TypeVar("PlanT", bound=Plan)
OperandsT = TypeVar("OperandsT")  # an array or a NamedTuple of arrays
OutputT = TypeVar("OutputT")


def no_definition(plan: Any) -> None:
    """The `definition` of an operator whose floats have one answer."""


def tangent_of(
    run: Callable[[PlanT, OperandsT], Array],
) -> Callable[[PlanT, OperandsT, OperandsT], Array]:
    """The `tangent` of an operator whose kernel JAX cannot differentiate: that of plain JAX."""

    def tangent(plan: PlanT, operands: OperandsT, tangents: OperandsT) -> Array:
        result: Array
        _, result = jax.jvp(functools.partial(run, plan), (operands,), (tangents,))
        return result

    return tangent


def no_reason(plan: Plan, platform: str) -> str | None:
    """The `why_not` of a lowering that works on every platform."""
    return None


@dataclass(frozen=True)
class Lowering(Generic[PlanT, OperandsT, OutputT]):
    """One way to compute an operator.

    Attributes:
      name: the value of `implementation` that selects it.
      run: computes the outputs from a plan and its operands.
      why_not: the sentence that says why it cannot run a plan on a platform, or None.
      platforms: those that it is written for; `why_not` refuses any other.
    """

    name: str
    run: Callable[[PlanT, OperandsT], OutputT]
    why_not: Callable[[PlanT, str], str | None] = no_reason
    platforms: tuple[str, ...] = PLATFORMS


def kernel(
    name: str,
    run: Callable[[PlanT, OperandsT], OutputT],
    why_not: Callable[[PlanT, str], str | None],
    platform: str,
) -> Lowering[PlanT, OperandsT, OutputT]:
    """Makes the lowering to a kernel for one platform, which needs static shapes.

    On a CPU the first axis may be symbolic: a handler reads the sizes of its buffers.
    """

    def why_not_static(plan: PlanT, other: str) -> str | None:
        sizes = plan.input.shape[1:] if platform == "cpu" else plan.input.shape
        if other == platform and not is_static(sizes):
            return f"it needs static shapes, and InputTensor is {plan.input}"
        return why_not(plan, other)

    return Lowering(name, run, why_not_static, (platform,))


class SummingPlan(Plan, Protocol):
    """A plan of which a kernel may compute the sums alone."""

    @property
    def sums(self) -> "SummingPlan | None":
        """The plan of the int32 sums where XLA requantizes them, else None."""


def requantized_after(
    lowering: Lowering[Any, OperandsT, Array],
    without_scales: Callable[[OperandsT], OperandsT],
    finish: Callable[[Any, OperandsT, Array], Array],
) -> Lowering[Any, OperandsT, Array]:
    """Makes a kernel's lowering run plans that have `sums`, which `finish` then requantizes."""

    def run(plan: SummingPlan, operands: OperandsT) -> Array:
        if plan.sums is None:
            return lowering.run(plan, operands)
        return finish(plan, operands, lowering.run(plan.sums, without_scales(operands)))

    def why_not(plan: SummingPlan, platform: str) -> str | None:
        return lowering.why_not(plan.sums or plan, platform)

    return replace(lowering, run=run, why_not=why_not)


@dataclass(frozen=True)
class Splitting(Generic[PlanT, OperandsT]):
    """The split of an operator over devices, where every device runs a kernel on its part.

    Attributes:
      names: the names of the axes of a plan's operands and outputs, or None if `xla` runs.
      local: plans for a device's part of the operands, and returns what the kernels need of them.
    """

    names: Callable[[PlanT, OperandsT], AxisNames | None]
    local: Callable[[PlanT, OperandsT], tuple[PlanT, OperandsT]]


@dataclass(frozen=True, eq=False)
class Operator(Generic[PlanT, OperandsT, OutputT]):
    """An operator: `call(*plan(*arguments, **options))` computes it.

    Implementation "auto" takes the first lowering that can run. It takes a native one only where a
    program is for one platform and one device and is not exported, else `xla`, and never
    `reference`.

    Attributes:
      name: the public function's.
      plan: takes the public function's arguments without `implementation`; checks and converts
        them, and returns the plan and the operands.
      lowerings: native ones, then `xla`, then `reference`.
      tangent: the derivative at a plan, operands and their tangents; outputs without one are
        integers.
      partition: how a plan's outputs lie on a mesh with explicit axes, from its operands; without
        it JAX works it out.
      splitting: how kernels run where the compiler splits a program over devices; without it the
        program has `xla`, of which the compiler splits every operation.
      definition: a plan's function in plain JAX, of which `exact.py` replaces every operation; None
        for a plan whose outputs have one answer already.
    """

    name: str
    plan: Callable[..., tuple[PlanT, OperandsT]]
    lowerings: tuple[Lowering[PlanT, OperandsT, OutputT], ...]
    tangent: Callable[[PlanT, OperandsT, OperandsT], OutputT] | None = None
    partition: Callable[[PlanT, OperandsT], Any] | None = None
    splitting: Splitting[PlanT, OperandsT] | None = None
    definition: Callable[[PlanT], Callable[[OperandsT], OutputT] | None] = no_definition

    def call(
        self, plan: PlanT, operands: OperandsT, implementation: Implementation = "auto"
    ) -> OutputT:
        """Runs the operator; equal plans trace once."""
        lowerings = self.candidates(implementation)
        output: OutputT = _program(Call(self, plan, implementation), lowerings)(operands)
        return output

    def explain(self, plan: PlanT, implementation: Implementation = "auto") -> "Explanation":
        """Names the implementation that every platform would run, and traces nothing."""
        choices = tuple(_choice(Call(self, plan, implementation), place) for place in PLATFORMS)
        return Explanation(self.name, str(plan), choices, tuple(plan.notes()))

    def candidates(
        self, implementation: Implementation
    ) -> tuple[Lowering[PlanT, OperandsT, OutputT], ...]:
        """The lowerings that may run, preferred first; the last runs where no other can."""
        if implementation == "auto":
            return tuple(low for low in self.lowerings if low.name != _SLOW)
        Rules(self.name).expect_choice(
            "implementation", implementation, ("auto", *_IMPLEMENTATIONS)
        )
        named = tuple(low for low in self.lowerings if low.name == implementation)
        if not named:
            names = ", ".join(low.name for low in self.lowerings)
            raise UnsupportedError(
                f"{self.name}: implementation {implementation} does not exist for this operator, "
                f"which has {names}"
            )
        return named


@dataclass(frozen=True)
class Choice:
    """The implementation that one platform runs, and why it does not run the others."""

    platform: str
    implementation: str | None
    why_not: dict[str, str]

    def __str__(self) -> str:
        lines = [f"{self.platform}: {self.implementation or 'nothing'}"]
        lines += [f"  not {name}: {why}" for name, why in self.why_not.items()]
        return "\n".join(lines)


@dataclass(frozen=True)
class Explanation:
    """The implementation that every platform would run, and why it would not run the others.

    `layer` is the path of the layer of a quantized function that the call is part of.
    """

    operator: str
    call: str
    choices: tuple[Choice, ...]
    notes: tuple[str, ...] = field(default=())
    layer: str = ""

    def __str__(self) -> str:
        below = "\n".join([*map(str, self.choices), *self.notes])
        return f"{self.operator}: {self.call}\n{textwrap.indent(below, '  ')}"


class Call(NamedTuple, Generic[PlanT, OperandsT, OutputT]):
    """A call in a program, which `explain` finds there."""

    operator: Operator[PlanT, OperandsT, OutputT]
    plan: PlanT
    implementation: Implementation
    loses_gradient: bool = False  # it is differentiated in floats, and its output is integer

    def __repr__(self) -> str:
        return f"{self.operator.name}({self.plan})"

    def explain(self) -> Explanation:
        """Names the implementation that every platform would run."""
        return self.operator.explain(self.plan, self.implementation)


@functools.lru_cache(maxsize=4096)
def _program(
    call: Call[PlanT, OperandsT, OutputT],
    candidates: tuple[Lowering[PlanT, OperandsT, OutputT], ...],
) -> Callable[[OperandsT], OutputT]:
    """Makes a plan's jitted function, with the operator's name and derivative."""
    operator, plan = call.operator, call.plan
    _expect_representable(operator.name, plan.output)
    refusals = _refusals(operator.name, candidates[-1], plan)
    lowered: Callable[[OperandsT], OutputT]
    lowered = functools.partial(_run, operator, candidates, plan)
    if operator.partition is not None:
        partitions = functools.partial(operator.partition, plan)
        lowered = functools.partial(splitting.outside_explicit_mesh, lowered, partitions)

    def labelled(operands: OperandsT) -> OutputT:
        outputs: OutputT = lowered(operands)
        outputs = jax.tree.map(lambda output: compat.refuse(output, refusals), outputs)
        return labels.label(outputs, call, operands)

    labelled.__name__ = operator.name  # jaxprs and profiles show the name
    run = jax.custom_jvp(labelled)

    @run.defjvp
    def run_jvp(primals: Any, tangents: Any) -> tuple[OutputT, Any]:
        if operator.tangent is None:
            outputs = _program(call._replace(loses_gradient=True), candidates)(*primals)
            return outputs, jax.tree.map(_zero_tangent, outputs)
        return run(*primals), operator.tangent(plan, *primals, *tangents)

    return jax.jit(run)


def _run(
    operator: Operator[PlanT, OperandsT, OutputT],
    candidates: Sequence[Lowering[PlanT, OperandsT, OutputT]],
    plan: PlanT,
    operands: OperandsT,
) -> OutputT:
    """Runs the last candidate, or a kernel where the program lets one run."""
    *kernels, general = candidates
    native = _native_runs(kernels, plan)
    if not native:
        return general.run(plan, operands)
    split = _split(operator, candidates, plan, operands)
    default = functools.partial(general.run, plan)
    runs = choice.Alternatives(default, tuple(native.items()), split=split)
    outputs: OutputT = choice.choose(runs, structs(plan.output), operands)
    return outputs


def _split(
    operator: Operator[PlanT, OperandsT, OutputT],
    candidates: Sequence[Lowering[PlanT, OperandsT, OutputT]],
    plan: PlanT,
    operands: OperandsT,
) -> splitting.Split | None:
    """The function of a device's part of the operands, if their sizes are known."""
    over_devices, leaves = operator.splitting, jax.tree.leaves(operands)
    if over_devices is None or not all(is_static(leaf.shape) for leaf in leaves):
        return None

    def run(operands: OperandsT) -> OutputT:
        return _run(operator, candidates, *over_devices.local(plan, operands))

    names = over_devices.names(plan, operands)
    return splitting.Split(run, names) if names else None


def _expect_representable(operator: str, outputs: object) -> None:
    """Refuses outputs whose sizes XLA cannot multiply; a size of 0 does not make it safe."""
    for aval in jax.tree.leaves(outputs, is_leaf=lambda leaf: isinstance(leaf, Aval)):
        elements = math.prod(max(size, 1) for size in aval.shape) if aval.is_static else 0
        text = f"is {aval}, has {elements} elements"
        Rules(operator).expect_at_most(MOST_ELEMENTS, elements, "OutputTensor", text)


def _refusals(
    operator: str, general: Lowering[PlanT, OperandsT, OutputT], plan: PlanT
) -> tuple[tuple[str, str], ...]:
    """The platforms where not even the last candidate runs, and the error's words there."""
    refused = f"{operator}: {general.name} cannot run here"
    reasons = ((platform, general.why_not(plan, platform)) for platform in PLATFORMS)
    return tuple((platform, f"{refused}: {why}") for platform, why in reasons if why)


def _native_runs(
    native: Sequence[Lowering[PlanT, OperandsT, OutputT]], plan: PlanT
) -> dict[str, Callable[[OperandsT], OutputT]]:
    """The native lowering of every platform that has one for the plan."""
    runs = {platform: _first(native, plan, platform) for platform in PLATFORMS}
    return {platform: functools.partial(low.run, plan) for platform, low in runs.items() if low}


def _first(
    lowerings: Sequence[Lowering[PlanT, OperandsT, OutputT]], plan: PlanT, platform: str
) -> Lowering[PlanT, OperandsT, OutputT] | None:
    """The first that can run on a platform."""
    return next((low for low in lowerings if low.why_not(plan, platform) is None), None)


def _zero_tangent(output: Array) -> np.ndarray:
    return np.zeros(output.shape, jax.dtypes.float0)


def _choice(call: Call[PlanT, OperandsT, OutputT], platform: str) -> Choice:
    chosen = _first(call.operator.candidates(call.implementation), call.plan, platform)
    others = [lowering for lowering in call.operator.lowerings if lowering is not chosen]
    why_not = {low.name: _why_passed_over(low, call, platform, chosen) for low in others}
    return Choice(platform, chosen.name if chosen else None, why_not)


def _why_passed_over(
    lowering: Lowering[PlanT, OperandsT, OutputT],
    call: Call[PlanT, OperandsT, OutputT],
    platform: str,
    chosen: Lowering[PlanT, OperandsT, OutputT] | None,
) -> str:
    if why := lowering.why_not(call.plan, platform):
        return why
    if call.implementation != "auto":
        return f"{call.implementation} was named"
    if lowering.name == _SLOW:
        return "slow; it runs only when named"
    assert chosen is not None
    split = "" if call.operator.splitting else " or split over devices"
    return f"{chosen.name} is faster; it runs where a program is exported{split}"

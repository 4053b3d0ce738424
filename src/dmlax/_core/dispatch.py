"""Chooses which lowering runs; nothing else reads `implementation`."""

import functools
import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from dmlax._core import compat
from dmlax._core.arguments import MOST_ELEMENTS, Aval, Rules, structs
from dmlax.errors import UnsupportedError

Implementation = Literal["auto", "reference", "xla", "native_cpu", "mosaic_gpu"]
_IMPLEMENTATIONS = ("reference", "xla", "native_cpu", "mosaic_gpu")
_SLOW = "reference"
PLATFORMS = ("cpu", "cuda", "tpu")


def no_reason(plan: Any, platform: str) -> str | None:
    """The `why_not` of a lowering that every platform compiles rightly."""
    return None


@dataclass(frozen=True)
class Lowering:
    """One way to compute an operator.

    Attributes:
      name: what `implementation` calls it.
      run: computes the outputs from a plan and its operands.
      why_not: for a plan and a platform, the sentence that says why it cannot run there, or None.
      platforms: those that it is written for; for any other `why_not` has a sentence.
    """

    name: str
    run: Callable[[Any, Any], Any]
    why_not: Callable[[Any, str], str | None] = no_reason
    platforms: tuple[str, ...] = PLATFORMS


def kernel(
    name: str,
    run: Callable[[Any, Any], Any],
    why_not: Callable[[Any, str], str | None],
    platform: str,
) -> Lowering:
    """The lowering to a kernel for one platform, whose program has every size."""

    def why_not_symbolic(plan: Any, platform: str) -> str | None:
        if plan is not None and not plan.input.is_static:
            return f"it needs static shapes, and InputTensor is {plan.input}"
        return why_not(plan, platform)

    return Lowering(name, run, why_not_symbolic, (platform,))


@dataclass(frozen=True)
class Operator:
    """An operator's lowerings: native ones, then `xla`, then `reference`.

    "auto" takes the first that can run. It takes a native one only where a program is for one
    platform and one device and is not exported, else `xla`, and never `reference`.

    `tangent(plan, operands, tangents)` is the derivative; without it outputs are integers.
    `partition(plan, operands)` says how outputs lie on a mesh whose axes are explicit; without it
    JAX works it out.
    """

    name: str
    lowerings: tuple[Lowering, ...]
    tangent: Callable[..., Any] | None = None
    partition: Callable[..., Any] | None = None


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
    """The implementation that each platform would run, and why it would not run the others."""

    operator: str
    call: str
    choices: tuple[Choice, ...]
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        below = "\n".join([*map(str, self.choices), *self.notes])
        return f"{self.operator}: {self.call}\n{textwrap.indent(below, '  ')}"


class Explain:
    """An `implementation` with which a call is explained and not run."""

    def __init__(self, implementation: str) -> None:
        self.implementation = implementation


class Bind:
    """An `implementation` with which a call gives its operands as arrays and is not run.

    With `plan` it gives its plan and them.
    """

    def __init__(self, *, plan: bool = False) -> None:
        self.plan = plan


class Call(NamedTuple):
    """A call in a program, which `explain` finds there."""

    operator: Operator
    plan: Any
    implementation: str

    def __repr__(self) -> str:
        return f"{self.operator.name}({self.plan})"

    def explain(self) -> Explanation:
        """The implementation that each platform would run."""
        return _explanation(self)


def call(operator: Operator, plan: Any, operands: Any, implementation: Any) -> Any:
    """Runs the operator on its plan; equal plans trace once."""
    if isinstance(implementation, Bind):
        return (plan, operands) if implementation.plan else operands
    if isinstance(implementation, Explain):
        return _explanation(Call(operator, plan, implementation.implementation))
    candidates = _candidates(operator, implementation)
    return _compile(Call(operator, plan, implementation), candidates)(operands)


def _candidates(operator: Operator, implementation: Any) -> tuple[Lowering, ...]:
    """The lowerings that may run, preferred first; the last one runs where no other can."""
    if implementation == "auto":
        return tuple(lowering for lowering in operator.lowerings if lowering.name != _SLOW)
    Rules(operator.name).expect_choice(
        "implementation", implementation, ("auto", *_IMPLEMENTATIONS)
    )
    named = tuple(lowering for lowering in operator.lowerings if lowering.name == implementation)
    if not named:
        names = ", ".join(lowering.name for lowering in operator.lowerings)
        raise UnsupportedError(
            f"{operator.name}: implementation {implementation} does not exist for this operator, "
            f"which has {names}"
        )
    return named


@functools.lru_cache(maxsize=4096)
def _compile(call: Call, candidates: tuple[Lowering, ...]) -> Any:
    """One jitted function a plan, with the operator's name and derivative."""
    operator, plan, _ = call
    _expect_representable(operator, plan)
    *native, general = candidates
    refusals, alone = _refusals(operator, general, plan), _native_runs(native, plan)

    def lowered(operands: Any) -> Any:
        run = functools.partial(general.run, plan)
        if not alone:
            return run(operands)
        return compat.choose(operands, structs(plan.output), run, alone=alone)

    def labelled(operands: Any) -> Any:
        outputs = _on_any_mesh(operator, plan, lowered, operands)
        outputs = jax.tree.map(lambda output: compat.refuse(output, refusals), outputs)
        return compat.label(outputs, call)

    labelled.__name__ = operator.name  # as jaxprs and profiles show it
    run = jax.custom_jvp(labelled)

    @run.defjvp
    def run_jvp(primals: Any, tangents: Any) -> Any:
        outputs = run(*primals)
        if operator.tangent is None:
            return outputs, jax.tree.map(_zero_tangent, outputs)
        return outputs, operator.tangent(plan, *primals, *tangents)

    return jax.jit(run)


def _expect_representable(operator: Operator, plan: Any) -> None:
    """Refuses outputs whose sizes XLA cannot multiply; a size of 0 does not make it safe."""
    outputs = getattr(plan, "output", None)
    for aval in jax.tree.leaves(outputs, is_leaf=lambda leaf: isinstance(leaf, Aval)):
        elements = math.prod(max(size, 1) for size in aval.shape) if aval.is_static else 0
        text = f"is {aval}, has {elements} elements"
        Rules(operator.name).expect_at_most(MOST_ELEMENTS, elements, "OutputTensor", text)


def _refusals(operator: Operator, general: Lowering, plan: Any) -> tuple[tuple[str, str], ...]:
    """The platforms where not even the last candidate runs, and the error's words there."""
    refused = f"{operator.name}: {general.name} cannot run here"
    reasons = ((platform, general.why_not(plan, platform)) for platform in PLATFORMS)
    return tuple((platform, f"{refused}: {why}") for platform, why in reasons if why)


def _native_runs(native: Sequence[Lowering], plan: Any) -> dict[str, Callable[[Any], Any]]:
    """The native lowering of each platform that has one for the plan."""
    found = {platform: _first(native, plan, platform) for platform in PLATFORMS}
    return {place: functools.partial(low.run, plan) for place, low in found.items() if low}


def _first(lowerings: Sequence[Lowering], plan: Any, platform: str) -> Lowering | None:
    """The first that can run on a platform."""
    return next((low for low in lowerings if low.why_not(plan, platform) is None), None)


def _on_any_mesh(operator: Operator, plan: Any, run: Callable[[Any], Any], operands: Any) -> Any:
    if operator.partition is None:
        return run(operands)
    return compat.outside_explicit_mesh(run, operands, functools.partial(operator.partition, plan))


def _zero_tangent(output: Any) -> Any:
    return np.zeros(output.shape, jax.dtypes.float0)


def _explanation(call: Call) -> Explanation:
    candidates = _candidates(call.operator, call.implementation)
    choices = tuple(_choice(call, candidates, platform) for platform in PLATFORMS)
    return Explanation(call.operator.name, str(call.plan), choices, tuple(call.plan.notes()))


def _choice(call: Call, candidates: tuple[Lowering, ...], platform: str) -> Choice:
    chosen = _first(candidates, call.plan, platform)
    others = [lowering for lowering in call.operator.lowerings if lowering is not chosen]
    why_not = {each.name: _why_passed_over(each, call, platform, chosen) for each in others}
    return Choice(platform, chosen.name if chosen else None, why_not)


def _why_passed_over(lowering: Lowering, call: Call, platform: str, chosen: Lowering | None) -> str:
    if why := lowering.why_not(call.plan, platform):
        return why
    if call.implementation != "auto":
        return f"{call.implementation} was named"
    if lowering.name == _SLOW:
        return "slow; it runs only when named"
    assert chosen is not None
    return f"{chosen.name} is faster; it runs where a program is exported or split over devices"

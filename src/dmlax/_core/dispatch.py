"""Chooses which lowering runs: one table an operator, and the only reader of `implementation`."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import numpy as np

from dmlax._core import compat
from dmlax._core.operands import Rules
from dmlax.errors import UnsupportedError

Implementation = Literal["auto", "reference", "xla", "native_cpu", "mosaic_gpu"]
_IMPLEMENTATIONS = ("reference", "xla", "native_cpu", "mosaic_gpu")
PLATFORMS = ("cpu", "cuda", "tpu")


def runs_anywhere(plan: Any, platform: str) -> str | None:
    """The `why_not` of a lowering that every platform compiles rightly."""
    return None


@dataclass(frozen=True)
class Lowering:
    """One way to compute an operator.

    `why_not(plan, platform)` is None, or the sentence that says why it cannot run there.
    """

    name: str
    run: Callable[[Any, Any], Any]
    why_not: Callable[[Any, str], str | None] = runs_anywhere


@dataclass(frozen=True)
class Operator:
    """An operator's lowerings, preferred first; `reference` is last and never chosen by "auto".

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
    """What one platform runs, and why it does not run the others."""

    platform: str
    implementation: str | None
    why_not: dict[str, str]


@dataclass(frozen=True)
class Explanation:
    """Which implementation would run where, and why the others would not."""

    operator: str
    call: str
    choices: tuple[Choice, ...]
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        lines = [f"{self.operator}: {self.call}"]
        for choice in self.choices:
            lines.append(f"  {choice.platform}: {choice.implementation or 'nothing'}")
            lines += [f"    not {name}: {why}" for name, why in choice.why_not.items()]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


class Explain:
    """Passed as `implementation`, has a call explained and not run."""

    def __init__(self, implementation: str) -> None:
        self.implementation = implementation


def call(operator: Operator, plan: Any, operands: Any, implementation: Any) -> Any:
    """Runs the operator on its plan; equal plans trace once."""
    if isinstance(implementation, Explain):
        return _explanation(operator, plan, implementation.implementation)
    return _compiled(operator, plan, _find(operator, implementation))(operands)


def _find(operator: Operator, implementation: Any) -> Lowering:
    """The named lowering; "auto" takes the first."""
    names = [lowering.name for lowering in operator.lowerings]
    if implementation == "auto":
        return operator.lowerings[0]
    Rules(operator.name).choice("implementation", implementation, ("auto", *_IMPLEMENTATIONS))
    if implementation not in names:
        raise UnsupportedError(
            f"{operator.name}: implementation {implementation} does not exist for this operator, "
            f"which has {', '.join(names)}"
        )
    return operator.lowerings[names.index(implementation)]


@functools.lru_cache(maxsize=4096)
def _compiled(operator: Operator, plan: Any, lowering: Lowering) -> Any:
    """One jitted function a plan, with the operator's derivative."""
    refusals = tuple(
        (platform, f"{operator.name}: {lowering.name} cannot run here: {why}")
        for platform in PLATFORMS
        if (why := lowering.why_not(plan, platform))
    )

    @jax.custom_jvp
    def run(operands: Any) -> Any:
        outputs = _on_any_mesh(operator, plan, lowering, operands)
        return jax.tree.map(lambda output: compat.refuse(output, refusals), outputs)

    @run.defjvp
    def run_jvp(primals: Any, tangents: Any) -> Any:
        outputs = run(*primals)
        if operator.tangent is None:
            return outputs, jax.tree.map(_zero_tangent, outputs)
        return outputs, operator.tangent(plan, *primals, *tangents)

    return jax.jit(run)


def _on_any_mesh(operator: Operator, plan: Any, lowering: Lowering, operands: Any) -> Any:
    run = functools.partial(lowering.run, plan)
    if operator.partition is None:
        return run(operands)
    return compat.outside_explicit_mesh(run, operands, functools.partial(operator.partition, plan))


def _zero_tangent(output: Any) -> Any:
    return np.zeros(output.shape, jax.dtypes.float0)


def explain(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:
    """Which implementation of a dmlax operator would run where, and why the others would not.

    Nothing is computed. The call is checked as it would be.

    Args:
      function: a function of dmlax that takes `implementation`.
      *args: its arguments.
      **kwargs: its options.

    Returns:
      An `Explanation`; print it, or read its `choices` and `notes`.

    Raises:
      SpecError: the call breaks a rule; or `function` is no operator of dmlax (code `option`).
      UnsupportedError: the named implementation does not exist for this operator.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> print(dmlax.explain(dmlax.nonzero_coordinates, jnp.zeros((2, 3))))
      nonzero_coordinates: float32[2,3] -> uint32[], uint32[6,2]
        cpu: xla
          not reference: slow; it runs only when named
        cuda: xla
          not reference: slow; it runs only when named
        tpu: xla
          not reference: slow; it runs only when named
    """
    asked = Explain(kwargs.pop("implementation", "auto"))
    module = getattr(function, "__module__", None) or ""
    known = module.startswith("dmlax.") and "implementation" in getattr(
        function, "__kwdefaults__", {}
    )
    Rules("explain").expect(known, "option", "function", "is not an operator of dmlax")
    result = function(*args, implementation=asked, **kwargs)
    assert isinstance(result, Explanation)
    return result


def _explanation(operator: Operator, plan: Any, implementation: Any) -> Explanation:
    named = _find(operator, implementation)
    choices = tuple(
        _choose(operator, plan, platform, implementation, named) for platform in PLATFORMS
    )
    return Explanation(operator.name, str(plan), choices, tuple(plan.notes()))


def _choose(
    operator: Operator, plan: Any, platform: str, implementation: str, named: Lowering
) -> Choice:
    why_not: dict[str, str] = {}
    for lowering in operator.lowerings:
        why = lowering.why_not(plan, platform)
        if why is None and lowering is not named:
            slow = implementation == "auto" and lowering.name == "reference"
            why = "slow; it runs only when named" if slow else f"{implementation} was named"
        if why is not None:
            why_not[lowering.name] = why
    return Choice(platform, None if named.name in why_not else named.name, why_not)

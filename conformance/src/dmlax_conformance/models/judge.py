"""Judging what an implementation makes of a model."""

import time
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ..errors import Unsupported
from ..format.tensors import encode, from_numpy, to_numpy
from ..format.vectors import ExpectedTensor
from ..runner.compare import EXACT, Outcome, compare_tensor
from ..texts import of_error, printable
from .adapter import ARITHMETICS, ModelAdapter, ModelCase
from .arrays import far_apart, shown
from .golden import Golden
from .graph import decode_tensors

SHOWN = 3


class Verdict(NamedTuple):
    """The verdict on a variant of one model: `exact`, `fail`, `error` or `unsupported`."""

    model: str
    arithmetic: str
    variant: str
    verdict: str
    details: tuple[str, ...] = ()
    judged: int = 0
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """The name of this result among those of an implementation."""
        return f"{self.model}[{self.arithmetic},{self.variant}]"


def judge(adapter: ModelAdapter, golden: Golden, arithmetic: str, variant: str) -> Verdict:
    """Run a model in this process, and compare every tensor that is answered."""
    start = time.perf_counter()
    found = answer(adapter, golden.case(arithmetic), variant)
    return verdict(golden, arithmetic, variant, found, time.perf_counter() - start)


def answer(adapter: ModelAdapter, case: ModelCase, variant: str) -> dict[str, Any]:
    """Return an adapter's answer as JSON: `outputs`, or why it is `unsupported` or an `error`."""
    if case.arithmetic not in getattr(adapter, "arithmetics", ARITHMETICS):
        return {"unsupported": f"has no arithmetic {case.arithmetic}"}
    try:
        found = adapter.run(case, variant)
        if not isinstance(found, Mapping):
            return {"error": f"the answer is a {type(found).__name__}, not a mapping"}
        arrays = {str(name): np.asarray(array) for name, array in found.items()}
        return {"outputs": {name: encode(from_numpy(array)) for name, array in arrays.items()}}
    except Unsupported as reason:
        return {"unsupported": printable(reason)}
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return {"error": of_error(error)}


def verdict(
    golden: Golden, arithmetic: str, variant: str, answer: Mapping[str, Any], seconds: float = 0.0
) -> Verdict:
    """Return the verdict on an answer of the form that the function `answer` gives."""
    if "outputs" in answer:
        arrays = {n: to_numpy(x) for n, x in decode_tensors(answer["outputs"], "").items()}
        outcome, judged = compare(golden, arithmetic, arrays)
    else:
        ((kind, reason),) = answer.items()
        outcome, judged = Outcome(kind, (reason,)), 0
    names = golden.name, arithmetic, variant
    return Verdict(*names, outcome.verdict, outcome.details, judged, seconds)


def compare(golden: Golden, arithmetic: str, answer: Mapping[str, Any]) -> tuple[Outcome, int]:
    """Return the verdict and how many tensors were judged: all of them, or the outputs alone."""
    written = golden.graph.written()
    has_inner = any(name in answer for name in written if name not in golden.graph.outputs)
    names = written if has_inner else [n for n in written if n in golden.graph.outputs]
    wrong = [f"{name}: missing" for name in names if name not in answer]
    wrong += [f"{name}: not asked for" for name in answer if name not in written]
    if wrong:
        return Outcome("fail", tuple(wrong)), 0
    outcomes = {name: _compare_tensor(golden, arithmetic, name, answer[name]) for name in names}
    failed = [name for name in names if outcomes[name] != EXACT]
    if not failed:
        return EXACT, len(names)
    op = next(node.op for node in golden.graph.nodes if failed[0] in node.outputs)
    head = f"{len(failed)} of {len(names)} tensors differ, the first is {failed[0]} of {op}"
    return Outcome("fail", (head, *outcomes[failed[0]].details)), len(names)


def _compare_tensor(golden: Golden, arithmetic: str, name: str, actual: Any) -> Outcome:
    """Compare the bits; some `float32` numbers may differ by a bound."""
    expected, exponent = golden.values[arithmetic][name], golden.bounds_of(arithmetic).get(name)
    wanted = ExpectedTensor(expected.dtype, expected.sizes, expected.words, "exact", {})
    outcome, array = compare_tensor(name, wanted, actual), np.asarray(actual)
    is_of_form = (array.dtype.name, array.shape) == (expected.dtype, expected.sizes)
    if exponent is None or not is_of_form:
        return outcome
    have = from_numpy(array)
    wrong = far_apart(have, expected, Fraction(2) ** exponent)
    lines = [
        f"{name}: element {place} is {shown(have, place)}, more than 2^{exponent} from "
        f"{shown(expected, place)}"
        for place in wrong[:SHOWN]
    ]
    more = [f"{name}: {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
    return Outcome("fail", (*lines, *more)) if wrong else EXACT

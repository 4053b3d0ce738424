"""A snapshot of every message: by operator and code, with the vectors or calls that cause it.

It has the signature of every public function, too. README's table of operators is the registry's.

    python tests/renew_messages.py

writes `tests/messages.txt` and README, and prints what changes. With `--check` it writes nothing,
and exits with code 1 if anything would change.
"""

import difflib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import cast

import dmlax
from dmlax import SpecError, UnsupportedError, calibration, directml, onnx, training
from dmlax._core.dispatch import PLATFORMS
from dmlax._descriptors import tensors
from dmlax._operators.registry import OPERATORS, SUPPORT
from dmlax_conformance.adapters.base import SpecViolation
from dmlax_conformance.adapters.dmlax import Dmlax
from dmlax_conformance.format import vectors
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.runner.run import case_of
from support.wrong_calls import VALID, Arrays, Refused, wrong_calls
from support.wrong_descs import wrong_descs

README = Path(__file__).parents[1] / "README.md"
SNAPSHOT = Path(__file__).with_name("messages.txt")
LISTS = "rules", "signature"  # headings of what is no message
_LINE = re.compile(r"(\w+) (?:([\w-]+) )?([\w.]+): (.*)")  # code, rule, operator, text
_RULE = re.compile(r"\[([\w-]+)\] (.*)")
_PLACE = " #"  # before the place of a violation after the first
Messages = dict[str, list[str]]


def vector_calls(suite: Iterable[Vector]) -> list[Refused]:
    """The calls of invalid vectors: of the functions, or of `create_operator` for a desc."""
    adapter = Dmlax()
    return [_vector_call(adapter, vector) for vector in suite if not vector.is_valid]


def _vector_call(adapter: Dmlax, vector: Vector) -> Refused:
    case = case_of(vector)
    is_known = "values:known" in vector.requires
    known = {name for name in case.inputs if is_known and name.endswith("ScaleTensor")}

    def call(arrays: Arrays) -> object:
        inputs = {**case.inputs, **arrays}
        try:
            return adapter.run(replace(case, inputs=inputs), "eager")
        except SpecViolation as violation:
            raise cast(SpecError, violation.__cause__) from None

    arrays = {name: array for name, array in case.inputs.items() if name not in known}
    return Refused(case.id, call, arrays)


def refusal(refused: Refused) -> SpecError | UnsupportedError:
    """The error of a call."""
    try:
        refused.call(refused.arrays)
    except (SpecError, UnsupportedError) as error:
        return error
    raise AssertionError(f"{refused.key} is accepted")


def lines(error: SpecError | UnsupportedError) -> list[str]:
    """The code and the message, or code, rule and message of every violation of a desc."""
    if isinstance(error, UnsupportedError):
        return [f"{error.code} UnsupportedError {error}"]
    violations = [f"{one.code} {one.rule} {one.message}" for one in error.violations]
    return violations or [f"{error.code} {error}"]


def written(messages: Messages) -> str:
    """The text of a snapshot: a line for each message, under its operator and its code."""
    groups: dict[str, dict[str, list[str]]] = {}
    for key in sorted(messages):
        if key.startswith(LISTS):
            groups.setdefault(key.partition(" ")[0], {})[key] = messages[key]
            continue
        for place, line in enumerate(messages[key]):
            code, rule, operator, text = _LINE.fullmatch(line).groups()  # type: ignore[union-attr]
            texts = groups.setdefault(f"{operator} {code}", {})
            causes = texts.setdefault(f"[{rule}] {text}" if rule else text, [])
            causes.append(f"{key}{_PLACE}{place}" if place else key)
    lines: list[str] = []
    for heading, texts in sorted(groups.items()):
        lines += [heading, *(f"  {text}  <- {json.dumps(texts[text])}" for text in sorted(texts))]
    return "\n".join([*lines, ""])


def read(text: str) -> Messages:
    """The messages of a snapshot, by the vector or the call."""
    found: dict[str, dict[int, str]] = {}
    rules: Messages = {}
    operator = code = ""
    for line in text.splitlines():
        if not line.startswith("  "):
            operator, _, code = line.partition(" ")
            continue
        words, _, causes = line[2:].rpartition("  <- ")
        if operator in LISTS:
            rules[words] = json.loads(causes)
            continue
        rule, words = match.groups() if (match := _RULE.fullmatch(words)) else (None, words)
        full = " ".join(filter(None, (code, rule, f"{operator}: {words}")))
        for cause in json.loads(causes):
            key, _, place = cause.partition(_PLACE)
            found.setdefault(key, {})[int(place or 0)] = full
    return {key: [places[i] for i in sorted(places)] for key, places in found.items()} | rules


def difference(old: str, new: str, name: str = "tests/messages.txt") -> str:
    """The unified difference of two texts of a file."""
    texts = old.splitlines(keepends=True), new.splitlines(keepends=True)
    return "".join(difflib.unified_diff(*texts, f"a/{name}", f"b/{name}", n=0))


def rules() -> Messages:
    """The rules of tensors and of every table, in the order in which they are checked."""
    names = {"rules of tensors": [rule.name for rule in tensors.TENSOR_RULES]}
    for desc, support in SUPPORT.items():
        for table in support.tables:
            key = f"rules of {desc.operator} {table.feature_level}"
            names[key] = [rule.name for rule in table.rules]
    return names


def signatures() -> Messages:
    """The signature of every public function, without types."""
    return {
        f"signature of {module.__name__}.{name}": [signature(getattr(module, name))]
        for module in (dmlax, directml, training, calibration, onnx)
        for name in module.__all__
        if inspect.isfunction(getattr(module, name))
    }


def readme() -> str:
    """README with a row for every operator; its first implementation is what "auto" runs."""
    head, rows = "| operator | dtypes | cpu | cuda | tpu |\n|---|---|---|---|---|\n", ""
    for row in OPERATORS:
        lists = (", ".join(row.implementations(platform)) for platform in PLATFORMS)
        cells = (f"[`{row.name}`](docs/operators/{row.name}.md)", row.dtypes, *lists)
        rows += f"| {' | '.join(cells)} |\n"
    before, _, table = README.read_text(encoding="utf-8").partition(head)
    _, _, after = table.partition("\n\n")
    return f"{before}{head}{rows}\n{after}"


def signature(function: Callable[..., object]) -> str:
    """The parameters of a function and their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return str(inspect.Signature([x.replace(annotation=x.empty) for x in parameters]))


def main(*options: str) -> int:
    """Renews or checks the snapshot, and returns the exit code."""
    is_check = "--check" in options
    known = [vector for vector in vectors.load_all() if vector.operator in VALID]
    calls = [*vector_calls(known), *wrong_descs()]
    calls += [refused for function in VALID for refused in wrong_calls(function)]
    new = written(
        {refused.key: lines(refusal(refused)) for refused in calls} | rules() | signatures()
    )
    is_changed = False
    for file, text in ((SNAPSHOT, new), (README, readme())):
        change = difference(file.read_text(encoding="utf-8"), text, file.name)
        print(change, end="")
        is_changed |= bool(change)
        if not is_check:
            file.write_text(text, encoding="utf-8")
    return int(is_check and is_changed)


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

"""Serving a Python class by the protocol: `python -m dmlax_conformance.runner.host module:Class`.

Standard output is kept for the protocol: what the class prints goes to standard error, and it
reads an empty standard input.
"""

import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import IO, Any

import numpy as np

from ..errors import CODES, NotStartable, SpecViolation, Unsupported
from ..format.tensors import DTYPES
from ..format.vectors import Request
from ..texts import of_error, place_of, text_of
from . import protocol
from .adapter import Adapter, Case

SLACK = 1 << 20  # bytes of an answer beyond those that were asked for
_BOOT = (
    "import sys; name, *sys.path[:] = sys.argv[1:]; "
    "from dmlax_conformance.runner.host import main; main(name)"
)
_LISTS = ("operators", "variants", "usual_variants", "desc_variants", "capabilities")


def command_of(name: str) -> list[str]:
    """Return the command that serves a class, which is imported as it would be here."""
    here = os.getcwd()
    paths = [path for path in sys.path if path not in ("", here)]
    return [sys.executable, "-c", _BOOT, name, *paths, here]  # not before the libraries


def load(name: str) -> Any:
    """Build the adapter `module.path:Class` in this process, or raise `NotStartable`."""
    module, _, attribute = name.partition(":")
    try:
        adapter = getattr(import_module(module), attribute)()
        variants = getattr(adapter, "variants", None)
        is_there = {
            "name": isinstance(getattr(adapter, "name", None), str),
            "variants": isinstance(variants, tuple | list)
            and all(isinstance(variant, str) for variant in variants),
            "run": callable(getattr(adapter, "run", None)),
        }
    except (KeyboardInterrupt, NotStartable):
        raise
    except BaseException as error:
        raise NotStartable(f"{name}: {of_error(error)}") from error
    if wrong := [name for name in is_there if not is_there[name]]:
        raise NotStartable(f"{name}: the adapter has no {' and no '.join(wrong)}")
    return adapter


def main(name: str) -> None:
    """Answer questions from standard input until told to stop."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.argv = [name]
    Host(name, answers).serve(questions)


class Host:
    """Owns the adapter and the way back."""

    def __init__(self, name: str, answers: IO[bytes]) -> None:
        """Remember what to build."""
        self._name = name
        self._answers = answers
        self._adapter: Any = None

    def serve(self, questions: IO[bytes]) -> None:
        """Answer one question after the other."""
        process = os.getpid()
        for line in questions:
            message = json.loads(line)
            if message["command"] == "stop":
                getattr(self._adapter, "close", lambda: None)()
                return
            answer = self._answer(message)
            if os.getpid() != process:
                os._exit(0)  # a fork of the adapter's, which has nothing to say here
            self._answers.write(protocol.to_line(answer))
            self._answers.flush()

    def _answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if message["command"] == "start":
            return _guarded(self._start)
        if message["command"] == "facts":
            return _guarded(lambda: {"facts": _texts(self._adapter.runs_on())}, {"facts": {}})
        return {"seq": message["seq"], **_guarded(lambda: self._run(message["case"]))}

    def _start(self) -> dict[str, Any]:
        try:
            self._adapter = load(self._name)
        except NotStartable as error:
            return {"error": str(error).removeprefix(f"{self._name}: ")}
        return hello(self._adapter)

    def _run(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        case, variant = case_of(asked)
        most = SLACK + 16 * protocol.most_values(case)
        try:
            answer = self._adapter.run(case, variant)
        except Unsupported as reason:
            return {"unsupported": text_of(reason)}
        except SpecViolation as violation:
            code, field = violation.code, violation.field
            if not (isinstance(code, str) and isinstance(field, str) and code in CODES):
                return {"error": f"refused with the code {text_of(code)} on {text_of(field)}"}
            why = text_of(violation.message)
            return {"refused": {"code": code, "field": field, "message": why}}
        if not isinstance(answer, Mapping):
            return {"error": f"the answer is a {type(answer).__name__}, not a mapping"}
        return {"outputs": {str(name): _tensor(name, answer[name], most) for name in answer}}


def hello(adapter: Adapter) -> dict[str, Any]:
    """Return the adapter's introduction of itself."""
    said: dict[str, Any] = {
        "protocol": protocol.VERSION,
        "name": adapter.name,
        "language": "Python",
        "version": platform.python_version(),
        "encodings": list(protocol.ENCODINGS),
        "concurrent": bool(getattr(adapter, "concurrent", False)),
        "facts": callable(getattr(adapter, "runs_on", None)),
    }
    lists = {key: getattr(adapter, key, None) for key in _LISTS}
    said |= {key: list(names) for key, names in lists.items() if names is not None}
    for key in ("dtypes", "ranks"):
        limits = getattr(adapter, key, None)
        if isinstance(limits, Mapping):
            said[key] = {name: list(values) for name, values in limits.items()}
        elif limits is not None:
            said[key] = list(limits)
    versions = getattr(adapter, "versions", None)
    return said if versions is None else said | {"versions": _texts(versions)}


def case_of(asked: Mapping[str, Any]) -> tuple[Case, str]:
    """Return the case of a question, all of which the adapter may change, and the variant."""
    outputs = {k: Request(v["dtype"], tuple(v["sizes"])) for k, v in asked["outputs"].items()}
    case = Case(
        id=asked["id"],
        operator=asked["operator"],
        requires=frozenset(asked["requires"]),
        attributes=asked["attributes"],
        inputs={name: protocol.to_array(x, name) for name, x in asked["inputs"].items()},
        outputs=outputs,
        desc=asked.get("desc"),
        feature_level=asked.get("feature_level"),
    )
    return case, asked["variant"]


def _guarded(work: Callable[[], dict[str, Any]], instead: Any = None) -> dict[str, Any]:
    """Return what a part of the adapter gives, or the error of whatever is raised."""
    try:
        return work()
    except BaseException as error:
        return instead or {"error": f"{of_error(error)}\n{place_of(error)}"}


def _tensor(name: object, value: object, most: int) -> dict[str, Any]:
    array = np.asarray(value)
    if array.nbytes > most:
        raise ValueError(f"{name} has {array.nbytes} bytes, more than were asked for")
    if array.dtype.name not in DTYPES:
        raise TypeError(f"{name} has the data type {array.dtype.name}, which no vector has")
    return protocol.to_base64(array)


def _texts(facts: Mapping[str, object]) -> dict[str, str]:
    return {str(name): str(text) for name, text in facts.items()}


if __name__ == "__main__":
    main(sys.argv[1])

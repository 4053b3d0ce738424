"""JSON Schema by the package jsonschema, without which only the suite's own files are read."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import Malformed, NotStartable
from ..paths import vectors_dir

Keyword = Callable[..., Iterator[Any]]
MISSING = "needs the package jsonschema, which is not installed"


def validator(schema: Mapping[str, Any]) -> Any:
    """Return what checks values by a schema; None where jsonschema is missing."""
    try:
        import jsonschema
    except ImportError:
        return None
    standard = jsonschema.Draft202012Validator
    own = {"$ref": _unless_valid(standard.VALIDATORS["$ref"]), "items": _distinct_items}
    return jsonschema.validators.extend(standard, own)(schema)  # type: ignore[no-untyped-call]


def _unless_valid(check: Keyword) -> Keyword:
    """Let a keyword pass values that it has found valid; most tensors are there many times."""
    valid = set[tuple[str, str]]()

    def check_once(validator: Any, reference: str, value: Any, schema: Any) -> Iterator[Any]:
        key = reference, repr(value)
        if key not in valid:
            errors = list(check(validator, reference, value, schema))
            if not errors:
                valid.add(key)
            yield from errors

    return check_once


def _distinct_items(validator: Any, item: Any, value: Any, schema: Any) -> Iterator[Any]:
    """Check the items that differ, each where it is first."""
    if validator.is_type(value, "array"):
        first = {repr(each): place for place, each in reversed([*enumerate(value)])}
        for place in sorted(first.values()):
            yield from validator.descend(value[place], item, path=place)


def check(value: Any, validator: Any, what: str) -> None:
    """Raise `Malformed` at the most telling place that breaks the schema of `what`."""
    if validator is None:
        raise NotStartable(f"{what} {MISSING}")
    from jsonschema.exceptions import best_match

    error = best_match(validator.iter_errors(value))
    if error is not None:
        raise Malformed(pointer(*error.absolute_path), _shortened(error.message))


def is_own(path: Path) -> bool:
    """Return whether a file is one of the suite's, which `lint` checks."""
    return path.resolve().is_relative_to(vectors_dir())


def pointer(*parts: object) -> str:
    """Return a JSON pointer."""
    return "".join(f"/{part}" for part in parts) or "/"


def _shortened(message: str) -> str:
    """Keep both ends: a message begins with the value that is wrong and ends with the reason."""
    return message if len(message) <= 300 else f"{message[:100]} ... {message[-150:]}"

"""JSON Schema by the package jsonschema, without which only the suite's own files are read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import Malformed, NotStartable
from ..paths import vectors_dir

MISSING = "needs the package jsonschema, which is not installed"


def validator(schema: Mapping[str, Any]) -> Any:
    """Return what checks values by a schema; None where jsonschema is missing."""
    try:
        import jsonschema
    except ImportError:
        return None
    return jsonschema.Draft202012Validator(schema)


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

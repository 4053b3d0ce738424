"""The first error of a value by a JSON Schema, in the suite's words.

Every alternative of a `oneOf` requires a key.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import Malformed, NotStartable
from ..paths import vectors_dir

_TEXTS = {  # complaints by keyword, formatted with the keyword's value
    "enum": "is not one of {}",
    "const": "is not {!r}",
    "pattern": "does not match {!r}",
    "minLength": "is shorter than {}",
    "minimum": "is less than {}",
    "maximum": "is greater than {}",
    "minItems": "has fewer items than {}",
    "uniqueItems": "repeats",
    "minProperties": "has fewer keys than {}",
    "maxProperties": "has more keys than {}",
    "dependentRequired": "has not all that {} asks for",
    "type": "is not of type {}",
    "contains": "has no item as {}",
}


class Validator:
    """Finds the first error of a value, an object's before those of its members."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Take a schema whose references lead to its `$defs`."""
        self._schema = schema

    def check(self, value: Any) -> None:
        """Raise `Malformed` at the first place that breaks the schema."""
        errors = _draft()(self._schema).iter_errors(value)
        wrong: Any = min(errors, key=_rank, default=None)
        if wrong is None:
            return
        while wrong.validator == "anyOf":  # the last alternative to fail deepest
            wrong = max(reversed(wrong.context), key=_depth)
        for part in wrong.absolute_path:
            value = value[part]
        text = repr(value)
        shown = f"{text[:100]}{' ...' * (len(text) > 100)} {_complaint(wrong)}"
        raise Malformed(pointer(*wrong.absolute_path), shown)


def _depth(error: Any) -> int:
    return len(error.absolute_path)


def _rank(error: Any) -> tuple[int, bool]:
    """Put outer errors first; a `oneOf` says nothing about a value of another type."""
    return _depth(error), error.validator == "oneOf"


def _complaint(error: Any) -> str:
    keyword, given = error.validator, error.validator_value
    if "propertyNames" in error.absolute_schema_path:
        return "has a wrong key"
    if keyword == "additionalProperties":
        known = error.schema.get("properties", {})
        return f"has unexpected keys: {', '.join(error.instance.keys() - known)}"
    if keyword == "required":
        return f"has no {next(name for name in given if name not in error.instance)}"
    if keyword == "oneOf":
        return f"has not one of {', '.join(each['required'][0] for each in given)}"
    return _TEXTS.get(keyword, "is not allowed here").format(given)


@cache
def _draft() -> Any:
    """Return the class of validators, whose package is imported only where a value is checked.

    An integer is no float and no boolean, and equal items of a list are checked once.
    """
    try:
        jsonschema = import_module("jsonschema")
    except ImportError as error:
        raise NotStartable(f"schemas are checked by the package jsonschema: {error}") from error
    usual = jsonschema.Draft202012Validator
    types = {
        "integer": lambda checker, value: type(value) is int,
        "number": lambda checker, value: type(value) in (int, float),
    }

    def const(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
        if (type(value), value) != (type(wanted), wanted):
            yield jsonschema.ValidationError("")

    def items(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[Any]:
        is_plain = type(value) is list and set(map(type, value)) in ({int}, {str})
        own = validator.evolve(schema=wanted)
        if not (is_plain and all(map(own.is_valid, set(value)))):
            yield from usual.VALIDATORS["items"](validator, wanted, value, schema)

    checker = usual.TYPE_CHECKER.redefine_many(types)
    rules = {"const": const, "items": items}
    return jsonschema.validators.extend(usual, rules, type_checker=checker)


def is_own(path: Path) -> bool:
    """Return whether a file is one of the suite's."""
    return path.resolve().is_relative_to(vectors_dir())


def pointer(*parts: object) -> str:
    """Return a JSON pointer."""
    return "".join(f"/{part}" for part in parts) or "/"

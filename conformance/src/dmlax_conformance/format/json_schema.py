"""The part of JSON Schema that the suite's schemas use, without another package.

A schema is compiled to functions, one for each keyword, that return the first error of a value.
Every alternative of a `oneOf` requires a key.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import Malformed
from ..paths import vectors_dir

Schema = Mapping[str, Any] | bool
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


class Wrong(NamedTuple):
    """A complaint about a value, and the keys and indices that lead there."""

    path: tuple[object, ...]
    message: str

    def below(self, part: object) -> "Wrong":
        """Return the error as one of the value that has this part."""
        return Wrong((part, *self.path), self.message)


Check = Callable[[Any], Wrong | None]


class Validator:
    """Finds the first error of a value, an object's before those of its members."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Take a schema whose references lead to its `$defs`."""
        self._schema = schema
        self._definitions: dict[str, Check] = {}
        self._check = self._compile(schema)

    def first(self, value: Any) -> Wrong | None:
        """Return the first error of a value, or None."""
        wrong = self._check(value)
        if wrong is None:
            return None
        for part in wrong.path:
            value = value[part]
        text = repr(value)
        return Wrong(wrong.path, f"{text[:100]}{' ...' * (len(text) > 100)} {wrong.message}")

    def _compile(self, schema: Schema) -> Check:
        if isinstance(schema, bool):
            return _unless(lambda value: schema, "is not allowed here")
        rules = [_rule(name, given) for name, given in schema.items() if name in _RULES]
        parts = dict.fromkeys(_PARTS[name] for name in schema if name in _PARTS)  # each once
        return _first_of([*rules, *(part(self, schema) for part in parts)])

    def _reference(self, schema: Any) -> Check:
        name = schema["$ref"].rpartition("/")[2]

        def check(value: Any) -> Wrong | None:
            if name not in self._definitions:
                self._definitions[name] = self._compile(self._schema["$defs"][name])
            return self._definitions[name](value)

        return check

    def _properties(self, schema: Any) -> Check:
        known = {name: self._compile(own) for name, own in schema.get("properties", {}).items()}
        is_closed = schema.get("additionalProperties", True) is False
        others = self._compile(schema.get("additionalProperties", True))

        def check(value: Any) -> Wrong | None:
            if type(value) is not dict:
                return None
            if is_closed and not value.keys() <= known.keys():
                return Wrong((), f"has unexpected keys: {', '.join(value.keys() - known.keys())}")
            for name, member in value.items():
                wrong = known.get(name, others)(member)
                if wrong is not None:
                    return wrong.below(name)
            return None

        return check

    def _required(self, schema: Any) -> Check:
        def check(value: Any) -> Wrong | None:
            needed = schema["required"] if type(value) is dict else ()
            missing = [key for key in needed if key not in value]
            return Wrong((), f"has no {missing[0]}") if missing else None

        return check

    def _one(self, schema: Any) -> Check:
        keys = [each["required"][0] for each in schema["oneOf"]]
        complaint = f"has not one of {', '.join(keys)}"
        return _unless(
            lambda value: type(value) is not dict or len(value.keys() & keys) == 1, complaint
        )

    def _names(self, schema: Any) -> Check:
        check = self._compile(schema["propertyNames"])
        return _unless(
            lambda value: type(value) is not dict or not any(map(check, value)), "has a wrong key"
        )

    def _items(self, schema: Any) -> Check:
        check_item = self._compile(schema["items"])

        def check(value: Any) -> Wrong | None:
            if type(value) is not list:
                return None
            is_plain = set(map(type, value)) in ({int}, {str})  # equal items are checked once
            if is_plain and not any(map(check_item, set(value))):
                return None
            for index, item in enumerate(value):
                wrong = check_item(item)
                if wrong is not None:
                    return wrong.below(index)
            return None

        return check

    def _contains(self, schema: Any) -> Check:
        check = self._compile(schema["contains"])
        return _unless(
            lambda value: type(value) is not list or not all(map(check, value)),
            f"has no item as {schema['contains']}",
        )

    def _negation(self, schema: Any) -> Check:
        check = self._compile(schema["not"])
        return _unless(lambda value: check(value) is not None, "is not allowed here")

    def _every(self, schema: Any) -> Check:
        return _first_of([self._compile(part) for part in schema["allOf"]])

    def _some(self, schema: Any) -> Check:
        """One alternative has no error; else the error is that of the last one to fail deepest."""
        checks = [self._compile(part) for part in reversed(schema["anyOf"])]

        def check(value: Any) -> Wrong | None:
            failures = [wrong for each in checks if (wrong := each(value)) is not None]
            is_kept = len(failures) < len(checks)
            return None if is_kept else max(failures, key=lambda wrong: len(wrong.path))

        return check

    def _condition(self, schema: Any) -> Check:
        condition = self._compile(schema["if"])
        then, other = (self._compile(schema.get(name, True)) for name in ("then", "else"))
        return lambda value: (then if condition(value) is None else other)(value)


def check(value: Any, validator: Validator) -> None:
    """Raise `Malformed` at the first place that breaks the schema."""
    wrong = validator.first(value)
    if wrong is not None:
        raise Malformed(pointer(*wrong.path), wrong.message)


def is_own(path: Path) -> bool:
    """Return whether a file is one of the suite's."""
    return path.resolve().is_relative_to(vectors_dir())


def pointer(*parts: object) -> str:
    """Return a JSON pointer."""
    return "".join(f"/{part}" for part in parts) or "/"


_PARTS: dict[str, Callable[[Validator, Any], Check]] = {
    "$ref": Validator._reference,
    "required": Validator._required,
    "oneOf": Validator._one,
    "properties": Validator._properties,
    "additionalProperties": Validator._properties,
    "propertyNames": Validator._names,
    "items": Validator._items,
    "contains": Validator._contains,
    "not": Validator._negation,
    "allOf": Validator._every,
    "anyOf": Validator._some,
    "if": Validator._condition,
}
_RULES: dict[str, tuple[str, Callable[[Any, Any], Any], str]] = {  # the type they apply to
    "enum": ("", lambda value, given: value in given, "is not one of {}"),
    "const": ("", lambda value, given: (type(value), value) == (type(given), given), "is not {!r}"),
    "pattern": ("string", lambda value, given: re.search(given, value), "does not match {!r}"),
    "minLength": ("string", lambda value, given: len(value) >= given, "is shorter than {}"),
    "minimum": ("number", lambda value, given: value >= given, "is less than {}"),
    "maximum": ("number", lambda value, given: value <= given, "is greater than {}"),
    "minItems": ("array", lambda value, given: len(value) >= given, "has fewer items than {}"),
    "uniqueItems": ("array", lambda value, _: len({*map(repr, value)}) == len(value), "repeats"),
    "minProperties": ("object", lambda value, given: len(value) >= given, "has fewer keys than {}"),
    "maxProperties": ("object", lambda value, given: len(value) <= given, "has more keys than {}"),
    "dependentRequired": (
        "object",
        lambda value, given: all(value.keys() >= {*given[name]} for name in given if name in value),
        "has not all that {} asks for",
    ),
    "type": ("", lambda value, given: type(value) in given, "is not of type {}"),
}


def _rule(name: str, given: Any) -> Check:
    kind, is_kept, complaint = _RULES[name]
    complaint = complaint.format(given)
    if name == "type":
        names = [given] if isinstance(given, str) else given
        given = {each for name in names for each in _TYPES[name]}
    if not kind:
        return _unless(lambda value: is_kept(value, given), complaint)
    types = _TYPES[kind]
    return _unless(lambda value: type(value) not in types or is_kept(value, given), complaint)


def _unless(is_kept: Callable[[Any], Any], complaint: str) -> Check:
    wrong = Wrong((), complaint)
    return lambda value: None if is_kept(value) else wrong


def _first_of(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]

    def check(value: Any) -> Wrong | None:
        for each in checks:
            wrong = each(value)
            if wrong is not None:
                return wrong
        return None

    return check

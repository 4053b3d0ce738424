"""Reads, checks and writes descs: the types of fields, before any rule of DirectML."""

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from difflib import get_close_matches
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

from dmlax._directml.enums import DataType, TensorFlags
from dmlax.errors import Code, SpecError, Violation

T = TypeVar("T")
UINT, UINT64 = 2**32 - 1, 2**64 - 1
_CODES: dict[str, Code] = {
    "data_type": "data_type",
    "flags": "flags",
    "sizes": "sizes",
    "total_tensor_size_in_bytes": "byte_size",
    "guaranteed_base_offset_alignment": "alignment",
}
_PREFIXES: dict[type[Enum], str] = {
    DataType: "DML_TENSOR_DATA_TYPE_",
    TensorFlags: "DML_TENSOR_FLAG_",
}


@cache
def directml_name(name: str) -> str:
    """A field's name as DirectML spells it."""
    return "".join(word.capitalize() for word in name.split("_"))


@cache
def python_name(name: str) -> str:
    """A field's name in snake case."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def suggestion(name: object, known: Collection[str]) -> str:
    """The nearest of the known names, else all of them, to end a message with."""
    spelt = {each.lower().replace("_", ""): each for each in known}
    given = str(name).lower().replace("_", "")
    near = [each for each in spelt if given and each.startswith(given)]
    near += get_close_matches(given, spelt, 1, 0.75)
    return f"did you mean {spelt[near[0]]}?" if near else f"expected one of {', '.join(known)}"


def refuse(problems: Sequence[Violation]) -> None:
    """Raises `SpecError` for the first problem, which carries them all; nothing without any."""
    if problems:
        first = problems[0]
        raise SpecError(first.message, first.code, first.field, tuple(problems))


def check(record: Any, owner: str) -> None:
    """Raises unless every field holds what its type says; sequences of integers become tuples."""
    problems: list[Violation] = []
    for each, hint in _fields(record.__class__):
        try:
            value = _check_value(hint, each, getattr(record, each.name))
            object.__setattr__(record, each.name, value)
        except _WrongError as wrong:
            problems.append(_problem(owner, each.name, f"{wrong}"))
    refuse(problems)


def read(cls: Callable[..., T], value: Any, owner: str) -> T:
    """Reads a record of a class from DirectML's spelling."""
    if not isinstance(value, Mapping):
        found = f"{owner}: is {_show(value)}, expected a dict"
        refuse([Violation("desc-fields", "option", owner, found)])
    problems, values = list(_unknown_keys(cls, value, owner)), {}
    for each, hint in _fields(cls):
        name = directml_name(each.name)
        try:
            if name in value:
                values[each.name] = _check_value(hint, each, _parse_value(hint, value[name]))
            elif each.default is MISSING:
                raise _WrongError("is missing")
        except _WrongError as wrong:
            missing = _is_record(hint) and name not in value
            problems.append(_problem(owner, each.name, f"{wrong}", missing=missing))
        except SpecError as error:
            problems += _inside_tensor(owner, name, error.violations)
    problems += _dimension_count(value, owner)
    refuse(problems)
    return cls(**values)


def write(record: Any) -> dict[str, Any]:
    """Writes a record in DirectML's spelling, in types that JSON can hold."""
    written: dict[str, Any] = {}
    for each, hint in _fields(record.__class__):
        if each.name == "sizes":
            written["DimensionCount"] = len(record.sizes)
        written[directml_name(each.name)] = _write_value(hint, getattr(record, each.name))
    return written


# ---------------------------------------------------------------------------------------


class _WrongError(Exception):
    """A mistake in one value, to be reported with its field."""


def _check_value(hint: Any, each: Field[Any], value: Any) -> Any:
    """Checks a value against its field's type; sequences become tuples."""
    if value is None and (each.default is None or _is_record(hint)):
        return None  # whether a tensor may be absent depends on the feature level
    if hint is int:
        return _integer(value, UINT64 if each.name == "total_tensor_size_in_bytes" else UINT)
    if tuple[int, ...] in (hint, *get_args(hint)):
        return _integers(value)
    wanted = _class(hint)
    if not isinstance(value, wanted):
        raise _WrongError(f"is {_show(value)}, expected a {wanted.__name__}")
    return value


def _integers(value: Any) -> tuple[int, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise _WrongError(f"is {_show(value)}, expected a sequence of UINT")
    return tuple(_integer(entry, UINT, f"[{index}]") for index, entry in enumerate(value))


def _integer(value: Any, limit: int, place: str = "") -> int:
    if type(value) is int and 0 <= value <= limit:
        return value
    try:
        number = limit + 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = limit + 1
    if not 0 <= number <= limit:
        wrong = f"{place} is {_show(value)}, expected an integer from 0 to {limit}"
        raise _WrongError(wrong.lstrip())
    return number


def _parse_value(hint: Any, value: Any) -> Any:
    """Converts what JSON holds to what a record holds."""
    if _is_record(hint) and value is not None:
        return read(_class(hint), value, _class(hint).__name__)
    if hint in _PREFIXES:
        return _enumerator(hint, value)
    return value


def _enumerator(cls: type[Enum], value: Any) -> Enum:
    name = value.removeprefix(_PREFIXES[cls]) if isinstance(value, str) else value
    names = list(cls.__members__)
    if name not in names:
        raise _WrongError(f"is {_show(value)}; {suggestion(name, names)}")
    return cls[name]


def _write_value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if _is_record(hint):
        return write(value)
    if isinstance(value, Enum):
        return value.name
    return list(value) if isinstance(value, tuple) else value


def _unknown_keys(cls: Any, value: Mapping[str, Any], owner: str) -> Iterator[Violation]:
    known = [directml_name(each.name) for each, _ in _fields(cls)]
    known += ["DimensionCount"] if "Sizes" in known else []
    for key in value:
        if key not in known:
            text = f"{owner}: {key} is no field; {suggestion(key, known)}"
            yield Violation("desc-fields", "option", str(key), text)


def _dimension_count(value: Mapping[str, Any], owner: str) -> Iterator[Violation]:
    count, sizes = value.get("DimensionCount"), value.get("Sizes")
    if not isinstance(sizes, Sequence) or "DimensionCount" not in value:
        return
    if type(count) is not int or count != len(sizes):
        text = f"{owner}: DimensionCount is {_show(count)}, but Sizes has {len(sizes)} entries"
        yield Violation("tensor-sizes-count", "dimension_count", "DimensionCount", text)


def _inside_tensor(owner: str, tensor: str, problems: Iterable[Violation]) -> Iterator[Violation]:
    """Reports a tensor's mistakes as the operator's."""
    for problem in problems:
        text = problem.message.partition(": ")[2]
        path = (
            f"{owner}: {tensor} {text}" if text.startswith("is ") else f"{owner}: {tensor}.{text}"
        )
        yield problem._replace(field=tensor, message=path)


def _problem(owner: str, name: str, text: str, *, missing: bool = False) -> Violation:
    code: Code = "missing_tensor" if missing else _CODES.get(name, "option")
    if name == "strides" and owner == "BufferTensorDesc":
        code = "strides"
    field = directml_name(name)
    message = f"{owner}: {field}{'' if text.startswith('[') else ' '}{text}"
    return Violation("desc-fields", code, field, message)


def _show(value: Any) -> str:
    plain = value is None or isinstance(value, int | float | str)
    return repr(value) if plain else f"a {type(value).__name__}"


@cache
def _fields(cls: Any) -> tuple[tuple[Field[Any], Any], ...]:
    hints = get_type_hints(cls)
    return tuple((each, hints[each.name]) for each in fields(cls))


@cache
def _class(hint: Any) -> type:
    """The class of a type hint, which may be Optional."""
    found: type = next((each for each in get_args(hint) if each is not type(None)), hint)
    return found


@cache
def _is_record(hint: Any) -> bool:
    return hasattr(_class(hint), "__dataclass_fields__")

"""Reads, checks and writes descs: the types of fields, before any rule of DirectML."""

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, Self, get_args, get_origin, get_type_hints

from dmlax._core.arguments import directml_name
from dmlax._descriptors.enums import DataType, TensorFlags
from dmlax.errors import Code, SpecError, Violation

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
def python_name(name: str) -> str:
    """A field's name in snake case."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def suggestion(name: object, known: Collection[str]) -> str:
    """The nearest of the known names, else all of them, to end a message with."""
    spelt = {key.lower().replace("_", ""): key for key in known}
    asked = str(name).lower().replace("_", "")
    near = [key for key in spelt if asked and key.startswith(asked)]
    near += get_close_matches(asked, spelt, 1, 0.75)
    return f"did you mean {spelt[near[0]]}?" if near else f"expected one of {', '.join(known)}"


def refuse(problems: Sequence[Violation]) -> None:
    """Raises `SpecError` for the first problem, which carries them all; nothing without any."""
    if problems:
        first = problems[0]
        raise SpecError(first.message, first.code, first.field, tuple(problems))


@dataclass(frozen=True, kw_only=True)
class Record:
    """The base of the descs of tensors and of operators: checks fields, reads and writes JSON."""

    def __post_init__(self) -> None:
        problems: list[Violation] = []
        for slot in _slots(type(self)):
            try:
                object.__setattr__(self, slot.name, _checked(slot, getattr(self, slot.name)))
            except _WrongError as wrong:
                problems.append(_problem(type(self), slot, f"{wrong}"))
        refuse(problems)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Reads DirectML's spelling, as `to_dict` writes it; keys with a default may be absent."""
        owner = _owner(cls)
        if not isinstance(value, Mapping):
            text = f"{owner}: is {_show(value)}, expected a dict"
            refuse([Violation("desc-fields", "option", owner, text)])
        problems, values = list(_unknown_keys(cls, value, owner)), {}
        for slot in _slots(cls):
            try:
                if slot.field in value:
                    values[slot.name] = _checked(slot, _parsed(slot, value))
                elif slot.default is MISSING:
                    raise _WrongError("is missing")
            except _WrongError as wrong:
                missing = slot.is_record and slot.field not in value
                problems.append(_problem(cls, slot, f"{wrong}", missing=missing))
            except SpecError as error:
                problems += _inside_tensor(owner, slot.field, error.violations)
        problems += _dimension_count(value, owner)
        refuse(problems)
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Writes DirectML's spelling, in types that JSON can hold."""
        written: dict[str, Any] = {}
        for slot in _slots(type(self)):
            value = getattr(self, slot.name)
            if slot.name == "sizes":
                written["DimensionCount"] = len(value)
            written[slot.field] = _json(value)
        return written


# ---------------------------------------------------------------------------------------


class _WrongError(Exception):
    """A mistake in one value, to be reported with its field."""


class _Slot(NamedTuple):
    """A field of a record: its names in Python and in DirectML, and what it holds."""

    name: str
    field: str
    holds: type  # a number, `tuple`, an enumeration or the class of a record
    default: object

    @property
    def is_record(self) -> bool:
        """True if it holds a record, which is a tensor."""
        return issubclass(self.holds, Record)

    @property
    def takes_none(self) -> bool:
        """True if None is a value; whether a tensor may be absent depends on the feature level."""
        return self.default is None or self.is_record


def _read_slots(cls: type) -> tuple[_Slot, ...]:
    hints = get_type_hints(cls)
    return tuple(
        _Slot(field.name, directml_name(field.name), _class(hints[field.name]), field.default)
        for field in fields(cls)
    )


_slots: Callable[[type], tuple[_Slot, ...]] = cache(_read_slots)


def _class(hint: object) -> type:
    """The class of a type hint, which may be Optional."""
    members = [member for member in get_args(hint) if member is not NoneType]
    hint = members[0] if isinstance(hint, UnionType) else hint
    cls = get_origin(hint) or hint
    assert isinstance(cls, type)
    return cls


def _checked(slot: _Slot, value: object) -> object:
    """Checks a value against its field's type; sequences become tuples."""
    if value is None and slot.takes_none:
        return None
    if slot.holds is int:
        return _integer(value, UINT64 if slot.name == "total_tensor_size_in_bytes" else UINT)
    if slot.holds is tuple:
        return _integers(value)
    if not isinstance(value, slot.holds):
        raise _WrongError(f"is {_show(value)}, expected a {slot.holds.__name__}")
    return value


def _integers(value: object) -> tuple[int, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise _WrongError(f"is {_show(value)}, expected a sequence of UINT")
    return tuple(_integer(entry, UINT, f"[{index}]") for index, entry in enumerate(value))


def _integer(value: object, limit: int, place: str = "") -> int:
    try:
        number = limit + 1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = limit + 1
    if not 0 <= number <= limit:
        text = f"{place} is {_show(value)}, expected an integer from 0 to {limit}"
        raise _WrongError(text.lstrip())
    return number


def _parsed(slot: _Slot, written: Mapping[str, Any]) -> object:
    """Converts what JSON holds to what a record holds."""
    value = written[slot.field]
    if issubclass(slot.holds, Record) and value is not None:
        return slot.holds.from_dict(value)
    return _enumerator(slot.holds, value) if slot.holds in _PREFIXES else value


def _enumerator(cls: type[Enum], value: object) -> Enum:
    name = value.removeprefix(_PREFIXES[cls]) if isinstance(value, str) else value
    names = list(cls.__members__)
    if name not in names:
        raise _WrongError(f"is {_show(value)}; {suggestion(name, names)}")
    return cls[name]


def _json(value: object) -> object:
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Enum):
        return value.name
    return list(value) if isinstance(value, tuple) else value


def _unknown_keys(
    cls: type[Record], value: Mapping[str, object], owner: str
) -> Iterator[Violation]:
    known = [slot.field for slot in _slots(cls)]
    known += ["DimensionCount"] if "Sizes" in known else []
    for key in value:
        if key not in known:
            text = f"{owner}: {key} is no field; {suggestion(key, known)}"
            yield Violation("desc-fields", "option", str(key), text)


def _dimension_count(value: Mapping[str, object], owner: str) -> Iterator[Violation]:
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
        separator = " " if text.startswith("is ") else "."
        yield problem._replace(field=tensor, message=f"{owner}: {tensor}{separator}{text}")


def _owner(cls: type) -> str:
    """The name that messages begin with: the operator's, or that of a tensor's class."""
    return str(getattr(cls, "operator", cls.__name__))


def _problem(cls: type, slot: _Slot, text: str, *, missing: bool = False) -> Violation:
    code: Code = "missing_tensor" if missing else _CODES.get(slot.name, "option")
    if slot.name == "strides" and not hasattr(cls, "operator"):
        code = "strides"
    message = f"{_owner(cls)}: {slot.field}{'' if text.startswith('[') else ' '}{text}"
    return Violation("desc-fields", code, slot.field, message)


def _show(value: object) -> str:
    is_plain = value is None or isinstance(value, int | float | str)
    return repr(value) if is_plain else f"a {type(value).__name__}"

"""Calls at corners: shapes, windows and forms of parameters that an implementation may branch on.

Each has elements of a recipe and a digest. What a line leaves open is drawn, so that options meet
in triples which no table of pairs has.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from ...format.tensors import Tensor
from ..topics import Files, Topic
from .covering import Factors, Row
from .large_pairs import Call, sizes_of
from .near_ties import Draw

Calls = Iterable[tuple[int, tuple[str, Call]]]  # with their numbers
WORDS = {
    "zero": 0,
    "minus-zero": 0x80000000,
    "infinity": 0x7F800000,
    "minus-infinity": 0xFF800000,
    "nan": 0x7FC00000,
}
PLAIN = ("one", "absent")  # parameters
WIDE = ("bool", "int64", "uint64", "float64")  # extensions
ONES = ((), (1,), (1, 1), (1, 1, 1), (1, 1, 1, 1))
CHANNELS = ("{0}", "1x{0}", "1x{0}x1x1")


def drawn_row(factors: Factors, number: int, chosen: Row) -> Row:
    """Return a row of options with those that are chosen; without elements, plain parameters."""
    draw, is_empty = Draw(77_000 + number), _is_empty(chosen["sizes"])
    row = {name: values[draw.below(len(values))] for name, values in factors.items()}
    if is_empty:
        plain = {n: [each for each in PLAIN if each in own] for n, own in factors.items()}
        row |= {name: found[0] for name, found in plain.items() if found}
    return {**row, **chosen}


def _is_empty(text: str) -> bool:
    return any("0" in sizes.split("x") for sizes in text.split())


def in_form(tensor: Tensor, number: int, forms: Sequence[str]) -> Tensor:
    """Return a parameter in another form: ones if it is one value, else one of `forms`, if any."""
    length = prod(tensor.sizes)
    if length == 1:
        return replace(tensor, sizes=ONES[number % len(ONES)])
    if not forms:
        return tensor
    sizes = map(int, forms[number % len(forms)].format(length).split("x"))
    return replace(tensor, sizes=tuple(sizes))


def in_forms(call: Call, number: int, forms: Mapping[str, Sequence[str]]) -> Call:
    """Return a call whose parameters, named by their ends, have other forms."""
    given = {
        name: next(
            (in_form(tensor, number + at, own) for end, own in forms.items() if name.endswith(end)),
            tensor,
        )
        for at, (name, tensor) in enumerate(call.inputs.items())
    }
    return call._replace(inputs=given)


def add_corners(
    topics: Files[Topic],
    clause: str,
    calls: Iterable[tuple[str, Call]],
    name: str = "corners",
    files: int = 1,
    last: Callable[[Topic], None] | None = None,
) -> None:
    """Register files of calls, each with what it is about; `last` adds to the last of them."""
    found = list(enumerate(calls, 1))
    for file in range(files):
        part = found[file::files]
        more = last if file == files - 1 else None
        fill = partial(_fill, clause, part, name, more)
        topics.file(f"{name}-{file + 1}" if files > 1 else name)(fill)


def _fill(
    clause: str, calls: Calls, name: str, last: Callable[[Topic], None] | None, topic: Topic
) -> None:
    topic.has_digests, topic.has_input_digests = True, False
    for number, (text, call) in calls:
        given, asked = call.inputs, call.outputs
        own, (flags, need) = f"{name}-{number}", _kind(call)
        topic.valid(own, text, clause, given, asked, call.attributes, flags, need)
    topic.pair_zeros()
    if last:
        last(topic)


def _kind(call: Call) -> tuple[str, str]:
    """Return the flags of a call, and what it requires."""
    wide = sorted({f"dtype:{each.dtype}" for each in call.inputs.values() if each.dtype in WIDE})
    sizes = [each.sizes for part in (call.inputs, call.outputs) for each in part.values()]
    is_empty = any(0 in each for each in sizes)
    flags = ["Empty" if is_empty else "Large", *(["WideType"] if wide else [])]
    return " ".join(flags), " ".join((["sizes:zero"] if is_empty else []) + wide)


def add_late_scales(topics: Files[Topic], clause: str, call: Call, names: Sequence[str]) -> None:
    """Register the file of calls with a bad scale at one place, behind others that are fine."""
    topics.file("corner-scales")(partial(_refuse, clause, call, names))


def _refuse(clause: str, call: Call, names: Sequence[str], topic: Topic) -> None:
    twin, need = "twin-corner-scales", "values:known"
    text, given = "the twin: many scales, all of them fine", call.inputs
    topic.valid(twin, text, clause, given, call.outputs, call.attributes, "KnownValue", need)
    for name in names:
        words = [*given[name].words]
        last = len(words) - 1
        places = (last, last, last // 2, min(1, last), max(last - 1, 0))
        for (label, word), at in zip(WORDS.items(), places, strict=True):
            changed = {name: replace(given[name], words=_with(words, at, word), made_by=None)}
            own = f"corner-scales-{name.removesuffix('ScaleTensor').lower()}-{label}"
            text, flags = f"{name}: entry {at} of {last + 1} is {label}", "Invalid KnownValue"
            topic.invalid(own, text, clause, twin, "value", changed, flags, need)


def _with(words: Sequence[int], at: int, word: int) -> tuple[int, ...]:
    return (*words[:at], word, *words[at + 1 :])


SIZES = (
    *("none", "1", "1x1x1", "7", "63", "64", "65", "4133", "1x4133", "4133x1", "65539"),
    *("3x1025", "1025x3", "70x70", "2x3x4x5", "2x67x3x5", "5x1x131", "1x1x1x1x1x1x1x33"),
    *("33x1x1x1x1x1x1x1", "2x3x2x2x3x2x5", "2x2x2x2x2x2x2x3", "0", "0x3", "2x0x3", "3x2x0"),
)


def sized(
    factors: Factors, make: Callable[[Row, int], Call], least: int = 1
) -> Iterator[tuple[str, Call]]:
    """Yield a call of each of the sizes of at least this rank, with the other options drawn."""
    for number, sizes in enumerate(SIZES):
        if len(sizes_of(sizes)) < least:
            continue
        row = drawn_row(factors, number, {"sizes": sizes})
        yield f"an input of {sizes}", make(row, number)

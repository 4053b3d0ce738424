"""Reading a report back, and refusing one that is broken, cut off or does not add up."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import Malformed, MalformedReport, in_file
from ..format import json_schema, vectors
from ..paths import schema_file
from .lines import FORMAT, Json, Report


def read(path: Path) -> Report:
    """Return a report, or raise `Malformed` with the number of the line that is wrong."""
    with in_file(path, MalformedReport):
        return _whole(list(_lines(path)))


def _lines(path: Path) -> Iterator[Json]:
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Malformed("file", str(error)) from None
    for number, line in enumerate(lines, 1):
        try:
            yield _checked(line)
        except Malformed as error:
            raise _wrong(number, f"{error.position}: {error.message}") from None


def _wrong(number: int, message: str) -> Malformed:
    return Malformed(f"line {number}", message)


def _checked(text: str) -> Json:
    vectors.parse(text)  # refuses more than the next line, but keeps decimals as they are
    line: Json = json.loads(text)
    json_schema.check(line, _validator(), "to read a report, it")
    return line


@cache
def _validator() -> Any:
    path = schema_file().with_name(f"{FORMAT}.json")
    return json_schema.validator(json.loads(path.read_text(encoding="utf-8")))


def _whole(lines: Sequence[Json]) -> Report:
    if len(lines) < 2:
        raise _wrong(1, "is the only one: the report is cut off")
    kinds = ("header", *["result"] * (len(lines) - 2), "footer")
    for number, (line, kind) in enumerate(zip(lines, kinds, strict=True), 1):
        if line["kind"] != kind:
            raise _wrong(number, f"is a {line['kind']}, not a {kind}: lines are missing or added")
    report = Report(lines[0], tuple(lines[1:-1]))
    _check_results(report)
    if report.footer != lines[-1]:
        raise _wrong(len(lines), "the sums are not those of the results")
    return report


def _check_results(report: Report) -> None:
    """Refuse a result that is there twice, or of a variant that the header does not name."""
    seen: dict[tuple[str, str], int] = {}
    for number, result in enumerate(report.results, 2):
        first = seen.setdefault((result["id"], result["variant"]), number)
        if first != number:
            raise _wrong(number, f"repeats the vector and variant of line {first}")
        if result["variant"] not in report.header["variants"]:
            raise _wrong(number, f"variant {result['variant']!r} is not one of line 1")

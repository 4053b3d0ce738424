"""Reading a report back, and refusing one that is broken, cut off or does not add up."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ..errors import Malformed, MalformedReport, in_file
from ..format import json_schema, vectors
from ..paths import schema_file
from .lines import FORMAT, Json, Report


def read(path: Path) -> Report:
    """Return a report, or raise `Malformed` with the number of the line that is wrong."""
    with in_file(path, MalformedReport):
        try:
            lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise Malformed("file", str(error)) from None
        return _whole([_checked(number, line) for number, line in enumerate(lines, 1)])


def _wrong(number: int, message: str) -> Malformed:
    return Malformed(f"line {number}", message)


def _checked(number: int, text: str) -> Json:
    try:
        vectors.parse(text)  # refuses more than the next line, which keeps decimals as they are
        line: Json = json.loads(text)
        _validator().check(line)
    except Malformed as error:
        raise _wrong(number, f"{error.position}: {error.message}") from None
    return line


@cache
def _validator() -> json_schema.Validator:
    path = schema_file().with_name(f"{FORMAT}.json")
    return json_schema.Validator(json.loads(path.read_text(encoding="utf-8")))


def _whole(lines: Sequence[Json]) -> Report:
    """Return the report of lines that are complete and add up."""
    if len(lines) < 2:
        raise _wrong(1, "is the only one: the report is cut off")
    kinds = ("header", *["result"] * (len(lines) - 2), "footer")
    for number, (line, kind) in enumerate(zip(lines, kinds, strict=True), 1):
        if line["kind"] != kind:
            raise _wrong(number, f"is a {line['kind']}, not a {kind}: lines are missing or added")
    report = Report(lines[0], tuple(lines[1:-1]))
    seen: dict[tuple[str, str], int] = {}
    for number, result in enumerate(report.results, 2):
        first = seen.setdefault((result["id"], result["variant"]), number)
        if first != number:
            raise _wrong(number, f"repeats the vector and variant of line {first}")
        if result["variant"] not in report.header["variants"]:
            raise _wrong(number, f"variant {result['variant']!r} is not one of line 1")
    if report.footer != lines[-1]:
        raise _wrong(len(lines), "the sums are not those of the results")
    return report

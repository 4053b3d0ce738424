"""One self-contained page: operators by data type, feature and topic, against implementations."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..format.vectors import Vector
from ..suite.runner import VERDICTS
from . import operands, values
from .lines import Json, Report

SCRIPTS = ("dom", "values", "planes", "coordinates", "vector", "panel", "grid", "main")
SHARED = ("id", "rev", "operator", "topic", "comment", "clause", "flags", "requires", "valid")
CALL = ("attributes", "desc", "feature_level", "inputs", "outputs", "expect")

Key = tuple[str, int]


def write(path: Path, reports: Mapping[str, Report], suite: Iterable[Vector] = ()) -> None:
    """Write the page; `suite` shows the vectors that did not fail, which reports do not hold."""
    path.write_text(page(reports, suite), encoding="utf-8")


def page(reports: Mapping[str, Report], suite: Iterable[Vector] = ()) -> str:
    """Return the page of one or several reports, given by the names they are shown under."""
    style, script = _part("page.css"), "\n".join(_part(f"{name}.js") for name in SCRIPTS)
    parts = {
        "title": html.escape(f"Conformance of {', '.join(reports)}"),
        "policy": f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}",
        "style": style,
        "script": script,
        "data": _embedded(data(reports, suite)),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found.group(1)], _part("page.html"))


def data(reports: Mapping[str, Report], suite: Iterable[Vector] = ()) -> dict[str, Any]:
    """Return what the page shows: every vector once, and results that refer to it."""
    known = {(vector.id, vector.rev): vector for vector in suite}
    vectors: dict[Key, dict[str, Any]] = {}
    for result in (result for report in reports.values() for result in report.results):
        key = (result["id"], result["rev"])
        if "expect" not in vectors.get(key, {}):
            vectors[key] = _vector(result, known.get(key))
    places = {key: place for place, key in enumerate(vectors)}
    columns = _columns(reports)
    return {
        "verdicts": VERDICTS,
        "reports": [_about(name, report) for name, report in reports.items()],
        "columns": [{"report": place, "variant": variant} for place, variant in columns],
        "legend": _legend(reports.values()),
        "vectors": list(vectors.values()),
        "results": [
            _result(result, places, columns.index((place, result["variant"])), known)
            for place, report in enumerate(reports.values())
            for result in report.results
        ],
    }


def _part(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the source expression that lets one inline block run, and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _embedded(value: Any) -> str:
    """Return JSON in which nothing can end the script element that holds it."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _columns(reports: Mapping[str, Report]) -> list[tuple[int, str]]:
    return [
        (place, variant)
        for place, report in enumerate(reports.values())
        for variant in report.header["variants"]
    ]


def _about(name: str, report: Report) -> dict[str, Any]:
    facts = ("implementation", "suite", "repeat", "python", "machine")
    return {"name": name} | {fact: report.header[fact] for fact in facts}


def _legend(reports: Iterable[Report]) -> dict[str, dict[str, str]]:
    legends = [report.header["legend"] for report in reports]
    return {
        kind: {word: text for each in legends for word, text in each[kind].items()}
        for kind in ("clauses", "flags")
    }


def _vector(result: Json, vector: Vector | None) -> dict[str, Any]:
    """Return a vector: what every result says of it, and the call from where it is known."""
    shown = {name: result[name] for name in SHARED} | {"types": _types(result)}
    shown |= {name: result[name] for name in ("twin", "beside") if name in result}
    if "expect" in result:
        return shown | {name: result[name] for name in CALL if name in result}
    return shown | (values.call(vector) if vector is not None else {})


def _types(result: Json) -> str:
    """Return the data types of operands and output that tell an operator's rows apart."""
    dtypes = result["dtypes"]
    names = ("InputTensor", "ATensor", "BTensor")
    given = [dtypes[name] for name in names if name in dtypes] or ["none"]
    if "convolution" in result["operator"]:
        given.append(dtypes.get("FilterTensor", "none"))
    wanted = [] if "OutputCountTensor" in dtypes else [dtypes.get("OutputTensor", "none")]
    return " → ".join([" * ".join(given), *wanted])


def _result(
    result: Json, places: Mapping[Key, int], column: int, known: Mapping[Key, Vector]
) -> list[Any]:
    """Return vector, column, verdict and seconds, and more where there is more to say."""
    names = ("details", "was", "reason", "got", "differs", "first")
    more = {name: result[name] for name in names if result.get(name)}
    key = (result["id"], result["rev"])
    if "OutputTensor" in more.get("first", {}) and key in known:
        first = more["first"]["OutputTensor"]
        more["first"] = {**more["first"], "OutputTensor": _with_operands(known[key], first)}
    row = [places[key], column, VERDICTS.index(result["verdict"]), result["seconds"]]
    return [*row, more] if more else row


def _with_operands(vector: Vector, first: Sequence[Json]) -> list[Json]:
    """Return the first differing elements of OutputTensor, each with what feeds it."""
    sizes = vector.outputs["OutputTensor"].sizes
    return [{**each, "operands": operands.feeding(vector, sizes, each["index"])} for each in first]


def names(paths: Sequence[Path], reports: Sequence[Report]) -> list[str]:
    """Return a name for each report: its implementation, with the file's name where two agree."""
    given = [str(report.header["implementation"]) for report in reports]
    return [
        name if given.count(name) == 1 else f"{name} ({path.stem})"
        for name, path in zip(given, paths, strict=True)
    ]

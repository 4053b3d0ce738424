"""One self-contained page: operators by data type, feature and topic, against implementations."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import WrongUsage
from ..format.vectors import Vector
from ..runner.run import VERDICTS
from . import operands, values
from .lines import Json, Report

SCRIPTS = ("dom", "values", "planes", "coordinates", "vector", "panel", "grid", "main")
FACTS = ("implementation", "suite", "repeat", "python", "machine")
MORE = ("details", "was", "reason", "got", "differs", "first")
OF_RESULT = ("kind", "variant", "verdict", "seconds", "dtypes", *MORE)  # the rest is the vector's

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
    results = [(i, each) for i, report in enumerate(reports.values()) for each in report.results]
    vectors: dict[Key, dict[str, Any]] = {}
    for _, result in results:
        key = (result["id"], result["rev"])
        if "expect" not in vectors.get(key, {}):
            vectors[key] = _vector(result, known.get(key))
    places = {key: place for place, key in enumerate(vectors)}
    headers = [report.header for report in reports.values()]
    columns = [(i, name) for i, header in enumerate(headers) for name in header["variants"]]
    return {
        "verdicts": VERDICTS,
        "reports": [
            {"name": name} | {fact: header[fact] for fact in FACTS}
            for name, header in zip(reports, headers, strict=True)
        ],
        "columns": [{"report": place, "variant": variant} for place, variant in columns],
        "legend": {
            kind: dict(chain(*(header["legend"][kind].items() for header in headers)))
            for kind in ("clauses", "flags")
        },
        "vectors": list(vectors.values()),
        "results": [
            _result(result, places, columns.index((place, result["variant"])), known)
            for place, result in results
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


def _vector(result: Json, vector: Vector | None) -> dict[str, Any]:
    """Return a vector: what every result says of it, and the call from where it is known."""
    shown = {name: each for name, each in result.items() if name not in OF_RESULT}
    known = values.call(vector) if vector is not None and "expect" not in shown else {}
    return shown | known | {"types": _types(result)}


def _types(result: Json) -> str:
    """Return the data types of operands and output that tell an operator's rows apart."""
    dtypes = result["dtypes"]
    names = ["InputTensor", "ATensor", "BTensor"]
    given = [dtypes[name] for name in names if name in dtypes] or ["none"]
    if "convolution" in result["operator"]:
        given.append(dtypes.get("FilterTensor", "none"))
    wanted = [] if "OutputCountTensor" in dtypes else [dtypes.get("OutputTensor", "none")]
    return " → ".join([" * ".join(given), *wanted])


def _result(
    result: Json, places: Mapping[Key, int], column: int, known: Mapping[Key, Vector]
) -> list[Any]:
    """Return vector, column, verdict and seconds, and more where there is more to say."""
    more = {name: result[name] for name in MORE if result.get(name)}
    key = (result["id"], result["rev"])
    if "OutputTensor" in more.get("first", {}) and key in known:
        sizes = known[key].outputs["OutputTensor"].sizes
        first = [
            {**each, "operands": operands.feeding(known[key], sizes, each["index"])}
            for each in more["first"]["OutputTensor"]
        ]
        more["first"] = {**more["first"], "OutputTensor": first}
    row = [places[key], column, VERDICTS.index(result["verdict"]), result["seconds"]]
    return [*row, more] if more else row


def named(paths: Sequence[Path], reports: Sequence[Report]) -> dict[str, Report]:
    """Name reports after their implementations, and after their files too where two agree."""
    given = [str(report.header["implementation"]) for report in reports]
    names = [
        name if given.count(name) == 1 else f"{name} ({path.stem})"
        for name, path in zip(given, paths, strict=True)
    ]
    if len(set(names)) < len(names):
        raise WrongUsage("two reports of one implementation need files of different names")
    return dict(zip(names, reports, strict=True))

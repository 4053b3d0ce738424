"""One self-contained page without scripts: totals, counts by operator and kind, and failures."""

import base64
import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import WrongUsage
from ..format import tensors
from ..format.layout import coordinates
from ..format.vectors import Vector
from ..runner import compare
from ..runner.repeat import command
from ..runner.run import FAILED, VERDICTS, in_turns, totals
from . import operands, values
from .lines import Json, Report, kind, rank

MARKS = {  # the sign of each verdict, the worst first
    "fail": "✗",
    "error": "!",
    "permitted": "≈",
    "expected": "◇",
    "unsupported": "○",
    "exact": "✓",
}
MOST = 200  # the most failures of a report that are shown
ELEMENTS = 256  # the most elements of a tensor that is written out
ROWS = 16  # the most wrong elements of an output that are listed
EXPLAINED = 3  # the most wrong elements that are shown with their operands

Key = tuple[int, str]  # the place of a report, and a variant
Known = Mapping[tuple[str, int], Vector]  # vectors by id and revision


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def el(name: str, *children: object, **attributes: str) -> Markup:
    """Return an element; children that are no markup are escaped."""
    given = "".join(f' {key.rstrip("_")}="{html.escape(text)}"' for key, text in attributes.items())
    inner = (x if isinstance(x, Markup) else Markup(html.escape(str(x))) for x in children)
    return Markup(f"<{name}{given}>{''.join(inner)}</{name}>")


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table whose rows begin with their names."""
    names = el("tr", *(el("th", name, scope="col") for name in head))
    body = (
        el("tr", el("th", row[0], scope="row"), *(el("td", x) for x in row[1:])) for row in rows
    )
    return el("table", el("thead", names), el("tbody", *body))


def write(path: Path, reports: Mapping[str, Report], suite: Iterable[Vector] = ()) -> None:
    """Write the page; `suite` has the vectors whose operands it shows."""
    path.write_text(page(reports, suite), encoding="utf-8")


def page(reports: Mapping[str, Report], suite: Iterable[Vector] = ()) -> str:
    """Return the page of one or several reports, given by the names they are shown under."""
    style = files(__package__).joinpath("page", "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    title = f"Conformance of {', '.join(reports)}"
    known = {(vector.id, vector.rev): vector for vector in suite}
    parts, addresses = [el("h1", title), *_counts(reports)], set[str]()
    for name, report in reports.items():
        parts += _failures(name, report, known, addresses)
    head = Markup(
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    )
    head = Markup(head + el("title", title) + el("style", Markup(style)))
    return f"<!doctype html>\n{el('html', el('head', head), el('body', *parts), lang='en')}\n"


# -- counts --------------------------------------------------------------------------------------


def types_of(result: Json) -> str:
    """Return the data types of operands and output that tell an operator's rows apart."""
    dtypes = result["dtypes"]
    names = ["InputTensor", "ATensor", "BTensor"]
    given = [dtypes[name] for name in names if name in dtypes] or ["none"]
    if "convolution" in result["operator"]:
        given.append(dtypes.get("FilterTensor", "none"))
    wanted = [] if "OutputCountTensor" in dtypes else [dtypes.get("OutputTensor", "none")]
    return " → ".join([" * ".join(given), *wanted])


ROWS_OF: Mapping[str, Callable[[Json], Sequence[str]]] = {  # names of rows
    "operator": lambda result: [""],
    "data type": lambda result: [types_of(result)],
    "feature": lambda result: result["flags"] or ["no feature"],
    "topic": lambda result: [result["topic"]],
    "rule": lambda result: result["clause"],
}
WORDS = {"feature": "flags", "rule": "clauses"}  # legends of rows


def _counts(reports: Mapping[str, Report]) -> Iterator[Markup]:
    """Yield the totals, and a table of verdicts for each kind of row."""
    columns = [(i, v) for i, r in enumerate(reports.values()) for v in r.header["variants"]]
    names = {key: f"{[*reports][key[0]]} {key[1]}" for key in columns}
    results = [(i, each) for i, r in enumerate(reports.values()) for each in r.results]
    totals = {key: Counter[str]() for key in columns}
    for place, result in results:
        totals[place, result["variant"]][result["verdict"]] += 1
    words = [word for word in VERDICTS if any(n[word] for n in totals.values())]
    yield el("h2", "Totals")
    yield table(
        ("implementation", "total", "answered", *words),
        (
            (names[key], n.total(), n.total() - n["unsupported"], *(n[word] for word in words))
            for key, n in totals.items()
        ),
    )
    facts = ("suite", "python", "machine")
    for name, report in reports.items():
        yield el(
            "p", f"{name}: ", ", ".join(f"{x} {report.header[x]}" for x in facts), class_="muted"
        )
    yield el("h2", "Results")
    for grouping, rows_of in ROWS_OF.items():
        cells: dict[tuple[str, str], dict[Key, Counter[str]]] = {}
        for place, result in results:
            for row in rows_of(result):
                row_cells = cells.setdefault((result["operator"], row), {})
                row_cells.setdefault((place, result["variant"]), Counter())[result["verdict"]] += 1
        shown = table(
            (grouping, *names.values()),
            (
                (": ".join(filter(None, row)), *(_cell(cells[row].get(key)) for key in columns))
                for row in sorted(cells, key=lambda row: (-_failed(cells[row]), row))
            ),
        )
        legends = (r.header["legend"].get(WORDS.get(grouping, ""), {}) for r in reports.values())
        texts = {word: text for legend in legends for word, text in legend.items()}
        notes = (el("li", f"{word}: {text}") for word, text in sorted(texts.items()))
        meaning = el("ul", *notes, class_="muted") if texts else ""
        summary = el("summary", f"by {grouping}")
        yield el(
            "details", summary, shown, meaning, **({"open": ""} if grouping == "operator" else {})
        )


def _failed(cells: Mapping[Key, Counter[str]]) -> int:
    return sum(counts[verdict] for counts in cells.values() for verdict in FAILED)


def _cell(counts: Counter[str] | None) -> Markup:
    spans = [
        el("span", f"{mark} {counts[x]} {x}", class_=x)
        for x, mark in MARKS.items()
        if counts and counts[x]
    ]
    return Markup(" ".join(spans) or "-")


# -- failures ------------------------------------------------------------------------------------


def _failures(name: str, report: Report, known: Known, addresses: set[str]) -> Iterator[Markup]:
    """Yield the failures of a report, those of the worst kind first.

    The first failure of a vector on the page has the vector's id for its address.
    """
    bad = (result for result in report.results if result["verdict"] in FAILED)
    failed = in_turns(bad, rank, itemgetter("operator"))
    kinds = Counter(map(kind, failed))
    yield el("h2", f"Failures of {name}: {totals(kinds)}")
    if len(failed) > MOST:
        yield el("p", f"The first {MOST} are shown. A report (--report) has all.", class_="muted")
    for result in failed[:MOST]:
        vector = known.get((result["id"], result["rev"]))
        repeat = command(report.header["repeat"], result["variant"], result["id"])
        call = "valid call" if result["valid"] else "call that must be refused"
        about = f"{result['operator']} / {result['topic']} · {types_of(result)} · {call}"
        texts = [report.header["legend"]["clauses"].get(x, "") for x in result["clause"]]
        rules = [f"{x}: {text}" for x, text in zip(result["clause"], texts, strict=True)]
        yield el(
            "article",
            el("h3", f"{MARKS[result['verdict']]} {result['id']} [{result['variant']}]"),
            el("p", result["comment"]),
            el("p", about, class_="muted"),
            *_details(result),
            el("p", "Repeat: ", el("code", repeat)),
            *_outputs(result, vector),
            *_call(result),
            el("ul", *(el("li", rule) for rule in rules), class_="muted"),
            **({} if result["id"] in addresses else {"id": result["id"]}),
        )
        addresses.add(result["id"])


def _details(result: Json) -> Iterator[Markup]:
    """Yield what went wrong, except the elements, which `_outputs` has."""
    lines = [x for x in result["details"] if re.split(r"\W", x)[0] not in result["differs"]]
    if lines:
        yield el("ul", *(el("li", line) for line in lines), class_=result["verdict"])


def _outputs(result: Json, vector: Vector | None) -> Iterator[Markup]:
    """Yield the expected refusal, or the wrong elements of each output, with operands."""
    expect, got = result["expect"], result.get("got", {})
    if "error" in expect:
        wanted = expect["error"]
        yield el("p", f"Expected: refused with {wanted['code']} on {wanted['field']}")
    for name, want in expect.get("outputs", {}).items():
        places = result["differs"].get(name, [])
        if not places:
            continue
        first = result["first"].get(name) or [
            {"index": i, "expected": _words(want)[i], "got": _words(got[name])[i]}
            for i in places[:ROWS]
        ]
        number = f"{len(places)}{' or more' * (len(places) == values.MOST)}"
        count = tensors.count(want["sizes"])
        yield el("h4", f"{name} {_head(want)}: {number} of {count} elements differ")
        yield table(
            ("element", "expected", "got"),
            (
                (
                    list(coordinates(each["index"], tuple(want["sizes"]))),
                    *(_number(want["dtype"], each[side]) for side in ("expected", "got")),
                )
                for each in first
            ),
        )
        for each in first[:EXPLAINED] if name == "OutputTensor" and vector is not None else ():
            index, sizes = each["index"], tuple(want["sizes"])
            parts = operands.feeding(vector, sizes, index) if vector else {}
            shown = (_figure(f"{key} [{', '.join(x['axes'])}]", x) for key, x in parts.items())
            summary = el("summary", f"Operands of element {list(coordinates(index, sizes))}")
            yield el("details", summary, *shown) if parts else Markup("")


def _call(result: Json) -> Iterator[Markup]:
    """Yield the attributes or the desc, and the inputs."""
    given = {**result.get("attributes", {})}
    if "desc" in result:
        given["FeatureLevel"] = result["feature_level"]
        desc = json.dumps(result["desc"], indent=1)
        yield el("details", el("summary", "desc"), el("pre", desc))
    if given:
        yield el("p", ", ".join(f"{name} {json.dumps(value)}" for name, value in given.items()))
    inputs = (_figure(name, tensor) for name, tensor in result["inputs"].items())
    yield el("details", el("summary", "inputs"), *inputs)


def _head(tensor: Json) -> str:
    return f"{tensor['dtype']} {list(tensor['sizes'])}"


def _words(tensor: Json) -> Sequence[Any]:
    return next((tensor[key] for key in ("data", "bits") if key in tensor), ())


def _figure(name: str, tensor: Json) -> Markup:
    """Return a tensor with up to 256 elements, however they are written."""
    words = _words(tensor)
    if "recipe" in tensor and 0 < tensors.count(tensor["sizes"]) <= ELEMENTS:
        decoded = tensors.decode(tensor, name)
        words = next(iter(tensors.encode_words(decoded.dtype, decoded.words).values()))
    if not words or len(words) > ELEMENTS:
        return el("p", f"{name}: {_head(tensor)}")
    shown = [_number(tensor["dtype"], word) if word is not None else "pad" for word in words]
    if len(shown) == 1:
        return el("p", el("span", f"{name}: {_head(tensor)}: ", class_="muted"), shown[0])
    text = np.array(shown, object).reshape([size for size in tensor["sizes"] if size > 1])
    lines = np.array2string(
        text, formatter={"all": str}, max_line_width=110, threshold=ELEMENTS + 1
    )
    return el("figure", el("figcaption", f"{name}: {_head(tensor)}"), el("pre", lines))


def _number(dtype: str, word: Any) -> str:
    (own,) = tensors.decode_words({"dtype": dtype, "bits": [word], "data": [word]}, "")
    return compare.shown(dtype, own)


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

"""What the pages need from Sphinx: tables made from checked-in JSON, and a check of coverage."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

import dmlax

_ROOT = Path(__file__).parent.parent
_VECTORS = _ROOT / "conformance" / "vectors"
_RESULTS = _ROOT / "benchmarks" / "results"


class Vectors(SphinxDirective):
    """The vector files of one operator and the rules they test; without one, a line for each."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One table."""
        return self.parse_text_to_nodes(self._files() if self.arguments else self._operators())

    def _files(self) -> str:
        found = self._read(self.arguments[0])
        rows = [
            (f"`{name}`", len(each["vectors"]), " ".join(each["clauses"].values()))
            for name, each in found.items()
        ]
        return _table(("file", "vectors", "what they test"), rows)

    def _operators(self) -> str:
        rows = []
        for operator in sorted(each.name for each in _VECTORS.iterdir()):
            files = self._read(operator).values()
            vectors = [vector for file in files for vector in file["vectors"]]
            invalid = sum("error" in vector["expect"] for vector in vectors)
            name = f"[`{operator}`](operators/{operator}.md)"
            rows.append((name, len(files), len(vectors), invalid))
        rows.append(("all", *map(sum, zip(*(row[1:] for row in rows), strict=True))))
        return _table(("operator", "files", "vectors", "that break a rule"), rows)

    def _read(self, operator: str) -> dict[str, Any]:
        files = sorted((_VECTORS / operator).glob("*.json"))
        for file in files:
            self.env.note_dependency(file)
        return {file.name: json.loads(file.read_text(encoding="utf-8")) for file in files}


class BenchmarkResults(SphinxDirective):
    """Every file of benchmarks/results, as tables."""

    def run(self) -> list[nodes.Node]:
        """A heading and its tables for each file, or a line that says that there are none."""
        files = sorted(_RESULTS.glob("*.json"))
        if not files:
            return self.parse_text_to_nodes("No results are checked in yet.\n")
        return [node for file in files for node in self._file(file)]

    def _file(self, file: Path) -> Iterable[nodes.Node]:
        self.env.note_dependency(file)
        found = json.loads(file.read_text(encoding="utf-8"))
        facts = found.pop("environment", {})
        text = [f"## {file.stem}", ", ".join(f"{name} {value}" for name, value in facts.items())]
        for name, report in found.items():
            text += [f"### {name}", *map(_records, (report["targets"], report["rows"]))]
        return self.parse_text_to_nodes("\n\n".join(text) + "\n", allow_section_headings=True)


def _records(rows: Sequence[dict[str, Any]]) -> str:
    return _table(tuple(rows[0]), [tuple(row.values()) for row in rows]) if rows else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines) + "\n"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value).replace("|", "\\|")


def _check_coverage(app: Sphinx, env: Any) -> None:
    """Every public name has its place in these pages."""
    documented = set(env.domains.python_domain.objects)
    for name in dmlax.__all__:
        if f"dmlax.{name}" not in documented:
            logging.getLogger(__name__).warning("dmlax.%s is not documented", name)


def _close_examples(app: Sphinx, page: str, source: list[str]) -> None:
    """Drop the blank line that ends a doctest before its fence."""
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("vectors", Vectors)
    app.add_directive("benchmark-results", BenchmarkResults)
    app.connect("source-read", _close_examples)
    app.connect("env-check-consistency", _check_coverage)
    return {"parallel_read_safe": True}

"""One file of tools/benchmarks/results as tables, with its machine and versions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from stored import read, summary
from tables import table

_RESULTS = Path(__file__).parent.parent / "tools/benchmarks/results"


class BenchmarkResults(SphinxDirective):
    """The result file whose name begins with the argument."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The machine and the versions, its peaks, the means, the measurements."""
        (file,) = [path for path in _files() if path.name.startswith(self.arguments[0])]
        self.env.note_dependency(file)
        result = read(file)
        text = [f"`tools/benchmarks/results/{file.name}`: {_facts(result.pop('environment'))}."]
        for report in result.values():
            if "facts" in report:
                text.append(f"Measured beside it: {_facts(report['facts'])}.")
            text += [_records(summary(report["rows"])), _records(report["rows"])]
        return self.parse_text_to_nodes("\n\n".join(text) + "\n")


def _files() -> Sequence[Path]:
    return sorted(_RESULTS.glob("*.json"))


def _facts(environment: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in environment.items())


def _records(rows: Sequence[Mapping[str, object]]) -> str:
    return table(tuple(rows[0]), [tuple(row.values()) for row in rows]) if rows else ""


def _check_coverage(app: Sphinx, env: Any) -> None:
    """Warn about result files that no page shows."""
    shown = {Path(path).name for paths in env.dependencies.values() for path in paths}
    for file in _files():
        if file.name not in shown:
            logging.getLogger(__name__).warning("%s is on no page of benchmarks", file.name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the extension."""
    app.add_directive("benchmark-results", BenchmarkResults)
    app.connect("env-check-consistency", _check_coverage)
    return {"parallel_read_safe": True}

"""Tables made from data, and a check that the pages cover every public name."""

import itertools
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from tables import table as _table

import dmlax
from dmlax import calibration, directml, training
from dmlax._core.dispatch import PLATFORMS
from dmlax._descriptors.support import Support, Table
from dmlax._descriptors.tensors import INTRODUCED, REQUIRED, SIZES_COUNT, TENSOR_RULES
from dmlax._operators.registry import OPERATORS, SUPPORT
from dmlax.onnx.operators import rows as onnx_rows
from dmlax.onnx.operators.declined import DECLINED, EXPANDED

_NOT_IN_ONNX = {"SimplifiedLayerNormalization"}  # ONNX Runtime writes it without a domain
_ROOT = Path(__file__).parent.parent
_VECTORS = _ROOT / "conformance" / "vectors"


class Vectors(SphinxDirective):
    """Lists what an operator's vectors test, or counts the vectors of every operator."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One table."""
        return self.parse_text_to_nodes(self._clauses() if self.arguments else self._operators())

    def _clauses(self) -> str:
        texts: dict[str, str] = {}
        count: Counter[str] = Counter()
        for file in self._read(self.arguments[0]):
            texts |= file["clauses"]
            for vector in file["vectors"]:
                count.update(vector["clause"])
        rows = [(texts[clause], number) for clause, number in count.most_common()]
        return _table(("what they test", "vectors"), rows)

    def _operators(self) -> str:
        rows = []
        for operator in sorted(folder.name for folder in _VECTORS.iterdir()):
            files = self._read(operator)
            vectors = [vector for file in files for vector in file["vectors"]]
            invalid = sum("error" in vector["expect"] for vector in vectors)
            is_of_floats = operator.startswith("exact_")  # functions of `dmlax.reproducible`
            page = "exact_sequences" if is_of_floats else f"operators/{operator}"
            name = f"[`{operator}`]({page}.md)"
            rows.append((name, len(files), len(vectors), invalid))
        rows.append(("all", *map(sum, zip(*(row[1:] for row in rows), strict=True))))
        return _table(("operator", "files", "vectors", "invalid"), rows)

    def _read(self, operator: str) -> list[Any]:
        files = sorted((_VECTORS / operator).glob("*/*.json"))
        if not files:
            raise self.error(f"{operator} has no golden vectors")
        for file in files:
            self.env.note_dependency(file)
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]


class Operators(SphinxDirective):
    """All operators: dtypes, and implementations on each platform, preferred first."""

    def run(self) -> list[nodes.Node]:
        """One table."""
        rows = [
            (
                f"[`{row.name}`](operators/{row.name}.md)",
                row.dtypes,
                *(", ".join(row.implementations(platform)) for platform in PLATFORMS),
            )
            for row in OPERATORS
        ]
        return self.parse_text_to_nodes(_table(("operator", "dtypes", *PLATFORMS), rows))


class OnnxOperators(SphinxDirective):
    """The operators of `dmlax.onnx`, and the opsets in which the forms that it reads began."""

    def run(self) -> list[nodes.Node]:
        """One table."""
        forms: dict[tuple[str, str], list[int]] = {}
        for row in onnx_rows():
            forms.setdefault((row.domain, row.op), []).extend(row.versions)
        rows = [
            (f"`{op}`", domain or "ONNX", ", ".join(map(str, sorted(versions))))
            for (domain, op), versions in sorted(forms.items())
        ]
        return self.parse_text_to_nodes(_table(("operator", "domain", "forms since opset"), rows))


class DeclinedOnnxOperators(SphinxDirective):
    """The operators of ONNX that `dmlax.onnx` declines, by the reason, and their share."""

    def run(self) -> list[nodes.Node]:
        """A sentence and one table."""
        known = {row.op for row in onnx_rows() if not row.domain} - _NOT_IN_ONNX
        total = len(known | {"Constant", *EXPANDED} | DECLINED.keys())
        text = f"{total - len(DECLINED)} of ONNX's {total} operators are computed. The others are:"
        reasons: dict[str, list[str]] = {}
        for op, why in sorted(DECLINED.items()):
            reasons.setdefault(why, []).append(f"`{op}`")
        rows = [(", ".join(ops), why) for why, ops in reasons.items()]
        return self.parse_text_to_nodes(f"{text}\n\n{_table(('operators', 'why'), rows)}")


class Descriptors(SphinxDirective):
    """The classes of all descriptors; the first shows what they inherit."""

    def run(self) -> list[nodes.Node]:
        """One entry for each class."""
        first, *others = (f"dmlax.directml.{desc.__name__}" for desc in SUPPORT)
        entries = [f".. autoclass:: {first}\n   :inherited-members:"]
        entries += [f".. autoclass:: {name}" for name in others]
        text = "\n\n".join(entries)
        return self.parse_text_to_nodes(f"```{{eval-rst}}\n{text}\n```\n")


class Source(SphinxDirective):
    """Functions of the library, one a line: the file in `src/dmlax`, and the name."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """A line with the file, and its code, for each function."""
        blocks = []
        for line in self.content:
            file, name = line.split()
            code = f"```{{literalinclude}} /../src/dmlax/{file}\n:pyobject: {name}\n```"
            blocks.append(f"From `dmlax/{file}`:\n\n{code}")
        return self.parse_text_to_nodes("\n\n".join(blocks))


class SupportTables(SphinxDirective):
    """One operator's tables for each feature level, from the rows that validation reads."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """A line and a table for each feature level that changes something."""
        support = _support(self.arguments[0])
        return [node for table in support.tables for node in self._table(table)]

    def _table(self, table: Table) -> list[nodes.Node]:
        head = ("tensor", "kind", "dimension counts", "data types")
        patterns = any(row.dimensions for row in table.rows)
        rows = []
        for row in table.rows:
            counts = " to ".join(str(count) for count in sorted(set(row.dimension_counts)))
            types = ", ".join(map(str, row.data_types))
            pattern = (f"`{row.dimensions}`",) if patterns else ()
            rows.append((f"`{row.tensor}`", row.kind.lower(), *pattern, counts, types))
        if patterns:
            head = (*head[:2], "dimensions", *head[2:])
        title = f"From `{table.feature_level}` on:"
        return self.parse_text_to_nodes(f"{title}\n\n{_table(head, rows)}")


class Rules(SphinxDirective):
    """The rules of one operator's desc, or of every tensor, and the vectors that break them."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One table."""
        breaking = self._breaking()
        rows = [
            (f"`{name}`", sentence, _stated(page), code, breaking.get(name, 0))
            for name, sentence, page, code in self._rules()
        ]
        return self.parse_text_to_nodes(_table(("rule", "text", "source", "code", "vectors"), rows))

    def _rules(self) -> Iterable[tuple[str, str, str | None, str]]:
        if not self.arguments:
            rules = (INTRODUCED, REQUIRED, SIZES_COUNT, *TENSOR_RULES)
            return [(rule.name, rule.sentence, rule.page, rule.code) for rule in rules]
        tables = _support(self.arguments[0]).tables
        unique = {rule.name: rule for table in tables for rule in table.rules}
        return [(name, rule.sentence, rule.page, rule.code) for name, rule in unique.items()]

    def _breaking(self) -> Counter[str]:
        """The number of invalid vectors that name each rule."""
        count: Counter[str] = Counter()
        for file in sorted(_VECTORS.glob("*/*/*.json")):
            self.env.note_dependency(file)
            for vector in json.loads(file.read_text(encoding="utf-8"))["vectors"]:
                if "error" in vector["expect"]:
                    count.update(vector["clause"])
        return count


class Findings(SphinxDirective):
    """The table of findings, from the first comment of each script in `findings/`."""

    def run(self) -> list[nodes.Node]:
        """One table."""
        rows = []
        for file in sorted((_ROOT / "findings").glob("*.sh")):
            lines = file.read_text(encoding="utf-8").splitlines()[1:]
            top = itertools.takewhile(lambda line: line.startswith("# "), lines)
            cells = " ".join(line[2:] for line in top).split(" | ")
            if len(cells) > 1:
                self.env.note_dependency(file)
                rows.append((*cells, f"`{file.name}`"))
        head = ("runtime", "version", "operator", "what happens", "what is right", "script")
        return self.parse_text_to_nodes(_table(head, rows))


def _stated(page: str | None) -> str:
    """A link, unless the page is the operator's."""
    return "the operator's page" if page is None else f"[page]({page})" if page else "none"


def _support(operator: str) -> Support:
    return next(support for desc, support in SUPPORT.items() if desc.operator == operator)


def _check_coverage(app: Sphinx, env: Any) -> None:
    """Warn about public names that no page documents."""
    documented = set(env.domains.python_domain.objects)
    names = [f"dmlax.{name}" for name in dmlax.__all__]
    for module in (calibration, directml, training):
        names += [f"{module.__name__}.{name}" for name in module.__all__]
    for name in names:
        if name not in documented:
            logging.getLogger(__name__).warning("%s is not documented", name)


def _close_examples(app: Sphinx, page: str, source: list[str]) -> None:
    """Drop the blank line that ends a doctest before its fence."""
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


_LEVELS = """
## Feature levels

[`dmlax.directml`](../directml.md) accepts the tensors below. Rules of
[every tensor](../directml.md#rules-of-every-tensor), and what DirectML's pages
[leave open in every operator](../directml.md#what-the-pages-leave-open), are on its page.
"""


def _add_tables(app: Sphinx, page: str, source: list[str]) -> None:
    """End an operator's page with the tables of its descriptors and of its golden vectors."""
    for row in OPERATORS:
        if page == f"operators/{row.name}":
            names = [support.desc.operator for support in row.supports]
            parts = [_LEVELS] if names else []
            for name in names:
                tables = f"```{{support}} {name}\n```\n\n```{{rules}} {name}\n```"
                parts.append(f"A `{name}OperatorDesc` and its rules:\n\n{tables}")
            parts += [f"## Golden vectors\n\n```{{vectors}} {row.name}\n```"]
            source[0] += "\n\n".join(parts) + "\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the directives."""
    app.add_directive("vectors", Vectors)
    app.add_directive("operators", Operators)
    app.add_directive("onnx_operators", OnnxOperators)
    app.add_directive("declined_onnx_operators", DeclinedOnnxOperators)
    app.add_directive("descriptors", Descriptors)
    app.add_directive("support", SupportTables)
    app.add_directive("rules", Rules)
    app.add_directive("findings", Findings)
    app.add_directive("source", Source)
    app.connect("source-read", _add_tables)
    app.connect("source-read", _close_examples)
    app.connect("env-check-consistency", _check_coverage)
    return {"parallel_read_safe": True}

"""Markdown tables, for the directives."""

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table whose columns of numbers are aligned to the right."""
    columns = zip(*rows, strict=True) if rows else [()] * len(head)
    dashes = ["---" if any(isinstance(x, str) for x in column) else "--:" for column in columns]
    lines = [head, dashes, *rows]
    return "\n".join("| " + " | ".join(map(_entry, line)) + " |" for line in lines) + "\n"


def _entry(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}"
    text = str(value).replace("|", "\\|")
    return text if "`" in text else text.replace("<", "&lt;").replace("*", "\\*")

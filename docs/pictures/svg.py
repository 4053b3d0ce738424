"""Writes a matplotlib figure as a small SVG file: text as text, coordinates of two decimals."""

import io
import re
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

_FONT = "text{font-family:'DejaVu Sans',Verdana,Arial,sans-serif}"
_EDITS = (  # edits of matplotlib's text: a pattern, and its replacement
    (r"<!DOCTYPE[^>]*>|<!--.*?-->", ""),
    (r"(?<=>)\s+(?=<)", ""),
    (r"(?<=[\d z]) ?\n", " "),
    (r'font-family: [^;"]*;? ?', ""),
    (r' transform="rotate\(-0 [^"]*"', ""),
    (r'<g id="[^"]*"/>', ""),
    (r'<g id="[^"]*">', "\n<g>"),
    (r"(\.\d\d)\d+(?=[^<>]*>)", r"\1"),
    (r"</style>", f"{_FONT}</style>"),
)


def save(figure: Figure, path: Path) -> None:
    """Equal figures give equal files."""
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        figure.savefig(
            buffer, format="svg", facecolor="white", bbox_inches="tight", metadata=nothing
        )
    text = buffer.getvalue()
    for pattern, replacement in _EDITS:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    path.write_text(text + "\n", encoding="utf-8")

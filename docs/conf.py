"""How Sphinx builds these pages; `nox -s docs` runs it."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

project = "dmlax"
version = release = version_of("dmlax")
html_title = f"dmlax {version}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "directives",
    "scoreboard_directive",
]
exclude_patterns = ["examples", "pictures"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["code.css"]
html_copy_source = False
html_show_copyright = False
pygments_style = "friendly"

smartquotes_action = "D"  # dashes, but no quotes: "exact" is code
default_role = "literal"  # docstrings write `code` as Markdown does
autodoc_typehints = "none"  # they say types in words
autodoc_member_order = "bysource"
napoleon_custom_sections = ["DirectML", "Lowering"]
myst_heading_anchors = 3

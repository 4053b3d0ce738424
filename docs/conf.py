"""Sphinx's configuration; `nox -s docs` builds the pages."""

import sys
from importlib import import_module
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "tools/packaging"), str(HERE.parent / "tools/benchmarks")]

project = "dmlax"
version = release = version_of("dmlax")
html_title = f"dmlax {version}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "benchmark_directive",
    "directives",
    "signatures",
]
exclude_patterns = ["examples", "pictures", "upstream"]  # upstream: for maintainers elsewhere
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_copy_source = False
html_show_copyright = False
pygments_style = "friendly"

smartquotes_action = "D"  # dashes, but no quotes: "exact" is code
default_role = "literal"  # docstrings write `code` as Markdown does
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 72
python_display_short_literal_types = True
napoleon_attr_annotations = False
napoleon_custom_sections = ["DirectML", "Lowering"]

myst_heading_anchors = 3
myst_enable_extensions = ["substitution"]
_address = import_module("repository").repository(HERE)
myst_substitutions = {
    "repository": f"[repository]({_address})" if _address else "repository",
}

# A copy has no prompts and no output; output blocks ("text") have no button.
copybutton_selector = "div.highlight:not(.highlight-text *) pre"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

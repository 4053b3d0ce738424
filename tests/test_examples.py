"""The pages and docstrings, run as a reader would run them."""

import doctest
import inspect
import re
from pathlib import Path

import jax
import pytest

import dmlax
from dmlax import directml
from support import DOCTEST, NATIVE, needs_kernels, run_page

pytestmark = pytest.mark.usefixtures("readers_jax")
ROOT = Path(__file__).parent.parent
PROMPT = re.compile(r"^ *>>> ", re.MULTILINE)

PAGES = ["README.md", *(f"docs/{name}.md" for name in ("errors", "explain", "directml"))]
PAGES += [
    f"docs/{name}.md" for name in ("choosing_size", "exactness", "requantization", "saving", "x64")
]
PAGES += [f"docs/{name}.md" for name in ("onnx", "onnx_files")]
PAGES += [f"docs/{name}.md" for name in ("calibration", "quantization", "training")]
PAGES += [f"docs/migrating_from_{origin}.md" for origin in ("onnx", "directml")]
PAGES += sorted(
    page.relative_to(ROOT).as_posix()
    for page in (ROOT / "docs/operators").glob("*.md")
    if PROMPT.search(page.read_text())
)


EXPORTS = ("docs/saving.md",)  # a program with kernels


def marks_of(page, is_slow):
    """The marks of a page: an export has kernels."""
    return [*[needs_kernels] * (page in EXPORTS), *[pytest.mark.slow] * bool(is_slow)]


@pytest.mark.parametrize(
    ("page", "x64"),
    [
        pytest.param(page, x64, marks=marks_of(page, x64 and i % 3))
        for i, page in enumerate(PAGES)
        for x64 in (False, True)
    ],
)
def test_a_page_shows_what_happens(page, x64):
    with jax.enable_x64(x64):
        run_page(ROOT / page)


@pytest.mark.parametrize("module", [dmlax, directml], ids=lambda module: module.__name__)
def test_docstrings_show_what_happens_where_jax_has_64_bit_types(module):
    """Without them `--doctest-modules` runs these."""
    runner, finder = (
        doctest.DocTestRunner(optionflags=DOCTEST),
        doctest.DocTestFinder(recurse=False),
    )
    functions = [
        value
        for name in module.__all__
        if inspect.isfunction(value := vars(module)[name]) and (NATIVE or name != "export")
    ]
    with jax.enable_x64(True):
        for function in functions:
            for test in finder.find(function, globs={}):
                runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
    assert runner.tries > 4


def test_every_page_with_examples_is_run():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {page.relative_to(ROOT).as_posix() for page in pages if PROMPT.search(page.read_text())}
    assert shown == {*PAGES, "docs/integrations.md"}  # tests/test_integrations.py

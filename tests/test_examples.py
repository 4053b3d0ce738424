"""The examples of the documentation, run as a reader would run them."""

import doctest
import importlib.util
import inspect
from pathlib import Path

import jax
import pytest

import dmlax
from dmlax import directml
from support import DOCTEST, run_page

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def readers_jax():
    """A reader has JAX's own type promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(autouse=True)
def beside_each_other(monkeypatch):
    """An example imports what lies beside it."""
    monkeypatch.syspath_prepend(ROOT / "docs/examples")


def example(name):
    """An example's `main`."""
    specification = importlib.util.spec_from_file_location(name, ROOT / f"docs/examples/{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.main


def test_digits_in_8_bits_are_read_as_well_as_in_float(tmp_path):
    picture = tmp_path / "digits.png"
    record = example("digits_int8")(["--steps", "100", "--output", str(picture)])
    assert record.float_accuracy > 0.95
    assert abs(record.float_accuracy - record.int8_accuracy) <= 0.01
    assert record.agreement > 0.98
    assert record.vmapped_equal
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_blocks_in_8_bits_read_digits_as_well_as_in_float(tmp_path):
    picture = tmp_path / "blocks.png"
    records = example("blocks_int8")(["--output", str(picture)])
    assert list(records) == ["transformer", "inverted residual"]
    for record in records.values():
        assert record.float_accuracy > 0.92
        assert abs(record.float_accuracy - record.int8_accuracy) <= 0.01
        assert record.agreement > 0.98
        assert record.vmapped_equal
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_sparse_events_gather_what_the_dense_model_sums():
    record = example("sparse_events")()
    assert 0 < record.active < record.pixels // 20
    assert record.equal
    assert record.dropped == record.active - 1000
    assert record.safe_equal
    assert record.vmapped_equal


PAGES = ["README.md", *(f"docs/{name}.md" for name in ("index", "errors", "explain", "directml"))]
PAGES += [f"docs/{name}.md" for name in ("choosing_size", "onnx", "saving", "x64")]
PAGES += [f"docs/migrating_from_{origin}.md" for origin in ("onnx", "directml")]
PAGES += sorted(
    page.relative_to(ROOT).as_posix()
    for page in (ROOT / "docs/operators").glob("*.md")
    if ">>> " in page.read_text()
)


x64_off_and_on = pytest.mark.parametrize("x64", [False, True], ids=["x64 off", "x64 on"])


@x64_off_and_on
@pytest.mark.parametrize("page", PAGES)
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
        value for name in module.__all__ if inspect.isfunction(value := vars(module)[name])
    ]
    with jax.enable_x64(True):
        for function in functions:
            for test in finder.find(function, globs={}):
                runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
    assert runner.tries > 4


def test_every_page_with_examples_is_run():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {page.relative_to(ROOT).as_posix() for page in pages if ">>> " in page.read_text()}
    assert shown == {*PAGES, "docs/integrations.md"}  # tests/test_integrations.py

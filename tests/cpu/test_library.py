"""The native library: loaded, or absent with a reason."""

import ctypes
import functools
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxlib.version
import pytest

import dmlax
from dmlax._cpu import library
from support.instruction_sets import NAMES

pytestmark = pytest.mark.oldest


@pytest.fixture
def fresh():
    library._loaded.cache_clear()
    yield
    library._loaded.cache_clear()


def test_it_is_there_where_it_has_to_be():
    if os.environ.get("DMLAX_REQUIRE_NATIVE"):
        assert library.why_not("cpu") is None


def test_it_is_loaded_or_says_why_not():
    why = library.why_not("cpu")
    assert (library.instruction_set() in NAMES) == (why is None)
    reasons = ("no C++ compiler", "they need GCC", "they were turned off", "the C++ compiler")
    assert why is None or why.startswith((*reasons, "the native library"))


@pytest.mark.parametrize("platform", ["METAL", "cuda", "tpu"])
def test_it_runs_on_no_other_platform(platform):
    assert library.why_not(platform) == "it runs on cpu only"


def test_a_package_without_a_library_says_so(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(dmlax, "__path__", [str(tmp_path)])
    why = "the native library was not built: dmlax runs from its source"
    assert library.why_not("cpu") == why


def test_the_reason_of_the_build_is_what_explain_says(fresh, monkeypatch, tmp_path):
    why = "no C++ compiler was found when dmlax was installed"
    (tmp_path / "_native_absent.txt").write_text(f"{why}\n", encoding="utf-8")
    monkeypatch.setattr(dmlax, "__path__", [str(tmp_path)])
    found = dmlax.explain(dmlax.nonzero_coordinates, jnp.zeros(3))
    assert found.choices[0].implementation == "xla"
    assert found.choices[0].why_not["native_cpu"] == why


class Library:
    """A library's functions, which say this of it."""

    def __init__(self, built_with, chosen="avx2"):
        said = {"jaxlib_version": built_with, "isa": chosen, "isas": "portable, avx2"}
        for name, text in said.items():
            setattr(self, f"dmlax_{name}", functools.partial(text.encode))
        for name in library.TARGETS:
            setattr(self, name.removesuffix("_v1"), name)


@pytest.fixture
def load(fresh, monkeypatch):
    """Puts a library there, and gives the names that are registered when it is loaded."""
    registered = []
    monkeypatch.setattr(library, "_find", lambda: Path("library"))
    monkeypatch.setattr(jax.ffi, "pycapsule", lambda function: function)
    monkeypatch.setattr(
        jax.ffi,
        "register_ffi_target",
        lambda name, function, platform: registered.append((name, function, platform)),
    )

    def put(found):
        monkeypatch.setattr(ctypes, "CDLL", lambda path: found)
        return registered

    return put


def test_every_kernel_of_a_library_is_registered(load):
    registered = load(Library(jaxlib.version.__version__))
    assert library.why_not("cpu") is None
    assert library.instruction_set() == "avx2"
    assert library.instruction_sets() == ("portable", "avx2")
    assert registered == [(name, name, "cpu") for name in library.TARGETS]


@pytest.mark.parametrize(
    ("built_with", "installed", "loads"),
    [
        ("0.10.2", "0.10.2", True),
        ("0.10.2", "0.10.3", True),
        ("0.9.10", "0.10.0", True),
        ("0.10.2.dev20260101", "0.10.2", True),
        ("0.10.2", "0.10.1", False),
        ("0.10.2", "0.9.9", False),
        ("1.0.0", "0.99.99", False),
    ],
)
def test_a_newer_jaxlib_takes_what_an_older_one_built(
    load, monkeypatch, built_with, installed, loads
):
    monkeypatch.setattr(jaxlib.version, "__version__", installed)
    registered = load(Library(built_with))
    why = f"the native library was built with jaxlib {built_with}, newer than the installed "
    assert library.why_not("cpu") == (None if loads else why + installed)
    assert bool(registered) == bool(library.instruction_sets()) == loads


def test_an_instruction_set_that_the_machine_lacks_is_refused(load):
    assert not load(Library(jaxlib.version.__version__, chosen=""))
    why = "DMLAX_NATIVE_ISA names none of what this machine has: portable, avx2"
    assert library.why_not("cpu") == why


def test_what_is_no_library_is_not_loaded(fresh, monkeypatch, tmp_path):
    (tmp_path / "_native.so").write_bytes(b"no library")
    monkeypatch.setattr(dmlax, "__path__", [str(tmp_path)])
    assert library.why_not("cpu").startswith("the native library does not load: ")


def test_headers_newer_than_jaxlib_are_refused(fresh, monkeypatch):
    if library.why_not("cpu") is not None:
        pytest.skip(library.why_not("cpu"))
    library._loaded.cache_clear()
    monkeypatch.setattr(library.jaxlib.version, "__version__", "0.1.2")
    assert library.why_not("cpu").endswith("newer than the installed 0.1.2")


def test_a_named_kernel_that_is_absent_raises(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(dmlax, "__path__", [str(tmp_path)])
    with pytest.raises(dmlax.UnsupportedError, match="native_cpu cannot run here: the native lib"):
        dmlax.nonzero_coordinates(jnp.zeros(17), implementation="native_cpu")

"""The native library: loaded, or absent with a reason."""

import os

import jax.numpy as jnp
import pytest

import dmlax
from dmlax._core import native

NAMES = {"portable", "avx2", "avx_vnni", "avx512_vnni", "amx_int8"}


@pytest.fixture
def fresh():
    native._loaded.cache_clear()
    yield
    native._loaded.cache_clear()


def test_it_is_there_where_it_has_to_be():
    if os.environ.get("DMLAX_REQUIRE_NATIVE"):
        assert native.why_not("cpu") is None


def test_it_is_loaded_or_says_why_not():
    why = native.why_not("cpu")
    assert (native.instruction_set() in NAMES) == (why is None)
    assert why is None or why.startswith(("no C++ compiler", "they need GCC", "the native library"))


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_it_runs_on_no_other_platform(platform):
    assert native.why_not(platform) == "it runs on cpu only"


def test_a_package_without_a_library_says_so(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(dmlax, "__path__", [str(tmp_path)])
    why = "the native library was not built: dmlax runs from its source"
    assert native.why_not("cpu") == why


def test_the_reason_of_the_build_is_what_explain_says(fresh, monkeypatch, tmp_path):
    why = "no C++ compiler was found when dmlax was installed"
    (tmp_path / "_native_absent.txt").write_text(f"{why}\n", encoding="utf-8")
    monkeypatch.setattr(dmlax, "__path__", [str(tmp_path)])
    found = dmlax.explain(dmlax.nonzero_coordinates, jnp.zeros(3))
    assert found.choices[0].implementation == "xla"
    assert found.choices[0].why_not["native_cpu"] == why


def test_what_is_no_library_is_not_loaded(fresh, monkeypatch, tmp_path):
    (tmp_path / "_native.so").write_bytes(b"no library")
    monkeypatch.setattr(dmlax, "__path__", [str(tmp_path)])
    assert native.why_not("cpu").startswith("the native library does not load: ")


def test_headers_newer_than_jaxlib_are_refused(fresh, monkeypatch):
    if native.why_not("cpu") is not None:
        pytest.skip(native.why_not("cpu"))
    native._loaded.cache_clear()
    monkeypatch.setattr(native.jaxlib.version, "__version__", "0.1.2")
    assert native.why_not("cpu").endswith("newer than the installed 0.1.2")


def test_a_named_kernel_that_is_absent_raises(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(dmlax, "__path__", [str(tmp_path)])
    with pytest.raises(dmlax.UnsupportedError, match="native_cpu cannot run here: the native lib"):
        dmlax.nonzero_coordinates(jnp.zeros(17), implementation="native_cpu")

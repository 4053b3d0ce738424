"""Who may import what, and what importing does."""

import ast
import os
import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

import dmlax
import dmlax_conformance

SOURCE = Path(dmlax.__file__).parent
SUITE = Path(dmlax_conformance.__file__).parent
UNSTABLE = r"jax\.(?:_src|experimental|extend|interpreters)"


def files(root):
    found = sorted(root.rglob("*.py"))
    assert len(found) > 10
    return found


def imports(file):
    """The modules that a file imports, absolute."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module


def test_what_jax_may_change_is_touched_in_one_file_and_where_kernels_are_framed():
    found = {
        f.relative_to(SOURCE).as_posix()
        for f in files(SOURCE)
        if re.search(UNSTABLE, f.read_text())
    }
    assert found == {"_core/compat.py", "_cuda/ir.py", "_cuda/launch.py"}


def test_the_library_imports_jax_and_numpy_and_the_standard_library_only():
    allowed = {"dmlax", "jax", "numpy", *sys.stdlib_module_names}
    for file in files(SOURCE):
        # MLIR, and the version whose headers a kernel was built with; both come with JAX.
        also = {"jaxlib"} if file.name in ("ir.py", "native.py") else set()
        assert {name.split(".")[0] for name in imports(file)} <= allowed | also, file


def test_the_distribution_depends_on_jax_and_numpy_only():
    needed = [line for line in requires("dmlax") if "extra ==" not in line]
    assert {re.match(r"[\w-]+", line)[0] for line in needed} == {"jax", "numpy"}


def test_the_suite_imports_neither_jax_nor_dmlax():
    for file in files(SUITE):
        roots = {name.split(".")[0] for name in imports(file)}
        assert not roots & {"jax", "jaxlib", "dmlax"}, file


def test_the_suite_names_them_in_its_adapters_only():
    dynamic = re.compile(r"import_module\(\s*\"(jax|dmlax)\"")
    found = {f.relative_to(SUITE).as_posix() for f in files(SUITE) if dynamic.search(f.read_text())}
    assert found == {"adapters/dmlax.py", "adapters/jnp.py"}


ROOMS = ["_nonzero", "_convolution", "_elementwise"]


@pytest.mark.parametrize("room", ROOMS)
def test_an_operators_room_imports_no_other_room(room):
    others = {f"dmlax.{other}" for other in ROOMS if other != room}
    for file in (SOURCE / room).rglob("*.py"):
        assert not {".".join(name.split(".")[:2]) for name in imports(file)} & others, file


@pytest.mark.parametrize("shared", ["_core", "_cuda"])
def test_what_is_shared_imports_no_operator(shared):
    for file in (SOURCE / shared).glob("*.py"):
        assert not any(name.startswith(f"dmlax.{room}") for name in imports(file) for room in ROOMS)


def test_directml_stands_on_the_public_api():
    """It imports what users may, what is shared and itself, but no operator's room."""
    found = {
        ".".join(name.split(".")[:2])
        for file in (SOURCE / "directml").glob("*.py")
        for name in imports(file)
        if name.split(".")[0] == "dmlax"
    }
    assert found <= {"dmlax", "dmlax.errors", "dmlax.directml", "dmlax._core"}


def test_only_the_package_imports_directml():
    for file in files(SOURCE):
        if file.parent.name != "directml" and file != SOURCE / "__init__.py":
            assert not any(re.match(r"dmlax\.directml\b", name) for name in imports(file)), file
            assert not re.search(r"from dmlax import .*\bdirectml\b", file.read_text()), file


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_the_same_furniture(room):
    assert {"api.py", "plan.py", "reference.py", "xla.py"} <= {
        file.name for file in (SOURCE / room).glob("*.py")
    }


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


def test_importing_prints_nothing_and_starts_no_backend():
    """With a platform that does not exist, only what needs a backend fails."""
    nowhere = {"JAX_PLATFORMS": "nowhere"}
    done = python("import dmlax", **nowhere)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert python("import jax; jax.devices()", **nowhere).returncode != 0


def test_the_former_name_of_directml_says_where_it_went():
    done = python("import dmlax; dmlax.directml; import dmlax.spec")
    assert done.stderr.splitlines()[-1] == "ImportError: dmlax.spec is now dmlax.directml"


def test_importing_brings_no_pallas_and_needs_no_absl():
    code = "import sys; sys.modules['absl'] = None; import dmlax; print(*sys.modules, sep='\\n')"
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert not [name for name in done.stdout.split() if name.startswith("jax.experimental.pallas")]

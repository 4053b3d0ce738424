"""Imports: which file may import which, and the effects of importing dmlax."""

import ast
import graphlib
import os
import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

import dmlax
import dmlax_conformance
from dmlax._operators.registry import OPERATORS

SOURCE = Path(dmlax.__file__).parent
SUITE = Path(dmlax_conformance.__file__).parent
UNSTABLE = r"jax\.(?:_src|experimental|extend|interpreters)"
PRIVATE = r"jax\.(?:_src|experimental)"


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


def test_what_jax_may_change_is_touched_where_design_says():
    def found(pattern):
        texts = {name_of(file): file.read_text() for file in files(SOURCE)}
        return {name for name, text in texts.items() if re.search(pattern, text)}

    private = {"_core/compat.py", "_core/splitting.py", "_cuda/ir.py", "_cuda/launch.py"}
    assert found(PRIVATE) == private
    assert found(UNSTABLE) == private | {"_core/choice.py", "_core/labels.py"}


EXTRAS = {  # what the extras `onnx` and `compare` install; imported where it is used
    "onnx/backend.py": {"onnx"},
    "onnx/protobuf.py": {"onnx"},
    "onnx/export/__init__.py": {"onnx"},
    "onnx/export/primitives.py": {"onnx"},
    "onnx/export/writer.py": {"onnx"},
    "litert/peer.py": {"ai_edge_litert", "flatbuffers"},
    "onnx/peer.py": {"onnx", "onnxruntime"},
    "quantization/report.py": {"matplotlib"},
}


def test_the_library_imports_jax_and_numpy_and_the_standard_library_only():
    allowed = {"dmlax", "jax", "numpy", *sys.stdlib_module_names}
    for file in files(SOURCE):
        # MLIR, and the version whose headers a kernel was built with; both come with JAX.
        also = {"jaxlib"} if file.name in ("ir.py", "library.py") else set()
        also |= EXTRAS.get(name_of(file), set())
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
    assert found == {"adapters/dmlax.py", "adapters/jnp.py", "adapters/models/dmlax.py"}


ROOMS = sorted(path.parent.name for path in SOURCE.glob("_operators/*/api.py"))
LAYERS = {  # a file imports those of lower layers, and those of its own room
    "errors.py": 0,
    "_core": 1,
    "_cpu": 2,
    "_cuda": 2,
    "_descriptors": 3,
    "_compile.py": 3,
    "_operators": 4,
    "_fused": 5,
    "training": 6,
    "reproducible.py": 6,
    "_operators/registry.py": 7,
    "_explain.py": 8,
    "_export.py": 8,
    "directml": 8,
    "calibration": 9,
    "__init__.py": 9,
    "__main__.py": 9,
    "quantization": 10,
    "onnx": 10,
    "litert": 11,
}
ROOMED = ("_operators", "_fused")
BUILDS_ON = {  # the rooms of its own layer that a room imports
    "_operators/convolution_add": {"_operators/convolution"},
    "_fused/attention": {"_fused/softmax"},
    "_fused/layer_normalization": {"_fused/rows"},
    "_fused/self_attention": {"_fused/attention", "_fused/softmax"},
}
# Higher layers and `onnx` import these files of a package.
CALLED = ("api.py", "call.py", "plan.py")


def name_of(file):
    return file.relative_to(SOURCE).as_posix()


def layer(file):
    """Rule of the file's own entry, else its folder's."""
    name = name_of(file)
    return LAYERS[name if name in LAYERS else name.split("/")[0]]


def own_imports(file):
    """The files of dmlax that a file imports; `import dmlax` alone is for where it lies."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "dmlax":
            folder = SOURCE.joinpath(*node.module.split(".")[1:])
            module = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
            for alias in node.names:
                beside = [folder / f"{alias.name}.py", folder / alias.name / "__init__.py"]
                yield next(filter(Path.exists, beside), module)


def test_no_state_hangs_on_the_number_of_an_object():
    """A number is used again once its object is gone; the map of `identity.py` keeps its keys."""
    asking = {name_of(file) for file in files(SOURCE) if re.search(r"\bid\(", file.read_text())}
    assert asking == {"onnx/identity.py"}


def test_every_import_of_a_file_of_dmlax_is_read():
    """The tests below see all of them: none is of the form `import dmlax.module`."""
    for file in files(SOURCE):
        assert all(found.exists() for found in own_imports(file)), file
        assert not re.search(r"^\s*import dmlax\.", file.read_text(), re.MULTILINE), file
    assert SOURCE / "_core/dispatch.py" in own_imports(SOURCE / "_explain.py")
    assert SOURCE / "directml/__init__.py" in own_imports(SOURCE / "__init__.py")


def room(file):
    """The folder that a file belongs to: `_operators/matmul`, `_core`, `onnx`, ..."""
    parts = file.relative_to(SOURCE).parts
    return "/".join(parts[: 2 if parts[0] in ROOMED and len(parts) > 2 else 1])


def test_cpp_includes_its_own_room_and_the_engine_only():
    for file in SOURCE.rglob("*"):
        if file.suffix in (".cc", ".h", ".def"):
            text = file.read_text(encoding="utf-8")
            included = {room(SOURCE / name) for name in re.findall(r'#include "dmlax/(.+)"', text)}
            assert included <= {room(file), "_cpu"}, file


def room_of(row):
    """The package of an operator's function."""
    return row.function.__module__.rpartition(".")[0]


def test_there_is_a_room_for_each_family_of_operators():
    assert {"add_multiply", "convolution", "quantize", "byte_lookup", "nonzero"} <= set(ROOMS)
    assert {room_of(row) for row in OPERATORS} == {f"dmlax._operators.{each}" for each in ROOMS}
    described = {room_of(row).rpartition(".")[2] for row in OPERATORS if row.directml}
    assert described == {file.parent.name for file in SOURCE.glob("_operators/*/directml.py")}


@pytest.mark.parametrize("name", ROOMS)
def test_every_room_has_the_same_files(name):
    needed = {"api.py", "plan.py", "reference.py", "xla.py"}
    assert needed <= {file.name for file in (SOURCE / "_operators" / name).glob("*.py")}


def test_arrows_go_one_way():
    """A file imports lower layers, its own room, and the rooms that this one builds on."""
    for file in files(SOURCE):
        for found in own_imports(file):
            beside = {room(file), *BUILDS_ON.get(room(file), ())}
            own = layer(found) == layer(file) and room(found) in beside
            assert layer(found) < layer(file) or own, (name_of(file), name_of(found))


def test_every_room_builds_on_what_the_table_says():
    arrows = {(room(f), room(found)) for f in files(SOURCE) for found in own_imports(f)}
    for name, needed in BUILDS_ON.items():
        beside = {
            to for start, to in arrows if start == name and to.split("/")[0] == name.split("/")[0]
        }
        assert beside - {name} == needed


def test_onnx_calls_operators_and_assembles_no_kernel():
    """`dmlax.onnx` imports no engine, and no lowering of a package."""
    for file in (SOURCE / "onnx").rglob("*.py"):
        for imported in own_imports(file):
            package = room(imported)
            assert package not in ("_cpu", "_cuda"), file
            if "/" in package:
                assert imported.name in CALLED, (name_of(file), name_of(imported))


def test_no_file_imports_itself_by_way_of_others():
    graph = {file: set(own_imports(file)) for file in files(SOURCE)}
    assert set(graph) == set(graphlib.TopologicalSorter(graph).static_order())


def test_only_a_rooms_directml_file_imports_directml():
    shared = [SOURCE / "_descriptors", SOURCE / "directml"]
    above = ["__init__.py", "_operators/registry.py"]
    above += [f"_operators/{each}/directml.py" for each in ROOMS]
    for file in files(SOURCE):
        if file.parent not in shared and name_of(file) not in above:
            assert not set(shared) & {found.parent for found in own_imports(file)}, file


def test_a_rooms_directml_file_calls_the_rooms_public_functions():
    """A descriptor imports `api` alone of its room: it runs what a user's call would."""
    for file in SOURCE.glob("_operators/*/directml.py"):
        own = {each for each in own_imports(file) if each.parent == file.parent}
        assert own == {file.with_name("api.py")}


def test_operators_are_named_in_their_rooms_and_the_list_only():
    """Exports and models name them too; `dmlax_...` names a kernel of the library."""
    spelled = [name for row in OPERATORS for name in (row.name, row.name.replace("_", ""))]
    names = re.compile(rf"(?<!dmlax_)(?:{'|'.join(spelled)})(?![a-z])", re.IGNORECASE)
    found = {room(f) for f in files(SOURCE) if names.search(without_docs(f))}
    fused = {"_fused/matmul_epilogue"}  # named after its first operator
    whole = {"__init__.py", "calibration", "litert", "onnx", "quantization", "training"}
    rooms = {f"_operators/{each}" for each in ROOMS}
    assert found == {"_operators", *whole, *fused, *rooms}


def without_docs(file):
    """A file's code, less its docstrings, whose examples call what they like."""
    tree, documented = ast.parse(file.read_text()), ast.Module | ast.ClassDef | ast.FunctionDef
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node):
            node.body[0] = ast.Pass()
    return ast.unparse(tree)


IMPORTING = """
import sys
sys.modules["absl"] = None
import dmlax
print("imported", *(name for name in sys.modules if name.startswith("jax.experimental.pallas")))
dmlax.directml
try:
    import jax
    jax.devices()
except RuntimeError:
    print("no backend")
"""


def test_importing_prints_nothing_starts_no_backend_and_needs_neither_pallas_nor_absl():
    """A platform that does not exist fails where a backend starts, and nowhere else."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORTING],
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "nowhere"},
        timeout=120,
        check=False,
    )
    printed = ["imported", "no backend"]
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, printed, "")

"""The suite stands alone: neither JAX nor the library under test is needed."""

import subprocess
import sys
from pathlib import Path

import dmlax_conformance

PROGRAM = """
import sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "jaxlib", "dmlax"):
            raise AssertionError(f"imports {name}")

sys.meta_path.insert(0, Forbidden())
from dmlax_conformance import cli, lint
from dmlax_conformance.generate import driver
import dmlax_conformance.adapters.dmlax
assert cli.main(["run", "--implementation", "oracle", "--operator", "convolution_integer"]) == 0
assert driver.files()
assert cli.main(["run", "--implementation", "dmlax"]) == 2
assert not {"jax", "jaxlib", "dmlax"} & sys.modules.keys()
"""


def test_neither_jax_nor_dmlax_is_imported() -> None:
    source = str(Path(dmlax_conformance.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env={"PYTHONPATH": source, "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

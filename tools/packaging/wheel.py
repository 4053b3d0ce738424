"""Builds the manylinux wheel of a processor, which needs no compiler where it is installed.

    python tools/packaging/wheel.py FOLDER [x86_64 | aarch64]

The kernels use no ABI of Python's, so a wheel serves every version. That of AArch64 is
cross-compiled by Debian's g++-aarch64-linux-gnu.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPILER = "aarch64-linux-gnu-g++"
AARCH64 = {
    "CMAKE_SYSTEM_NAME": "Linux",
    "CMAKE_SYSTEM_PROCESSOR": "aarch64",
    "CMAKE_CXX_COMPILER": COMPILER,
}


def build(folder: Path, processor: str) -> Path:
    """Builds the wheel into a folder, in place of an earlier one; returns its path."""
    environment = dict(os.environ)
    if processor != platform.machine():
        if not shutil.which(COMPILER):
            sys.exit(
                f"{processor}'s wheel needs {COMPILER}: Debian's package g++-aarch64-linux-gnu"
            )
        defined = [f"{name}={value}" for name, value in AARCH64.items()]
        inherited = filter(None, [environment.get("SKBUILD_CMAKE_DEFINE")])
        environment["SKBUILD_CMAKE_DEFINE"] = ";".join([*inherited, *defined])
        environment["_PYTHON_HOST_PLATFORM"] = f"linux-{processor}"  # names the wheel
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in folder.glob(f"dmlax-*_{processor}.whl"):
        earlier.unlink()
    with tempfile.TemporaryDirectory() as built:
        run("-m", "build", "--wheel", "--outdir", built, str(ROOT), environment=environment)
        (made,) = Path(built).glob(f"dmlax-*-py3-none-linux_{processor}.whl")
        run("-m", "auditwheel", "repair", "--wheel-dir", str(folder), str(made))
    (wheel,) = folder.glob(f"dmlax-*_{processor}.whl")
    return wheel


def run(*arguments: str, environment: dict[str, str] | None = None) -> None:
    """Runs a module of this Python; ends with its exit status where it fails."""
    done = subprocess.run([sys.executable, *arguments], env=environment, check=False)
    if done.returncode:
        sys.exit(done.returncode)


if __name__ == "__main__":
    _, target, *processors = sys.argv
    print(build(Path(target), *(processors or [platform.machine()])))

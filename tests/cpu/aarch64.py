"""The kernels for AArch64, cross-compiled and run by qemu-user on another processor.

    python tests/cpu/aarch64.py FOLDER REQUIREMENT... [--processor=max] [--program="near ties"]
    python tests/cpu/aarch64.py FOLDER --wheel=FILE

The second form installs a finished wheel alone, and runs README's example: `nox -s wheel` does so.

`nox -s aarch64` calls this on Debian. The folder keeps, from one run to the next, Python for arm64
from the machine's own package sources, and a wheel of every requirement, JAX among them. Root
installs the cross-compiler and qemu where they are missing. On each processor that qemu imitates,
the kernels choose their instruction set and get the golden vectors jitted, the golden models, 3,000
near ties and 200 random calls. The first one gets all vectors, the others those of products: they
share its other kernels.

XLA does not optimise its own code around the kernels, but for the near ties: under qemu that takes
ten times as long as the rest of a call.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TextIO

REPOSITORY = Path(__file__).parents[2]
COMPILER, OBJDUMP = "aarch64-linux-gnu-g++", "aarch64-linux-gnu-objdump"
QEMU = "qemu-aarch64-static"
PACKAGE_OF = {  # Debian's
    COMPILER: "g++-aarch64-linux-gnu",
    OBJDUMP: "binutils-aarch64-linux-gnu",
    QEMU: "qemu-user-static",
}
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")

AT_ONCE = 2  # processors; most of a program is Python on one thread
EVERY_KERNEL = "max"  # the sets differ in products alone, and share all other kernels: isas.def
OF_PRODUCTS = (  # the operators whose vectors the other processors get
    "convolution_integer",
    "quantized_linear_convolution",
    "quantized_linear_convolution_add",
    "matrix_multiply_integer",
    "quantized_linear_matrix_multiply",
    "matrix_multiply_integer_to_float",
)
INSTRUCTION_SETS = {  # what the kernels have to choose on each of qemu's processors
    "max": "neon_i8mm",
    "neoverse-n1": "neon_dotprod",
    "cortex-a72": "neon",
}
CHOSEN = """
import sys
import dmlax, jax.numpy as jnp
from dmlax._cpu import library
print(dmlax.explain(dmlax.nonzero_coordinates, jnp.zeros(3)))
print("instruction set:", library.instruction_set(), "of", *library.instruction_sets())
sys.exit(library.instruction_set() != sys.argv[1])
"""
MODELS = """
import sys
from itertools import product
from dmlax_conformance.adapters.models.dmlax import Dmlax
from dmlax_conformance.models import golden
from dmlax_conformance.models.adapter import ARITHMETICS
from dmlax_conformance.models.judge import judge
adapter = Dmlax()
models = map(golden.load, golden.paths(None))
cases = product(models, ARITHMETICS, adapter.variants)
verdicts = [judge(adapter, *case) for case in cases]
print(*(f"{each.key}: {each.verdict}" for each in verdicts), sep="\\n")
sys.exit(any(each.verdict in ("fail", "error") for each in verdicts))
"""
PYTEST = ("-m", "pytest", "-s", "-p", "no:cacheprovider")
VECTORS = "golden vectors"
NEAR_TIES = "test_adversarial_near_ties_through_the_convolution and auto and jit and 1000"
PROGRAMS = {  # the programs of Python for AArch64
    VECTORS: (
        *("-m", "dmlax_conformance", "run", "--variant=jit"),
        "--implementation=dmlax_conformance.adapters.dmlax:NativeCpu",
    ),
    "golden models": ("-c", MODELS),  # here, as qemu starts no process for the command
    "product loops": (*PYTEST, "tests/cpu/test_product_loops.py"),
    "near ties": (*PYTEST, "-m", "slow", "-k", NEAR_TIES, "tests/test_exactness.py"),
    "random calls": ("-m", "support.random_calls", "convolution", "native_cpu", "0", "200"),
}
OPTIMISED = ("near ties",)
NOT_OPTIMISED = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("requirements", nargs="*")
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--processor", action="append", choices=INSTRUCTION_SETS)
    parser.add_argument("--program", action="append", choices=PROGRAMS)
    given = parser.parse_args()
    folder = given.folder.resolve()
    install_missing()
    keep(folder / "root", unpack_debian)
    version = python_of(folder / "root").name.removeprefix("python")
    if given.wheel:
        try_wheel(folder, version, given.wheel.resolve())
        return
    keep(folder / "wheels", lambda target: install_wheels(target, version, given.requirements))
    build_package(folder)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        run_here = partial(run_all, folder, programs=given.program or [*PROGRAMS])
        texts = list(pool.map(run_here, given.processor or INSTRUCTION_SETS))
    print(*texts, sep="\n\n")


def install_missing() -> None:
    """Install what is missing, or end with its name."""
    if missing() and os.geteuid() == 0 and shutil.which("apt-get"):
        run("apt-get", "--quiet", "update")
        run("apt-get", "--quiet", "--yes", "install", *(PACKAGE_OF[name] for name in missing()))
    if missing():
        needs = ", ".join(f"{name} (Debian's package {PACKAGE_OF[name]})" for name in missing())
        sys.exit(f"missing: {needs}")


def missing() -> list[str]:
    """Return the programs and the file that are not here."""
    return [name for name in PACKAGE_OF if not shutil.which(name) and not Path(name).exists()]


def keep(folder: Path, make: Callable[[Path], None]) -> None:
    """Make a folder if an earlier run has not done it to the end."""
    if folder.exists():
        return
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    make(partial)
    partial.rename(folder)


def unpack_debian(root: Path) -> None:
    """Unpack Python for arm64 and all that it needs, from this machine's package sources."""
    state = root / "apt"
    (state / "lists" / "partial").mkdir(parents=True)
    (state / "archives" / "partial").mkdir(parents=True)
    (state / "status").touch()
    configuration = state / "apt.conf"
    configuration.write_text(
        f'Dir::State "{state}"; Dir::State::Lists "{state}/lists"; '
        f'Dir::State::Status "{state}/status"; Dir::Cache "{state}"; '
        'APT::Architecture "arm64"; APT::Architectures { "arm64"; }; '
        'APT::Install-Recommends "false"; APT::Sandbox::User "";\n',
        encoding="utf-8",
    )
    apart = {"APT_CONFIG": str(configuration)}
    run("apt-get", "--quiet", "update", env=apart)
    packages = ("python3", "libstdc++6")
    run("apt-get", "--quiet", "--yes", "--download-only", "install", *packages, env=apart)
    for package in sorted((state / "archives").glob("*.deb")):
        run("dpkg-deb", "--extract", str(package), str(root))
    shutil.rmtree(state)


def python_of(root: Path) -> Path:
    """Return the Python that was unpacked, whose name ends in its version."""
    (python,) = (root / "usr" / "bin").glob("python3.*[0-9]")
    return python


def install_wheels(
    target: Path, version: str, requirements: list[str], also: Sequence[str] = ()
) -> None:
    """Unpack the wheels for AArch64 and a version of Python, those of other platforms also."""
    platforms = [f"--platform={name}" for name in (*also, *(f"{x}_aarch64" for x in PLATFORMS))]
    options = ("--quiet", f"--python-version={version}", "--only-binary=:all:")
    command = (sys.executable, "-m", "pip", "install", f"--target={target}", *options)
    run(*command, *platforms, *requirements)


def build_package(folder: Path) -> None:
    """Build the wheel, and unpack it as pip would."""
    package, wheels = folder / "package", folder / "dist"
    defined = {"SKBUILD_CMAKE_DEFINE": "DMLAX_WARNINGS_AS_ERRORS=ON"}
    run(sys.executable, "tools/packaging/wheel.py", str(wheels), "aarch64", env=defined)
    (wheel,) = wheels.glob("*.whl")
    shutil.rmtree(package, ignore_errors=True)
    shutil.unpack_archive(wheel, package, "zip")


def try_wheel(folder: Path, version: str, wheel: Path) -> None:
    """Install a wheel and what it needs into an empty folder, and run README's example there."""
    alone, root = folder / "alone", folder / "root"
    shutil.rmtree(alone, ignore_errors=True)
    platforms = wheel.stem.rpartition("-")[2].split(".")
    install_wheels(alone, version, [str(wheel)], platforms)
    python = (QEMU, "-cpu", EVERY_KERNEL, "-L", str(root), str(python_of(root)))
    environment = {"PYTHONPATH": str(alone), "JAX_PLATFORMS": "cpu", **NOT_OPTIMISED}
    run(*python, "-m", "dmlax", env=environment)
    run(*python, "-c", CHOSEN, INSTRUCTION_SETS[EVERY_KERNEL], env=environment)
    run(*python, "-m", "doctest", "README.md", env=environment)


def run_all(folder: Path, processor: str, programs: list[str]) -> str:
    """Run the programs on one of qemu's processors; return what they print, and their minutes."""
    root, isa = folder / "root", INSTRUCTION_SETS[processor]
    qemu = (QEMU, "-cpu", processor, "-L", str(root))
    python = (*qemu, str(python_of(root)))
    paths = (folder / "package", folder / "wheels", "conformance/src", "tests")
    environment = {
        "DMLAX_REQUIRE_NATIVE": "1",
        "JAX_PLATFORMS": "cpu",
        "OBJDUMP": OBJDUMP,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
    }
    log, minutes = folder / f"{processor}.log", []
    with log.open("w", encoding="utf-8") as output:
        run(*python, "-c", CHOSEN, isa, env=environment, output=output)
        for name in programs:
            program = PROGRAMS[name]
            start = time.monotonic()
            flags = {} if name in OPTIMISED else NOT_OPTIMISED
            if name == VECTORS and processor != EVERY_KERNEL:
                program += tuple(f"--operator={each}" for each in OF_PRODUCTS)
            run(*python, *program, env=environment | flags, output=output)
            minutes.append(f"{name} {(time.monotonic() - start) / 60:.1f}")
    text = log.read_text(encoding="utf-8")
    return f"{text}{processor}, {isa}: passed; minutes: {', '.join(minutes)}"


def run(*command: str, env: dict[str, str] | None = None, output: TextIO | None = None) -> None:
    """Run a program in the repository; end with the command where it fails."""
    print("+", *command, flush=True)
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=os.environ | (env or {}),
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
        check=False,
    )
    if done.returncode != 0:
        printed = f"; its output is in {output.name}" if output else ""
        sys.exit(f"exit status {done.returncode}{printed}: {' '.join(command)}")


if __name__ == "__main__":
    main()

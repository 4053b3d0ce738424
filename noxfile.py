"""Every task of this repository; `nox -l` lists them."""

import functools
import os
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

import nox

nox.needs_version = ">=2025.2"
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # dozens of processes would compile JAX each
nox.options.default_venv_backend = "uv|virtualenv"  # uv installs in seconds where it is there
nox.options.sessions = ["lint", "types", "tests"]
nox.options.download_python = "auto"  # uv installs a Python that a session names
nox.options.error_on_missing_interpreters = True  # a session that cannot run fails

PYPROJECT = nox.project.load_toml("pyproject.toml")
NEWEST, OLDEST = "3.14", "3.11"  # Pythons; with the oldest the oldest supported JAX
OLDEST_JAX = ("jax==0.10.2", "jaxlib==0.10.2")
TWO_PROCESSES = ("--numprocesses=2", "--dist=worksteal")  # neighbours share what was compiled
COLLECT = ("--collect-only", "-qq")
ROTATION = {  # sessions that CI installs in turn, and arguments that end them soon
    "bench": ("--help",),
    "conformance": ("--operator=quantized_lookup",),
    "differential": ("25",),
    "fuzz_onnx": ("0.1",),
    "fuzz_litert": ("0.1",),
    "instruction_sets": COLLECT,
    "kill_rate": ("--operator=quantized_lookup",),
    "litert": ("25",),
    "lowering": COLLECT,
    "onnx_backend": ("relu",),
    "sdist": COLLECT,
    "slow": COLLECT,
    "tpu": COLLECT,
    "wheel": (platform.machine(),),
    "wild": ("--help",),
    "without_compiler": COLLECT,
}


@nox.session
def tests(session: nox.Session) -> None:
    """Run all tests on this Python and the newest JAX for it, warnings as errors.

    Doctests and the suite's tests are among them. Arguments are pytest's. `tests-3.12` and
    `tests-3.13` run them on the Python that they name.
    """
    _install(session, "test", "integrations")
    session.run("pytest", *TWO_PROCESSES, *session.posargs)


for _python in ("3.12", "3.13"):
    nox.session(tests.func, name=f"tests-{_python}", python=_python)


@nox.session(name=f"tests-{OLDEST}", python=OLDEST)
def tests_oldest(session: nox.Session) -> None:
    """Run the tests marked `oldest` on the oldest Python and JAX.

    Arguments are pytest's. With arguments the marker chooses nothing, so that
    `nox -s tests-3.11 -- tests/operators/byte_lookup` runs that folder.
    """
    _run_marked(session, OLDEST_JAX)


@nox.session(name=f"tests-{NEWEST}", python=NEWEST)
def tests_newest(session: nox.Session) -> None:
    """Run the tests marked `oldest` on the newest Python and JAX; arguments as for the oldest."""
    _run_marked(session)


@nox.session
def slow(session: nox.Session) -> None:
    """Run the long exactness tests, for more than ten minutes.

    Arguments are pytest's, and the names of files run a part.
    """
    _reuse_library(session)
    _install(session, "test", "integrations")
    session.run("pytest", "-m=slow", *TWO_PROCESSES, *session.posargs)


@nox.session
def without_compiler(session: nox.Session) -> None:
    """Install where no C++ compiler works, and run the tests with the kernels absent.

    It takes more than ten minutes. Arguments are pytest's, and the names of files run a part.
    """
    session.env["CXX"] = "/no/such/compiler"
    _install(session, "test", "integrations")
    reason = "import dmlax._cpu.library as n; print(n.why_not('cpu')); assert n.why_not('cpu')"
    session.run("python", "-c", reason)
    session.run("pytest", *TWO_PROCESSES, *session.posargs)


@nox.session
def instruction_sets(session: nox.Session) -> None:
    """Give the golden vectors and the near ties to the kernels of every instruction set here.

    It also runs the long tests of the kernels, and takes some five minutes for each set. With
    arguments, which are pytest's, it runs nothing but these tests.
    """
    _reuse_library(session)
    _install(session, "test")
    near_ties = ("tests/test_exactness.py", "-k=near_ties_through_the_convolution")
    for name in _instruction_sets(session, {}) if not session.posargs else ():
        environment = {"DMLAX_NATIVE_ISA": name, "DMLAX_REQUIRE_NATIVE": "1"}
        adapter = "--implementation=dmlax_conformance.adapters.dmlax:NativeCpu"
        session.run("dmlax-conformance", "run", adapter, env=environment)
        session.run("pytest", "-m=slow or not slow", *near_ties, env=environment)
    session.run("pytest", "-m=slow", *_kernel_tests(), *TWO_PROCESSES, *session.posargs)


@nox.session(python=OLDEST)
def aarch64(session: nox.Session) -> None:
    """Cross-compile the kernels for AArch64, and run them under qemu; for about an hour.

    As root it installs the cross-compiler and qemu on Debian; without them it says so. The
    arguments `--processor=cortex-a72` and `--program="product loops"` run a part.
    """
    session.install("pip", *_group("wheel"))
    folder = str(session.cache_dir / "aarch64")
    wheels = (*OLDEST_JAX, "hypothesis>=6.100", "onnx", "pytest>=8.2")
    session.run("python", "tests/cpu/aarch64.py", folder, *wheels, *session.posargs)


@nox.session
def sanitize(session: nox.Session) -> None:
    """Run the golden vectors and the kernels' tests under AddressSanitizer and its like.

    Compiling takes minutes, and all of it more than ten. With arguments, which are pytest's, it
    leaves the golden vectors out.
    """
    environment = _install_sanitized(session)
    ignored = (
        "--ignore=tests/cpu/test_product_loops.py",  # the sanitizers' own stores are in them
        "--ignore=tests/cpu/test_scratch.py",  # they keep what is freed
    )
    session.run("pytest", *_kernel_tests(), *ignored, *session.posargs, env=environment)
    if not session.posargs:
        adapter = "--implementation=dmlax_conformance.adapters.dmlax:NativeCpu"
        session.run("dmlax-conformance", "run", adapter, "--time-limit=300", env=environment)


@nox.session(python=OLDEST)
def fuzz(session: nox.Session) -> None:
    """Give the kernels random calls under the sanitizers, for ten minutes or as many as asked."""
    environment = _install_sanitized(session, "fuzz")
    minutes = float(session.posargs[0]) if session.posargs else 10
    names = _instruction_sets(session, environment)
    for name in names:
        seconds = f"-max_total_time={60 * minutes / len(names):.0f}"
        chosen = environment | {"DMLAX_NATIVE_ISA": name}
        session.run("python", "tools/fuzz/native_cpu.py", seconds, env=chosen)


@nox.session
def fuzz_onnx(session: nox.Session) -> None:
    """Load changed ONNX models, for five minutes or as many as asked."""
    _reuse_library(session)
    _install(session, "test")
    minutes = float(session.posargs[0]) if session.posargs else 5
    session.run("python", "tools/fuzz/onnx_models.py", f"{60 * minutes:.0f}", *session.posargs[1:])


@nox.session
def fuzz_litert(session: nox.Session) -> None:
    """Load changed `.tflite` models, for five minutes or as many as asked."""
    _reuse_library(session)
    _install(session, "test")
    minutes = float(session.posargs[0]) if session.posargs else 5
    module = ("python", "-m", "tools.fuzz.litert_models")
    session.run(*module, f"{60 * minutes:.0f}", *session.posargs[1:])


@nox.session
def differential(session: nox.Session) -> None:
    """Compare 3,000 random QDQ graphs, or as many as asked, with ONNX Runtime; ten minutes or more.

    `nox -s differential -- 300 --start 7000` judges a part. `--from-jax` judges functions of JAX's
    primitives, which `from_jax` writes.
    """
    _reuse_library(session)
    _install(session, "test")
    session.run("python", "-m", "tools.differential", *session.posargs)


@nox.session
def litert(session: nox.Session) -> None:
    """Compare 5,000 random `.tflite` files of one operator, or as many as asked, with LiteRT.

    `nox -s litert -- 200 --case conv_2d --seed 7000` judges a part; `--record` renews the vectors.
    """
    _reuse_library(session)
    _install(session, "test")
    session.install("ai-edge-litert==2.3.0")
    session.run("python", "-m", "tools.litert", *session.posargs)
    session.run("python", "-m", "tools.litert.vectors")


@nox.session
def onnx_backend(session: nox.Session) -> None:
    """Run ONNX's own backend tests whole with `dmlax.onnx.backend`, with x64, and count them.

    `nox -s onnx_backend -- qlinear` runs those whose names have this part.
    """
    _reuse_library(session)
    _install(session, "test")
    home = str(Path(session.create_tmp()).resolve())  # the tests write models there
    environment = {"JAX_ENABLE_X64": "1", "ONNX_HOME": home}
    session.run("python", "-m", "tools.onnx_backend", *session.posargs, env=environment)


@nox.session
def wild(session: nox.Session) -> None:
    """Compare files of packages with ONNX Runtime and LiteRT; it downloads some 800 MB once.

    `nox -s wild -- silero nudenet` takes the files whose names have these parts, `--table litert`
    those of LiteRT.
    """
    _reuse_library(session)
    _install(session, "test")
    session.install("pip", "ai-edge-litert==2.3.0")
    session.run("python", "-m", "tools.wild", *session.posargs)


@nox.session
def lowering(session: nox.Session) -> None:
    """Run the tests of TPU and CUDA lowering, from this CPU."""
    _install(session, "test")
    session.run("pytest", "-m=lowering", *session.posargs)


@nox.session
def tpu(session: nox.Session) -> None:
    """Compile every operator for five generations of TPU, and read what the compiler made."""
    session.install(".", "./conformance", *_group("tpu"))
    tested = ("-m=tpu", "tests/test_tpu_programs.py")
    session.run("pytest", *tested, *session.posargs, env={"JAX_PLATFORMS": "cpu"})


@nox.session
def torch(session: nox.Session) -> None:
    """Run the tests that need PyTorch, which is large."""
    _install(session, "test")
    session.install("torch", "onnxscript")
    tested = ("tests/test_example_programs.py", "conformance/tests")
    session.run("pytest", "-m=torch", *tested, *session.posargs)


@nox.session
def conformance(session: nox.Session) -> None:
    """Give the golden vectors and models to dmlax, both built as a user would install them."""
    _install_shown(session, ".[onnx]", "./conformance")
    session.log("10,200 golden vectors, then 15 models: one to three minutes")
    session.run("dmlax-conformance", "run", "--implementation=dmlax", *session.posargs)
    session.run("dmlax-conformance", "models", "--implementation=dmlax")


@nox.session
def kill_rate(session: nox.Session) -> None:
    """Give the vectors every mutant, all of which they must kill."""
    session.install("./conformance")
    session.chdir("conformance")  # for `grading`, which is not installed
    session.run("python", "-m", "grading", "mutants", *session.posargs)


@nox.session(venv_backend="none")
def conformance_cuda(session: nox.Session) -> None:
    """Give the golden vectors to this interpreter's JAX on an NVIDIA GPU, which must be there.

    Then random calls of the kernels, and what plain JAX gets wrong. The suite needs jsonschema.
    """
    paths = {"PYTHONPATH": "src:tests:conformance/src:conformance"}
    run = functools.partial(session.run, "python3", env=paths, external=True)
    for adapter, share in {"CudaXla": 98, "CudaMosaic": 70}.items():  # kernels decline some calls
        implementation = f"--implementation=dmlax_conformance.adapters.dmlax:{adapter}"
        options = ("--variant=all", "--time-limit=300", f"--min-share={share}", *session.posargs)
        run("-m", "dmlax_conformance", "run", implementation, *options)
    for implementation in ("xla", "mosaic_gpu"):
        for calls in ("convolution", "convolution_add", "matmul"):
            run("-m", "support.random_calls", calls, implementation, "0", "400")
    run("tests/cuda/float32_epilogues.py", "0", "24")
    run("tests/cuda/byte_kernels.py", "jitted", "0", "100")
    run("tests/cuda/hazards.py")
    not_autotuned = paths | {"XLA_FLAGS": "--xla_gpu_autotune_level=0"}
    run("tests/cuda/hazards.py", env=not_autotuned)


@nox.session(python="3.12")
def cuda_registers(session: nox.Session) -> None:
    """Compile GPU kernels without a GPU: for an H100, and assembled for six capabilities.

    The first counts the registers of the convolutions; the second must not spill any.
    """
    _install(session, "bench", "test")
    code = "import jax; print(jax.__version__)"
    version = str(session.run("python", "-c", code, silent=True)).strip()
    plugin = [f"jax-cuda13-{part}=={version}" for part in ("plugin", "pjrt")]
    session.install("absl-py", "--no-deps", *plugin, "nvidia-cuda-nvcc==13.*", "nvidia-nvvm==13.*")
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = str(session.run("python", "-c", code, silent=True)).strip()
    paths = {"PYTHONPATH": "src:tests:conformance/src"}
    environment = paths | {"MOSAIC_GPU_CUDA_ROOT": f"{packages}/nvidia/cu13"}
    for script in ("registers", "assembled"):
        program = f"tools.benchmarks.tests.{script}"
        session.run("python", "-m", program, *session.posargs, env=environment)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the code's form and spelling."""
    session.install(*_group("lint"))
    session.run("ruff", "check", *session.posargs)
    session.run("ruff", "format", "--check")
    session.run("codespell")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types, strictly."""
    session.env["SKBUILD_CMAKE_DEFINE"] = "DMLAX_NATIVE=OFF"
    _install(session, "types", "bench")
    session.run("mypy", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into build/docs, warnings as errors."""
    session.env["SKBUILD_CMAKE_DEFINE"] = "DMLAX_NATIVE=OFF"
    _install(session, "docs")
    session.run("sphinx-build", "-Wn", "--keep-going", *session.posargs, "docs", "build/docs")


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the sdist and the manylinux wheels into build/dist, check them, and try them installed.

    The sdist and this processor's wheel are installed without a compiler in environments of their
    own, where README's example runs. AArch64's needs Debian's g++-aarch64-linux-gnu, and runs under
    qemu, which root installs on Debian. Arguments are processors, by default x86_64 and aarch64.
    """
    session.install("pip", *_group("wheel"))
    shutil.rmtree("build/dist", ignore_errors=True)
    session.run("python", "-m", "build", "--sdist", "--outdir", "build/dist")
    for processor in session.posargs or ("x86_64", "aarch64"):
        session.run("python", "tools/packaging/wheel.py", "build/dist", processor)
    wheels = sorted(map(str, Path("build/dist").glob("*.whl")))
    (sources,) = Path("build/dist").glob("*.tar.gz")
    session.run("twine", "check", "--strict", *wheels, str(sources))
    session.run("check-wheel-contents", *wheels)
    kernels = "from dmlax._cpu import library as n; assert bool(n.instruction_set()) == {}"
    for built in wheels:
        if built.endswith(f"_{platform.machine()}.whl"):
            _try_installed(session, built, kernels.format(True))
        else:  # `nox -s aarch64` keeps Debian's Python in the same folder
            folder = str(session.cache_dir / "aarch64")
            session.run("python", "tests/cpu/aarch64.py", folder, f"--wheel={built}")
    _try_installed(session, str(sources), kernels.format(False))


@nox.session
def sdist(session: nox.Session) -> None:
    """Unpack the sdist, install it there, and run its own tests.

    It takes more than ten minutes. Arguments are pytest's, and the names of files run a part.
    """
    session.install(*_group("wheel"))
    folder = Path(session.create_tmp()).resolve()
    session.run("python", "-m", "build", "--sdist", "--outdir", str(folder))
    (archive,) = folder.glob("dmlax-*.tar.gz")
    shutil.unpack_archive(archive, folder)
    session.chdir(folder / archive.name.removesuffix(".tar.gz"))
    _install(session, "test", "integrations")
    session.run("pytest", *TWO_PROCESSES, *session.posargs)


@nox.session(venv_backend="none")
def rotation(session: nox.Session) -> None:
    """Install a session that few run and collect its tests: the next one for each commit.

    CI does so with each commit, so that no session rots; arguments choose others. It chooses none
    that needs a GPU, a cross-compiler, PyTorch or sanitized kernels.
    """
    names = session.posargs
    if not names:
        count = session.run("git", "rev-list", "--count", "HEAD", external=True, silent=True)
        names = [list(ROTATION)[int(str(count)) % len(ROTATION)]]
    for name in names:
        session.notify(name, ROTATION[name])


@nox.session(python=OLDEST)
def models(session: nox.Session) -> None:
    """Load one classifier of every torchvision family, and compare it with ONNX Runtime.

    It installs PyTorch, which is large.
    """
    session.install(".[onnx]", *_group("bench"), "torch", "torchvision", "onnxscript")
    session.run("python", "-m", "tools.benchmarks", "families", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Time dmlax against its peers; the arguments are those of `python -m tools.benchmarks`."""
    session.install(".", *_group("bench"))
    session.run("python", "-m", "tools.benchmarks", *session.posargs)


# ---------------------------------------------------------------------------------------


def _group(name: str) -> list[str]:
    return list(nox.project.dependency_groups(PYPROJECT, name))


def _install(session: nox.Session, *groups: str, pins: Sequence[str] = ()) -> None:
    needed = [requirement for group in groups for requirement in _group(group)]
    _install_shown(session, "-e.", "-e./conformance", *needed, *pins)


def _install_shown(session: nox.Session, *packages: str) -> None:
    """Install with the installer's output, because the kernels compile for minutes."""
    session.log("installing; if there is a C++ compiler, the kernels compile for minutes")
    session.install(*packages, silent=False)


def _try_installed(session: nox.Session, distribution: str, code: str) -> None:
    """Install a distribution alone where no compiler works, and run README's example and a code."""
    folder = Path(session.create_tmp(), "alone").resolve()
    session.run("python", "-m", "venv", "--clear", str(folder))
    run = functools.partial(session.run, external=True, env={"CXX": "/no/such/compiler"})
    run(f"{folder}/bin/pip", "install", "--quiet", distribution)
    run(f"{folder}/bin/dmlax")
    run(f"{folder}/bin/python", "-c", code)
    run(f"{folder}/bin/python", "-m", "doctest", "README.md")


def _run_marked(session: nox.Session, pins: Sequence[str] = ()) -> None:
    """Run the tests marked `oldest`, or those that the arguments name."""
    _reuse_library(session)
    _install(session, "test", pins=pins)
    chosen = session.posargs or ["-m=oldest and not slow"]
    session.run("pytest", *TWO_PROCESSES, *chosen)


def _reuse_library(session: nox.Session) -> None:
    """In CI, install the kernels that another session built, if they exist: they use no ABI."""
    folder = Path(".nox", "tests-3-13").resolve() if os.environ.get("CI") else Path()
    for library in folder.glob("lib/python*/site-packages/dmlax/_native.so"):
        session.env["SKBUILD_CMAKE_DEFINE"] = f"DMLAX_LIBRARY={library}"


def _kernel_tests() -> list[str]:
    return sorted(map(str, Path("tests").rglob("cpu")))


def _install_sanitized(session: nox.Session, *groups: str) -> dict[str, str]:
    """Build the kernels with sanitizers; gives the environment that loads these first."""
    session.env["SKBUILD_CMAKE_DEFINE"] = "DMLAX_SANITIZE=address,undefined"
    _install(session, "test", *groups)
    # libstdc++ beside it: the sanitizer has to find what throws before XLA throws.
    libraries = [
        str(session.run("g++", f"-print-file-name={name}", external=True, silent=True)).strip()
        for name in ("libasan.so", "libstdc++.so")
    ]
    return {
        "LD_PRELOAD": " ".join(libraries),
        # CPython and XLA keep what they allocate at exit; the handlers check for null.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "DMLAX_REQUIRE_NATIVE": "1",
    }


def _instruction_sets(session: nox.Session, environment: dict[str, str]) -> list[str]:
    code = "from dmlax._cpu import library; print(*library.instruction_sets())"
    return str(session.run("python", "-c", code, silent=True, env=environment)).split()

"""Every task of this repository; `nox -l` lists them."""

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["lint", "types", "tests"]

PYPROJECT = nox.project.load_toml("pyproject.toml")
JAX_ON_PYTHON = {  # the oldest supported pair, and the newest
    "3.11": ["jax==0.10.2", "jaxlib==0.10.2"],
    "3.12": ["jax"],
}


@nox.session(python=list(JAX_ON_PYTHON))
def tests(session: nox.Session) -> None:
    """Run the tests, the doctests and the suite's own tests, warnings as errors."""
    _install(session, "test", pins=JAX_ON_PYTHON[str(session.python)])
    session.run("pytest", "--numprocesses=2", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """Run the long exactness tests."""
    _install(session, "test")
    session.run("pytest", "-m=slow", "--numprocesses=2", *session.posargs)


@nox.session
def without_compiler(session: nox.Session) -> None:
    """Install where no C++ compiler works, and run the tests with the kernels absent."""
    session.env["CXX"] = "/no/such/compiler"
    _install(session, "test")
    reason = "import dmlax._core.native as n; print(n.why_not('cpu')); assert n.why_not('cpu')"
    session.run("python", "-c", reason)
    session.run("pytest", "--numprocesses=2", *session.posargs)


@nox.session
def sanitize(session: nox.Session) -> None:
    """Run the golden vectors and the kernels' tests under AddressSanitizer and its like."""
    session.env["SKBUILD_CMAKE_DEFINE"] = "DMLAX_SANITIZE=address,undefined"
    _install(session, "test")
    # libstdc++ beside it: the sanitizer has to find what throws before XLA throws.
    libraries = [
        str(session.run("g++", f"-print-file-name={name}", external=True, silent=True)).strip()
        for name in ("libasan.so", "libstdc++.so")
    ]
    environment = {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",  # CPython and XLA keep what they allocate at exit
        "DMLAX_REQUIRE_NATIVE": "1",
    }
    session.run("pytest", "tests/native", "tests/nonzero", *session.posargs, env=environment)
    session.run("dmlax-conformance", "run", "--implementation=dmlax", env=environment)


@nox.session
def lowering(session: nox.Session) -> None:
    """Run the tests of TPU and CUDA lowering, from this CPU."""
    _install(session, "test")
    session.run("pytest", "-m=lowering", *session.posargs)


@nox.session
def page(session: nox.Session) -> None:
    """Look at the suite's HTML page in a real Chromium, which has to be installed."""
    _install(session, "test", "page")
    session.run("pytest", "-m=browser", "conformance/tests/test_page.py", *session.posargs)


@nox.session
def torch(session: nox.Session) -> None:
    """Run the tests that need PyTorch, which is large."""
    _install(session, "test")
    session.install("torch")
    session.run("pytest", "-m=torch", "conformance/tests", *session.posargs)


@nox.session
def mutation(session: nox.Session) -> None:
    """Change the committed source in small ways, and see whether the tests notice; for hours."""
    _install(session, "test", "mutation")
    copy = session.create_tmp()
    session.run("git", "clone", "--quiet", ".", f"{copy}/dmlax", external=True)
    session.run("python", "mutation/run.py", f"{copy}/dmlax", *session.posargs)


@nox.session
def conformance(session: nox.Session) -> None:
    """Give the golden vectors to dmlax, both built as a user would install them."""
    session.install(".", "./conformance")
    session.run("dmlax-conformance", "run", "--implementation=dmlax", *session.posargs)


@nox.session(venv_backend="none")
def conformance_cuda(session: nox.Session) -> None:
    """Give the golden vectors to this interpreter's JAX on an NVIDIA GPU, which must be there."""
    paths = {"PYTHONPATH": "src:conformance/src"}
    for adapter in ("CudaXla", "CudaMosaic"):
        implementation = f"--implementation=dmlax_conformance.adapters.dmlax:{adapter}"
        command = ("python3", "-m", "dmlax_conformance", "run", implementation, "--variant=all")
        session.run(*command, *session.posargs, env=paths, external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the code's form and spelling, and that the vectors are what the oracle writes."""
    session.install("-e./conformance", *_group("lint"))
    session.run("ruff", "check", *session.posargs)
    session.run("ruff", "format", "--check")
    session.run("codespell")
    session.run("dmlax-conformance", "lint")
    session.run("dmlax-conformance", "generate", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types, strictly."""
    _install(session, "types", "bench")
    session.run("mypy", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into build/docs, warnings as errors."""
    _install(session, "docs")
    session.run("sphinx-build", "-Wn", "--keep-going", *session.posargs, "docs", "build/docs")


@nox.session
def bench(session: nox.Session) -> None:
    """Time dmlax against its peers; the arguments are those of `python -m benchmarks`."""
    session.install(".", *_group("bench"))
    session.run("python", "-m", "benchmarks", *session.posargs)


# ---------------------------------------------------------------------------------------


def _group(name: str) -> list[str]:
    return list(nox.project.dependency_groups(PYPROJECT, name))


def _install(session: nox.Session, *groups: str, pins: list[str] | None = None) -> None:
    needed = [requirement for group in groups for requirement in _group(group)]
    session.install("-e.", "-e./conformance", *needed, *(pins or []))

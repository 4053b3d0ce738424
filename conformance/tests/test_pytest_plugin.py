"""The pytest plugin, in somebody else's repository."""

import json
import shlex
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import dmlax_conformance
from dmlax_conformance.format import vectors
from dmlax_conformance.paths import vectors_dir

pytest_plugins = ["pytester"]

CONFORMANCE = Path(__file__).parents[1]
PLUGIN = "dmlax_conformance.pytest_plugin"
PROGRAM = f"process:{shlex.join([sys.executable, str(CONFORMANCE / 'examples/nonzero_lines.py')])}"
MINE = """
    from dmlax_conformance.adapters.base import Unsupported
    from dmlax_conformance.adapters.oracle import Oracle

    class Adapter(Oracle):
        variants = ("eager", "lazy")
        capabilities = frozenset()
        dtypes = ("int8", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")

        def run(self, case, variant):
            x = case.inputs["InputTensor"]
            if x.dtype == "int16":
                raise Unsupported("no 16 bits")
            if (x.dtype, x.shape, variant) == ("uint8", (2, 4), "lazy"):
                return {}
            return super().run(case, variant)

    class Permitted(Oracle):
        def run(self, case, variant):
            answer = super().run(case, variant)
            nans = case.inputs["InputTensor"] != case.inputs["InputTensor"]
            answer["OutputTensor"][nans] = 255 if answer["OutputTensor"].dtype == "uint8" else 127
            return answer

    class All(Adapter):
        dtypes = None
"""
FILE = "nonzero_coordinates/core/integers.json"
ALL = vectors.load(vectors_dir() / FILE)
COUNT, CASES = len(ALL), 2 * len(ALL)
EXTREMES = sum("Extreme" in vector.flags for vector in ALL)
SHARE = int(10_000 * (COUNT - 1) / COUNT) / 100
BAD = "nonzero-uint8-extremes[lazy]"
GOOD = BAD.replace("lazy", "eager")
SKIP = f"--deselect {FILE}::{BAD}"
ONE = "--dml-id=nonzero-uint8-extremes --dml-variant=eager"
AGAIN = "dmlax-conformance run --implementation mine:Adapter --vectors suite --variant lazy"
STOPPED = pytest.ExitCode.INTERRUPTED


class Repository:
    """A folder with an adapter, in which pytest runs with a suite of one file."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        """Write the adapter and the suite."""
        self.path, self._pytester = pytester.path, pytester
        pytester.makepyfile(mine=MINE)
        self.add(FILE)

    def add(self, name: str) -> Path:
        """Copy a file of vectors into the suite."""
        path = self.path / "suite" / name
        path.parent.mkdir(parents=True)
        return Path(shutil.copy(vectors_dir() / name, path))

    def run(self, options: str, implementation: str = "mine:Adapter") -> pytest.RunResult:
        """Run pytest with the plugin and these options."""
        own = [f"--dml-implementation={implementation}", "--dml-vectors=suite"]
        words = [*own, *shlex.split(options)]
        return self._pytester.runpytest("-p", PLUGIN, "-p", "no:cacheprovider", *words)


def text(result: pytest.RunResult) -> str:
    return "\n".join([*result.outlines, *result.errlines])


@pytest.fixture
def repository(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("PYTHONPATH", str(Path(dmlax_conformance.__file__).parents[1]))
    monkeypatch.setattr(sys, "path", list(sys.path))
    return Repository(pytester)


def test_vectors_are_named_by_id(repository: Repository) -> None:
    result = repository.run("--collect-only -q")
    names = [line for line in result.outlines if "::" in line]
    assert names == [f"{FILE}::{v.id}[{variant}]" for v in ALL for variant in ("eager", "lazy")]
    assert result.ret == 0


class Session(NamedTuple):
    """A run of pytest, and what must become of it."""

    options: str
    ret: int
    outcomes: dict[str, int] | None = None
    shown: tuple[str, ...] = ()
    implementation: str = "mine:Adapter"


MOST = {"passed": CASES - 3, "skipped": 2}
SHOWN = (
    *("FAIL nonzero-uint8-extremes [lazy]", "OutputCountTensor: missing"),
    *("given InputTensor uint8[", "no 16 bits"),
    f"  repeat: {AGAIN} --id nonzero-uint8-extremes",
)
FEW = f"{CASES - 3} values, needed {CASES}"
DECLARED = f"answered {COUNT - 1} of {COUNT} applicable vectors ({SHARE:g} %), needed 100 %"
NAMED = {"passed": 1, "deselected": CASES - 1}
SOME = "--dml-flag=Extreme --dml-variant=eager"
SESSIONS = {
    "all": Session("-rs", 1, MOST | {"failed": 1}, SHOWN),
    "one": Session(ONE, 0, {"passed": 1}),
    "a keyword": Session("-k 'uint8-extremes and eager'", 0, NAMED),
    "a flag": Session(SOME, 0, {"passed": EXTREMES - 1, "skipped": 1}),
    "a program": Session("", 0, {"passed": COUNT}, (), PROGRAM),
    "too few": Session(f"{SKIP} --dml-min-cases={CASES - 2}", 1, None, (f"needed {CASES - 2}",)),
    "none selected": Session("-k nobody", 1, None, ("0 applicable cases, needed 1",)),
    "none supported": Session("--dml-id=nonzero-int16-extremes", 1, None, ("0 values, needed 1",)),
    "all that are declared": Session(f"{SKIP} --dml-min-cases={CASES - 3}", 0),
    "not all that are declared": Session(SKIP, 1, None, (DECLARED,), "mine:All"),
    "a share": Session(f"{SKIP} --dml-min-share={SHARE}", 0, None, (), "mine:All"),
    "no class": Session("", STOPPED, None, ("has no attribute 'Nobody'",), "mine:Nobody"),
    "no program": Session("", STOPPED, None, ("No such file",), "process:/no/such/program"),
    "no variant": Session("--dml-variant=nobody", STOPPED, None, ("has no variant nobody",)),
    "two processes": Session(f"{SKIP} -n2 --dml-min-cases={CASES - 3}", 0, MOST),
    "two, too few": Session(f"-n2 --dml-min-cases={CASES}", 1, None, (FEW,)),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session(name: str, repository: Repository) -> None:
    check(repository, SESSIONS[name])


def check(repository: Repository, session: Session) -> None:
    result = repository.run(session.options, session.implementation)
    assert result.ret == session.ret
    assert "Traceback" not in text(result)
    if session.outcomes is not None:
        result.assert_outcomes(**session.outcomes)
    for words in session.shown:
        assert words in text(result)


MENDED = MOST | {"passed": CASES - 4, "failed": 2}
DECLINED = MOST | {"skipped": 1, "xfailed": 1, "failed": 1}
KNOWN: dict[str, tuple[dict[str, str], Session]] = {  # vectors that are expected to fail
    "fails": ({BAD: "issue 12"}, Session("-rx", 0, MOST | {"xfailed": 1}, ("issue 12",))),
    "passes": ({GOOD: "mended since"}, Session("", 1, MENDED, ("mended since",))),
    "is declined": (
        {BAD: "issue 12", "nonzero-int16-extremes[eager]": "declined"},
        Session("", 1, DECLINED, ("expected to fail, and unsupported: no 16 bits",)),
    ),
    "is gone": ({"nobody[eager]": "gone"}, Session("", STOPPED, None, ("nobody[eager]",))),
}


@pytest.mark.parametrize("name", KNOWN)
def test_expected_failures_are_strict(name: str, repository: Repository) -> None:
    known, session = KNOWN[name]
    (repository.path / "known.json").write_text(json.dumps(known))
    options = f"--dml-expected-failures=known.json {session.options}"
    check(repository, session._replace(options=options))


def test_a_broken_file_is_not_collected(repository: Repository) -> None:
    (repository.path / "suite" / FILE).write_text("{")
    check(repository, Session("", STOPPED, None, ("integers.json:1:2",)))


def test_a_permitted_answer_passes(repository: Repository) -> None:
    special = vectors.load(repository.add("element_wise_quantize_linear/core/special.json"))
    listed: list[Any] = [
        vector.id
        for vector in special
        if isinstance(vector.expect, dict) and any(each.listed for each in vector.expect.values())
    ]
    options = " ".join(["--junitxml=out.xml", *(f"--dml-id={name}" for name in listed)])
    check(repository, Session(options, 0, {"passed": len(listed)}, (), "mine:Permitted"))
    assert 'value="permitted"' in (repository.path / "out.xml").read_text()


def test_beside_other_tests(repository: Repository, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_own="def test_own(): pass")
    for more, passed in (("", 2), ("--dml-only", 1), ("test_own.py", 2)):
        check(repository, Session(f"{ONE} {more}", 0, {"passed": passed}))


def test_without_the_option_nothing_happens(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_own():
            loaded = {name for name in sys.modules if name.startswith("dmlax_conformance")}
            own = {f"dmlax_conformance.{name}" for name in ("options", "pytest_plugin")}
            assert loaded == {"dmlax_conformance", *own}
            assert "jsonschema" not in sys.modules
        """
    )
    result = pytester.runpytest_subprocess("-p", PLUGIN, "-W", "error")
    result.assert_outcomes(passed=1)
    assert result.ret == 0


def test_the_entry_point_names_the_plugin() -> None:
    """`-p` and the entry point must agree on the name, or pytest would load it twice."""
    points = tomllib.loads((CONFORMANCE / "pyproject.toml").read_text())["project"]["entry-points"]
    assert points["pytest11"] == {PLUGIN: PLUGIN}

"""The pytest plugin, in somebody else's repository."""

import json
import shlex
import shutil
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import dmlax_conformance
from dmlax_conformance.format import vectors
from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.paths import vectors_dir

pytest_plugins = ["pytester"]

PLUGIN = "dmlax_conformance.pytest_plugin"
EXAMPLE = Path(__file__).parents[1] / "examples" / "nonzero_lines.py"
MINE = """
    from dmlax_conformance.adapters.base import Unsupported
    from dmlax_conformance.adapters.oracle import Oracle

    class Adapter(Oracle):
        variants = ("eager", "lazy")
        capabilities = frozenset()

        def run(self, case, variant):
            if case.inputs["InputTensor"].dtype == "int16":
                raise Unsupported("no 16 bits")
            if case.id == "nonzero-uint8-extremes" and variant == "lazy":
                return {}
            return super().run(case, variant)
"""
PERMITTED = """
    from pathlib import Path
    from dmlax_conformance.format import vectors
    from dmlax_conformance.adapters.oracle import Oracle

    class Adapter(Oracle):
        known = {vector.id: vector for vector in vectors.load_all(Path("suite"))}

        def run(self, case, variant):
            output = self.known[case.id].expect["OutputTensor"]
            answer = super().run(case, variant)
            for index, listed in output.listed.items():
                other = [word for word in listed.any_of if word != output.words[index]]
                answer["OutputTensor"].flat[index] = other[0]
            return answer
"""
BAD = "nonzero-uint8-extremes[lazy]"


class Repository:
    """A folder with an adapter, in which pytest runs with a suite of one file."""

    def __init__(self, pytester: pytest.Pytester, name: str = "integers") -> None:
        """Write the adapter and the suite."""
        self.path = pytester.path
        self._pytester = pytester
        pytester.makepyfile(mine=MINE)
        folder = Path("nonzero_coordinates", f"{name}.json")
        (self.path / "suite" / folder).parent.mkdir(parents=True)
        shutil.copy(vectors_dir() / folder, self.path / "suite" / folder)
        self.vectors = vectors.load(self.path / "suite" / folder)

    def run(self, *options: str, implementation: str = "mine:Adapter") -> pytest.RunResult:
        """Run pytest with the plugin and these options."""
        own = [f"--dml-implementation={implementation}", "--dml-vectors=suite", *options]
        return self._pytester.runpytest("-p", PLUGIN, "-p", "no:cacheprovider", *own)


def text(result: pytest.RunResult) -> str:
    return "\n".join([*result.outlines, *result.errlines])


@pytest.fixture
def repository(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Repository:
    source = str(Path(dmlax_conformance.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", source)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return Repository(pytester)


def test_vectors_are_named_by_id(repository: Repository) -> None:
    result = repository.run("--collect-only", "-q")
    names = [line for line in result.outlines if "::" in line]
    assert names == [
        f"nonzero_coordinates/integers.json::{vector.id}[{variant}]"
        for vector in repository.vectors
        for variant in ("eager", "lazy")
    ]
    assert result.ret == 0


def test_verdicts_become_outcomes(repository: Repository) -> None:
    result = repository.run("-rs")
    cases = 2 * len(repository.vectors)
    result.assert_outcomes(passed=cases - 3, failed=1, skipped=2)
    assert result.ret == 1
    shown = text(result)
    assert "FAIL nonzero-uint8-extremes [lazy] " in shown
    assert "  OutputCountTensor: missing" in shown
    assert "  given InputTensor uint8[" in shown
    again = "dmlax-conformance run --implementation mine:Adapter --vectors suite --variant lazy"
    assert f"  repeat: {again} --id nonzero-uint8-extremes" in shown
    assert "no 16 bits" in shown


def test_options_choose(repository: Repository) -> None:
    few = repository.run("--dml-id=nonzero-uint8-extremes", "--dml-variant=eager")
    few.assert_outcomes(passed=1)
    assert few.ret == 0
    repository.run("-k", "uint8-extremes and eager").assert_outcomes(
        passed=1, deselected=2 * len(repository.vectors) - 1
    )
    flagged = [vector for vector in repository.vectors if "Extreme" in vector.flags]
    result = repository.run("--dml-flag=Extreme", "--dml-variant=eager")
    result.assert_outcomes(passed=len(flagged) - 1, skipped=1)


def test_a_permitted_answer_passes(repository: Repository) -> None:
    folder = repository.path / "suite" / "element_wise_quantize_linear"
    folder.mkdir()
    shutil.copy(vectors_dir() / folder.name / "special.json", folder)
    (repository.path / "permitted.py").write_text(dedent(PERMITTED))
    listed = [v for v in vectors.load(folder / "special.json") if has_listed(v)]
    assert listed
    own = [f"--dml-id={vector.id}" for vector in listed]
    result = repository.run(*own, "--junitxml=out.xml", implementation="permitted:Adapter")
    result.assert_outcomes(passed=len(listed))
    assert 'value="permitted"' in (repository.path / "out.xml").read_text()


def has_listed(vector: Vector) -> bool:
    return vector.is_valid and any(each.listed for each in vector.expect.values())  # type: ignore[union-attr]


def test_beside_other_tests(repository: Repository, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_own="def test_own(): pass")
    own = ["--dml-id=nonzero-uint8-extremes", "--dml-variant=eager"]
    repository.run(*own).assert_outcomes(passed=2)
    repository.run(*own, "--dml-only").assert_outcomes(passed=1)
    repository.run(*own, "test_own.py").assert_outcomes(passed=2)


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
    import tomllib

    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    points = tomllib.loads(pyproject.read_text())["project"]["entry-points"]["pytest11"]
    assert points == {PLUGIN: PLUGIN}


FLOORS = {
    "too few": (["--dml-min-cases=10000"], "values, needed 10000"),
    "nothing collected": (["--dml-operator=nobody"], "0 applicable cases, needed 1"),
    "nothing selected": (["-k", "nobody"], "0 applicable cases, needed 1"),
    "nothing supported": (["--dml-id=nonzero-int16-extremes"], "0 values, needed 1"),
    "not even 0": (["--dml-operator=nobody", "--dml-min-cases=0"], "0 values, needed 1"),
}


@pytest.mark.parametrize("name", FLOORS)
def test_too_few_vectors_fail(name: str, repository: Repository) -> None:
    options, message = FLOORS[name]
    result = repository.run("--deselect", f"nonzero_coordinates/integers.json::{BAD}", *options)
    assert message in text(result)
    assert result.ret == 1


def test_enough_vectors_pass(repository: Repository) -> None:
    skip = ["--deselect", f"nonzero_coordinates/integers.json::{BAD}"]
    enough = 2 * len(repository.vectors) - 3
    assert repository.run(*skip, f"--dml-min-cases={enough}").ret == 0
    assert repository.run(*skip, f"--dml-min-cases={enough + 1}").ret == 1


def test_what_cannot_be_collected(repository: Repository) -> None:
    for options, message in (
        ({"implementation": "mine:Nobody"}, "has no attribute 'Nobody'"),
        ({"implementation": "process:/no/such/program"}, "No such file"),
    ):
        result = repository.run(**options)
        assert result.ret == pytest.ExitCode.INTERRUPTED
        assert message in text(result)
    result = repository.run("--dml-variant=nobody")
    assert "mine" not in text(result).split("has no variant nobody")[1]
    assert result.ret == pytest.ExitCode.INTERRUPTED
    (repository.path / "suite" / "nonzero_coordinates" / "integers.json").write_text("{")
    result = repository.run()
    assert "integers.json:1:2" in text(result)
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_expected_failures_are_strict(repository: Repository) -> None:
    file = repository.path / "known.json"
    file.write_text(json.dumps({BAD: "issue 12"}))
    result = repository.run(f"--dml-expected-failures={file}", "-rx")
    result.assert_outcomes(passed=2 * len(repository.vectors) - 3, skipped=2, xfailed=1)
    assert result.ret == 0
    assert "issue 12" in text(result)
    file.write_text(json.dumps({BAD.replace("lazy", "eager"): "mended since"}))
    result = repository.run(f"--dml-expected-failures={file}")
    result.assert_outcomes(passed=2 * len(repository.vectors) - 4, skipped=2, failed=2)
    assert "mended since" in text(result)
    file.write_text(json.dumps({BAD: "issue 12", "nonzero-int16-extremes[eager]": "declined"}))
    result = repository.run(f"--dml-expected-failures={file}")
    own = {"skipped": 1, "xfailed": 1, "failed": 1}
    result.assert_outcomes(passed=2 * len(repository.vectors) - 3, **own)
    assert "expected to fail, and unsupported: no 16 bits" in text(result)
    file.write_text(json.dumps({"nobody[eager]": "gone"}))
    result = repository.run(f"--dml-expected-failures={file}")
    assert "nobody[eager]" in text(result)
    assert result.ret == pytest.ExitCode.INTERRUPTED


def test_a_program(repository: Repository) -> None:
    program = f"process:{shlex.join([sys.executable, str(EXAMPLE)])}"
    result = repository.run(implementation=program)
    result.assert_outcomes(passed=len(repository.vectors))
    assert result.ret == 0


def test_in_several_processes(repository: Repository) -> None:
    found = 2 * len(repository.vectors) - 3
    own = ["--deselect", f"nonzero_coordinates/integers.json::{BAD}", "-n2"]
    result = repository.run(*own, f"--dml-min-cases={found}")
    result.assert_outcomes(passed=found, skipped=2)
    assert result.ret == 0
    result = repository.run("-n2", f"--dml-min-cases={found + 2}")
    result.assert_outcomes(passed=found, failed=1, skipped=2)
    assert result.ret == 1
    assert f"{found} values, needed {found + 2}" in text(result)

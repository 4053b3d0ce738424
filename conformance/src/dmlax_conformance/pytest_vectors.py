"""Collecting and running vectors under pytest, once `pytest_plugin` has something to test."""

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from . import adapters
from .errors import Malformed, NotStartable, WrongUsage
from .format import vectors
from .format.vectors import Vector
from .options import FILTERS
from .paths import vectors_dir
from .reports import expected
from .runner import report
from .runner import run as runner
from .runner.program import Program
from .runner.repeat import start_of_command
from .runner.run import Result
from .runner.share import Judged, judged, shortfalls

NAMES = (*FILTERS, "variant", "time-limit", "expected-failures")
PROPERTIES = tuple(f"dml_{name}" for name in Judged._fields)
Cases = list[tuple[Vector, str]]


class Vectors:
    """Adds the vectors to a session, and fails one that proves too little."""

    def __init__(self, config: pytest.Config, name: str) -> None:
        """Remember what to test; the adapter starts when the vectors are collected."""
        self._config = config
        self._name = name
        self._collector: Suite | None = None
        self._judged: list[Judged] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Add the vectors to what the session finds."""
        collected = yield
        if isinstance(collector, pytest.Session) and collected.passed:
            others = [] if self._config.getoption("--dml-only") else collected.result
            collected.result = [*others, self._suite(collector)]
        return collected

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the verdicts, also those of another process."""
        noted: dict[str, Any] = dict(report.user_properties)
        if report.when == "call" and PROPERTIES[0] in noted:
            self._judged.append(Judged(*(noted[name] for name in PROPERTIES)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Stop the adapter; fail if it said what nothing asked for, or answered too little."""
        has_said_more = self._collector is not None and self._collector.close()
        is_fine = session.exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED)
        if is_fine and (has_said_more or self._shortfalls()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say why the session proves too little."""
        for line in self._shortfalls():
            terminalreporter.write_line(f"dmlax-conformance: {line}", red=True)

    def _suite(self, session: pytest.Session) -> "Suite":
        if self._collector is None:
            path = self._config.getoption("--dml-vectors") or vectors_dir()
            self._collector = Suite.from_parent(
                session, implementation=self._name, path=path, name="dml-vectors"
            )
        return self._collector

    def _shortfalls(self) -> list[str]:
        """Return why the session proves too little; a worker does not see every report."""
        if self._config.option.collectonly or hasattr(self._config, "workerinput"):
            return []
        floors = (self._config.getoption(f"--dml-min-{name}") for name in ("cases", "share"))
        return shortfalls(self._judged, *floors)


class Suite(pytest.Collector):
    """All vectors that the options choose."""

    adapter: Program | None = None
    start: str  # the start of the command that repeats a vector
    reasons: Mapping[str, str]  # the reasons of known failures

    def __init__(self, *, implementation: str, name: str, **place: Any) -> None:
        """Remember what to test."""
        super().__init__(name, nodeid=name, **place)
        self._implementation = implementation

    def collect(self) -> Iterator[pytest.Collector]:
        """Start the adapter, and yield a collector for each file."""
        options = SimpleNamespace(
            **{name.replace("-", "_"): self.config.getoption(f"--dml-{name}") for name in NAMES}
        )
        command = self._implementation, options.vectors, options.time_limit
        self.start = start_of_command(*command)
        try:
            chosen = vectors.selected(options)
            self.adapter = self.adapter or adapters.program(command[0], options.time_limit)
            self.reasons = expected.reasons(options, self.adapter)
            variants = runner.variants_of(self.adapter, options.variant)
        except (Malformed, NotStartable, WrongUsage) as error:
            raise self.CollectError(f"dmlax-conformance: {error}") from error
        files: dict[Path, Cases] = {}
        for vector, variant in runner.cases(self.adapter, chosen, variants):
            files.setdefault(vector.file, []).append((vector, variant))
        for path, cases in files.items():
            name = path.relative_to(options.vectors or vectors_dir()).as_posix()
            yield File.from_parent(self, cases=cases, suite=self, path=path, name=name)

    def close(self) -> bool:
        """Stop the adapter, and say whether it wrote what nothing asked for."""
        if self.adapter is None:
            return False
        adapters.close(self.adapter)
        return bool(self.adapter.unasked)


class File(pytest.Collector):
    """The vectors of one file."""

    def __init__(self, *, cases: Cases, suite: Suite, name: str, **place: Any) -> None:
        """Keep the cases."""
        super().__init__(name, nodeid=name, **place)
        self._cases, self._suite = cases, suite

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each vector and variant, named after them."""
        for vector, variant in self._cases:
            name = expected.key_of(vector.id, variant)
            case = {"vector": vector, "variant": variant, "suite": self._suite}
            yield Item.from_parent(self, name=name, **case)


class Item(pytest.Item):
    """One vector in one variant."""

    def __init__(self, *, vector: Vector, variant: str, suite: Suite, **place: Any) -> None:
        """Keep the vector; one that is expected to fail must fail."""
        super().__init__(**place)
        self._vector, self._variant, self._suite = vector, variant, suite
        if self.name in suite.reasons:
            self.add_marker(pytest.mark.xfail(reason=suite.reasons[self.name], strict=True))

    def runtest(self) -> None:
        """Give the vector to the adapter; raise unless the answer is exact or permitted."""
        adapter = self._suite.adapter
        assert adapter is not None
        outcome = runner.judge(adapter, self._vector, self._variant)
        result = Result(self._vector, self._variant, outcome, 0.0)
        self.user_properties += zip(PROPERTIES, judged(adapter, result), strict=True)
        if outcome.verdict == "unsupported":
            reason = "; ".join(outcome.details)
            if self.name not in self._suite.reasons:
                pytest.skip(reason)
            # It did not fail as expected, and that is an error.
            text = f"expected to fail, and unsupported: {reason}"
            self.add_report_section("call", "verdict", text)
        elif outcome.verdict not in runner.PASSED:
            raise VectorFailed(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> Any:
        """Explain a failure as the command does."""
        if isinstance(excinfo.value, VectorFailed):
            return "\n".join(report.explain(excinfo.value.result, self._suite.start))
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return where the vector stands."""
        return self.path, None, self.name


class VectorFailed(Exception):  # noqa: N818 - the state of a vector
    """A vector whose answer is neither exact nor permitted."""

    def __init__(self, result: Result) -> None:
        """Keep the result."""
        super().__init__(f"{result.verdict}: {'; '.join(result.outcome.details)}")
        self.result = result

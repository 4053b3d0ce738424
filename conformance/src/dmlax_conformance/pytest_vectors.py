"""Collecting and running vectors under pytest, once `pytest_plugin` has something to test."""

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from . import adapters
from .errors import Malformed, NotStartable, WrongUsage
from .format import vectors
from .format.vectors import Vector
from .options import FILTERS
from .paths import vectors_dir
from .reports import expected
from .suite import report, runner
from .suite.adapter import Adapter
from .suite.repeat import start_of_command
from .suite.runner import Judged, Result

NAMES = (*FILTERS, "variant", "time-limit", "expected-failures")
VERDICT = "dml_verdict"
PROPERTIES = ("dml_operator", "dml_valid", VERDICT)
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
        found = yield
        if isinstance(collector, pytest.Session) and found.passed:
            others = [] if self._config.getoption("--dml-only") else found.result
            found.result = [*others, self._suite(collector)]
        return found

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the verdicts, also those of another process."""
        own = dict(report.user_properties)
        if report.when == "call" and VERDICT in own:
            operator, is_valid, verdict = (own[name] for name in PROPERTIES)
            self._judged.append(Judged(str(operator), bool(is_valid), str(verdict)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Stop the adapter, and fail if there are too few values."""
        if self._collector is not None:
            self._collector.close()
        if self._shortfalls() and session.exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say why the session proves too little."""
        for line in self._shortfalls():
            terminalreporter.write_line(f"dmlax-conformance: {line}", red=True)

    def _suite(self, session: pytest.Session) -> "Suite":
        if self._collector is None:
            path = self._config.getoption("--dml-vectors") or vectors_dir()
            own = {"name": "dml-vectors", "path": path, "nodeid": "dml-vectors"}
            self._collector = Suite.from_parent(session, implementation=self._name, **own)
        return self._collector

    def _shortfalls(self) -> list[str]:
        """Return why the session proves too little; a worker does not see every report."""
        if self._config.option.collectonly or hasattr(self._config, "workerinput"):
            return []
        return runner.shortfalls(self._judged, self._config.getoption("--dml-min-cases"))


class Given(NamedTuple):
    """The needs of every vector: the adapter, how to repeat it, and known failures."""

    adapter: Adapter
    start: str
    reasons: Mapping[str, str]


class Suite(pytest.Collector):
    """All vectors that the options choose."""

    def __init__(self, *, implementation: str, **own: Any) -> None:
        """Remember what to test."""
        super().__init__(**own)
        self._implementation = implementation
        self._adapter: Adapter | None = None

    def collect(self) -> Iterator[pytest.Collector]:
        """Start the adapter, and yield a collector for each file."""
        options = SimpleNamespace(
            **{name.replace("-", "_"): self.config.getoption(f"--dml-{name}") for name in NAMES}
        )
        try:
            chosen = vectors.selected(options)
            self._adapter = self._adapter or adapters.start(
                self._implementation, options.time_limit
            )
            reasons = expected.reasons(options, self._adapter)
            variants = runner.variants_of(self._adapter, options.variant)
        except (Malformed, NotStartable, WrongUsage) as error:
            raise self.CollectError(f"dmlax-conformance: {error}") from error
        start = start_of_command(self._implementation, options.vectors, options.time_limit)
        given = Given(self._adapter, start, reasons)
        files: dict[Path, Cases] = {}
        for vector, variant in runner.cases(self._adapter, chosen, variants):
            files.setdefault(vector.file, []).append((vector, variant))
        for path, cases in files.items():
            name = f"{path.parent.name}/{path.name}"
            own = {"name": name, "path": path, "nodeid": name}
            yield File.from_parent(self, cases=cases, given=given, **own)

    def close(self) -> None:
        """Let go of what the adapter holds."""
        if self._adapter is not None:
            adapters.close(self._adapter)


class File(pytest.Collector):
    """The vectors of one file."""

    def __init__(self, *, cases: Cases, given: Given, **own: Any) -> None:
        """Keep the cases."""
        super().__init__(**own)
        self._cases = cases
        self._given = given

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each vector and variant, named after them."""
        for vector, variant in self._cases:
            name = expected.key_of(vector.id, variant)
            own = {"vector": vector, "variant": variant, "given": self._given}
            yield Item.from_parent(self, name=name, **own)


class Item(pytest.Item):
    """One vector in one variant."""

    def __init__(self, *, vector: Vector, variant: str, given: Given, **own: Any) -> None:
        """Keep the vector; one that is expected to fail must fail."""
        super().__init__(**own)
        self._vector = vector
        self._variant = variant
        self._given = given
        if self.name in given.reasons:
            self.add_marker(pytest.mark.xfail(reason=given.reasons[self.name], strict=True))

    def runtest(self) -> None:
        """Give the vector to the adapter; raise unless the answer is exact or permitted."""
        outcome = runner.judge(self._given.adapter, self._vector, self._variant)
        judged = Judged(self._vector.operator, self._vector.is_valid, outcome.verdict)
        self.user_properties += zip(PROPERTIES, judged, strict=True)
        if outcome.verdict == "unsupported":
            self._decline("; ".join(outcome.details))
        elif outcome.verdict not in runner.PASSED:
            raise VectorFailed(Result(self._vector, self._variant, outcome, 0.0))

    def _decline(self, reason: str) -> None:
        """Skip, but not a vector that was expected to fail: it did not, and that is an error."""
        if self.name not in self._given.reasons:
            pytest.skip(reason)
        self.add_report_section("call", "verdict", f"expected to fail, and unsupported: {reason}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> Any:
        """Explain a failure as the command does."""
        if isinstance(excinfo.value, VectorFailed):
            return "\n".join(report.explain(excinfo.value.result, self._given.start))
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

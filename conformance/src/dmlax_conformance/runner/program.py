"""An implementation behind the protocol: child processes that are asked, watched and restarted."""

import queue
import shlex
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any, NamedTuple

from ..errors import AdapterFailure, Malformed, NotStartable, SpecViolation, Unsupported
from . import protocol
from .adapter import Array, Case
from .child import AHEAD, Child, Said

TIME_LIMIT = 30.0  # seconds for one answer
START_LIMIT = 120.0  # seconds to start, where nobody sets a limit
LONGEST_LINE = 256 << 20
MOST_RESTARTS = 10
CHUNK = 8  # plans that a child takes at a time: neighbours share what was compiled
SLACK = 100_000  # commas of an answer that are not between elements

Reply = Mapping[str, Array] | Exception
Asked = tuple[Case, str]


@dataclass
class Plan:
    """Questions that one child gets in a row, and the replies by place."""

    index: int
    asked: Sequence[Asked]
    by_place: dict[int, Reply] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def replies(self) -> list[Reply]:
        """The replies in the order of the questions."""
        return [self.by_place[place] for place in sorted(self.by_place)]

    @property
    def is_finished(self) -> bool:
        """True if every question has a reply."""
        return len(self.by_place) == len(self.asked)

    def finished_by(self, place: int, reply: Reply, seconds: float = 0.0) -> list["Plan"]:
        """Keep a reply, and return the plan if that is the last one."""
        self.by_place[place] = reply
        self.seconds += seconds
        return [self] if self.is_finished else []


class Question(NamedTuple):
    """A line that was sent; one about a case has a place in a plan."""

    kind: str  # the kind of answer
    line: bytes
    seq: int = 0
    most: int = SLACK  # commas in any right answer
    plan: Plan | None = None
    place: int = 0


@dataclass
class Lane:
    """A child, or none yet, with the questions that it will be asked and has been asked."""

    child: Child | None = None
    todo: deque[tuple[Plan, int]] = field(default_factory=deque)
    sent: deque[Question] = field(default_factory=deque)
    since: float = 0.0  # when the first question that was sent became the first

    def drop(self) -> None:
        """Kill the child, from which nothing is expected any more."""
        if self.child is not None:
            self.child.kill()
        self.child = None
        self.sent.clear()


class Program:
    """Asks a program; one that crashes, hangs or breaks the protocol is started again."""

    def __init__(
        self,
        command: str | Sequence[str],
        time_limit: float | None = None,
        longest_line: int = LONGEST_LINE,
        label: str | None = None,
    ) -> None:
        """Start the program once, and let it introduce itself; errors name the label."""
        self._command = _split(command) if isinstance(command, str) else list(command)
        self._label = label or shlex.join(self._command)
        self._limit = TIME_LIMIT if time_limit is None else time_limit
        self._start_limit = START_LIMIT if time_limit is None else time_limit
        self._longest = longest_line
        self._said: Said = queue.Queue(64)
        self._seq = count(1)
        self._failures = 0
        self._facts: dict[str, str] = {}
        self._hello: dict[str, Any] = {}
        self._lanes = [Lane()]
        self.unasked: list[str] = []
        self._end = weakref.finalize(self, _stop_all, self._lanes, self._said, self.unasked)
        self._start(self._lanes[0])
        while self._lanes[0].sent:
            self._receive()
        self.name, self.language, self.version = (
            str(self._hello[key]) for key in ("name", "language", "version")
        )
        said = self._hello.get
        self.variants: tuple[str, ...] = tuple(said("variants", ("default",)))
        self.usual_variants = tuple(said("usual_variants", self.variants))
        self.desc_variants = tuple(said("desc_variants", self.variants))
        self.operators: Sequence[str] | None = said("operators")
        self.dtypes, self.ranks = said("dtypes"), said("ranks")
        self.concurrent = bool(said("concurrent", False))
        self.versions: dict[str, str] | None = said("versions")
        self._encodings = frozenset(said("encodings", ()))
        self.capabilities = frozenset(said("capabilities", ()))
        if protocol.RECIPE not in self._encodings:
            self.capabilities -= {"large"}  # a line cannot hold such a tensor

    def run(self, case: Case, variant: str) -> Mapping[str, Array]:
        """Return the outputs for a case, or raise what was answered instead."""
        (plan,) = self.answers([[(case, variant)]])
        (reply,) = plan.replies
        if isinstance(reply, Exception):
            raise reply
        return reply

    def runs_on(self) -> dict[str, str]:
        """Return facts about device, driver and versions, if the program knows any."""
        lane = self._lanes[0]
        with suppress(AdapterFailure, NotStartable):
            if self._hello.get("facts"):
                self._start(lane)
                self._send(lane, Question("facts", protocol.to_line(protocol.FACTS)))
            while lane.sent:
                self._receive()
        return self._facts

    def close(self) -> None:
        """Stop every child; `unasked` then has the lines that answer no question."""
        self._end()

    def answers(self, plans: Iterable[Sequence[Asked]], jobs: int = 1) -> Iterator[Plan]:
        """Yield the plans as they are finished, up to `jobs` at a time, a child for each."""
        waiting = map(Plan, count(), plans)
        self._lanes += [Lane() for _ in range(jobs - len(self._lanes))]
        lanes = self._lanes[:jobs]
        finished: list[Plan] = []
        try:
            while True:
                for lane in lanes:  # before the last answers are judged
                    finished += self._fill(lane, waiting)
                yield from finished
                if not any(lane.sent for lane in lanes):
                    return
                finished = self._receive()
        finally:
            for lane in lanes:
                lane.todo.clear()
                if lane.sent:
                    lane.drop()

    # -- asking ---------------------------------------------------------------------------------

    def _fill(self, lane: Lane, waiting: Iterator[Plan]) -> list[Plan]:
        """Send what the child can have, and return the plans that are finished by then."""
        finished: list[Plan] = []
        while len(lane.sent) < AHEAD:
            if lane.todo:
                finished += self._ask(lane, *lane.todo.popleft())
                continue
            taken = list(islice(waiting, CHUNK))
            if not taken:
                break
            finished += [plan for plan in taken if plan.is_finished]
            lane.todo.extend((plan, place) for plan in taken for place in range(len(plan.asked)))
        return finished

    def _ask(self, lane: Lane, plan: Plan, place: int) -> list[Plan]:
        case, variant = plan.asked[place]
        seq = next(self._seq)
        case = replace(case, id=str(seq))  # tells nothing about the vector
        line = protocol.to_line(protocol.run_command(seq, case, variant, self._encodings))
        if len(line) > self._longest:
            reason = f"the question has {len(line)} bytes, more than {self._longest}"
            return plan.finished_by(place, Unsupported(reason))
        try:
            self._start(lane)
        except (AdapterFailure, NotStartable) as error:
            return plan.finished_by(place, _not_again(error))
        most = SLACK + protocol.most_values(case)
        self._send(lane, Question("answer", line, seq, most, plan, place))
        return []

    def _start(self, lane: Lane) -> None:
        """Start a child unless there is one."""
        if lane.child is not None:
            return
        if self._failures >= MOST_RESTARTS:
            raise AdapterFailure(f"not started again: it failed {self._failures} times in a row")
        try:
            lane.child = Child(self._command, self._said, self._longest)
        except NotStartable:
            self._failures += 1
            raise
        self._send(lane, Question("started", protocol.to_line(protocol.START)))

    def _send(self, lane: Lane, question: Question) -> None:
        assert lane.child is not None
        if not lane.sent:
            lane.since = time.monotonic()
        lane.sent.append(question)
        lane.child.send(question.line)

    # -- hearing --------------------------------------------------------------------------------

    def _receive(self) -> list[Plan]:
        """Wait for one line or one time limit, and return the plans that it finishes."""
        ends = [(lane.since + self._limit_of(lane), lane) for lane in self._lanes if lane.sent]
        end, lane = min(ends, key=lambda pair: pair[0])
        try:
            child, line = self._said.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            return self._fail(lane, f"no answer within {self._limit_of(lane):g} seconds")
        for lane in self._lanes:
            if lane.child is child and lane.sent:
                return self._hear(lane, line)
            if lane.child is child:  # nothing was asked: it ended, or nobody can trust it
                self.unasked += _shown([line])
                lane.drop()
        return []

    def _limit_of(self, lane: Lane) -> float:
        return self._limit if lane.sent[0].kind == "answer" else self._start_limit

    def _hear(self, lane: Lane, line: bytes) -> list[Plan]:
        """Take a line as the answer to the first question that was sent."""
        assert lane.child is not None
        question = lane.sent[0]
        if not line.endswith(b"\n"):
            return self._fail(lane, lane.child.why_unended(line))
        if line.count(b",") > question.most:
            reason = f"an answer of {len(line)} bytes has more values than were asked for"
            return self._fail(lane, reason)
        try:
            message = protocol.from_line(line, question.kind)
        except Malformed as error:
            what = "its answer to start" if question.kind == "started" else "the answer"
            broken = f"{what} breaks protocol {protocol.VERSION} at {error}"
            return self._fail(lane, "; it begins ".join((broken, *_shown([line]))))
        if message.get("seq", question.seq) != question.seq:
            seqs = f"answered seq {message['seq']} when asked seq {question.seq}"
            return self._fail(lane, seqs)
        if question.kind == "started" and "error" in message:
            return self._fail(lane, *message["error"].split("\n"))
        return self._take(lane, message)

    def _take(self, lane: Lane, message: dict[str, Any]) -> list[Plan]:
        """Keep what a message in order says, and go on to the next question."""
        assert lane.child is not None
        question = lane.sent.popleft()
        now = time.monotonic()
        seconds, lane.since = now - lane.since, now
        if question.kind == "started":
            self._hello = self._hello or message
        if question.plan is None:
            self._facts = message.get("facts", self._facts)
            return []
        self._failures = 0
        return question.plan.finished_by(question.place, _reply(message, lane.child), seconds)

    def _fail(self, lane: Lane, reason: str, *details: str) -> list[Plan]:
        """Kill the child, and let its first question about a case fail.

        The questions behind it are asked again. Raise `NotStartable` if there was no hello yet.
        """
        assert lane.child is not None
        sent, child = list(lane.sent), lane.child
        lane.drop()
        self._failures += 1
        failure = AdapterFailure(reason, *details, *child.last_words())
        if not self._hello:
            raise NotStartable("; ".join((f"{self._label}: {failure}", *failure.details)))
        cases = [(question.plan, question.place) for question in sent if question.plan]
        if not cases:
            return []
        (plan, place), *others = cases
        lane.todo.extendleft(reversed(others))
        has_started = sent[0].kind != "started"
        return plan.finished_by(place, failure if has_started else _not_again(failure))


def _not_again(error: Exception) -> AdapterFailure:
    text = str(error)
    text = text if text.startswith("not started") else f"does not start again: {text}"
    return AdapterFailure(text, *getattr(error, "details", ()))


def _reply(message: dict[str, Any], child: Child) -> Reply:
    """Return what was answered; a tensor that contradicts itself is a failure of this case."""
    try:
        return protocol.outcome(message)
    except (SpecViolation, Unsupported) as reply:
        return reply
    except AdapterFailure as error:
        return AdapterFailure(str(error), *error.details, *child.last_words())
    except Malformed as error:
        return AdapterFailure(f"the answer breaks protocol {protocol.VERSION} at {error}")
    finally:
        child.forget_complaints()


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise NotStartable(f"{command!r}: {error}") from error
    if not words:
        raise NotStartable("the command is empty")
    return words


def _shown(lines: Iterable[bytes]) -> list[str]:
    """Return how the lines begin, without empty ones, which say that a child ended."""
    return [line[:80].decode("utf-8", "backslashreplace").rstrip() for line in lines if line]


def _stop_all(lanes: list[Lane], said: Said, unasked: list[str]) -> None:
    """Stop all children, and note the lines that no question asked for."""
    children = [lane.child for lane in lanes if lane.child is not None]
    for child in children:
        child.send(protocol.to_line(protocol.STOP))
    for child in children:
        child.await_end()
    while not said.empty():
        child, line = said.get_nowait()
        unasked += _shown([line] if child in children else [])
    lanes.clear()

"""Wall-clock times of functions that return only when their work is done."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import jax

Call = Callable[[], object]
T = TypeVar("T")

CHAIN = 16  # calls in one program, where a call takes the result of the call before
APART = 6  # calls in one program that take no other call's result; XLA runs so few in turn
QUICK = 0.05  # milliseconds: quicker calls are timed several in a program
_BURST = 0.004  # seconds: quick functions are called in bursts of about this long
_MOST = 50  # calls in a burst


@dataclass(frozen=True)
class Overhead:
    """Milliseconds of a program that does nothing, with one array and with `APART` arrays."""

    ours: float = 0
    peer: float = 0
    ours_apart: float = 0
    peer_apart: float = 0

    @property
    def apart(self) -> "Overhead":
        """The overhead of a program of `APART` independent calls."""
        return Overhead(self.ours_apart, self.peer_apart)

    def facts(self) -> dict[str, float]:
        """The overhead in microseconds, for a report."""
        return {
            "no-op us": 1e3 * self.ours,
            "Identity us": 1e3 * self.peer,
            f"no-op of {APART} us": 1e3 * self.ours_apart,
            f"{APART} Identities us": 1e3 * self.peer_apart,
        }


NONE = Overhead()


@dataclass(frozen=True)
class Pair:
    """Medians in milliseconds, their ratio, and the quartiles of the ratios turn by turn."""

    ours: float
    peer: float
    ratio: float
    low: float
    high: float

    @property
    def spread(self) -> str:
        """The quartiles, for a table."""
        return f"{self.low:.2f}-{self.high:.2f}"

    def columns(
        self, unit: str, *, peer: str = "ORT", ours: str = "dmlax", calls: int = 1
    ) -> dict[str, float | str]:
        """The medians of one call in "ms" or "us", the ratio and its quartiles, for a table."""
        scale = {"ms": 1, "us": 1e3}[unit] / calls
        medians = {f"{peer} {unit}": scale * self.peer, f"{ours} {unit}": scale * self.ours}
        return {**medians, "ratio": self.ratio, "spread": self.spread}


def finish(function: Callable[..., T], *operands: object) -> T:
    """The result of a function of JAX when it is done."""
    result: T = jax.block_until_ready(function(*operands))
    return result


def alone(call: Call, repeats: int) -> float:
    """The median in milliseconds of one function that has run before."""
    return 1e3 * statistics.median(_seconds(call, 1) for _ in range(repeats))


def pair(
    ours: Call,
    peer: Call,
    repeats: int,
    overhead: Overhead = NONE,
    clock: Callable[[], float] = time.perf_counter,
) -> Pair:
    """Two functions timed in turn, so that a busy moment of the machine slows both."""
    bursts = _burst(ours), _burst(peer)
    turns = [
        (
            1e3 * _seconds(ours, bursts[0], clock) - overhead.ours,
            1e3 * _seconds(peer, bursts[1], clock) - overhead.peer,
        )
        for _ in range(repeats)
    ]
    our_median, peer_median = (statistics.median(times) for times in zip(*turns, strict=True))
    ratios = sorted(a / b for a, b in turns)
    low, high = ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
    return Pair(our_median, peer_median, our_median / peer_median, low, high)


def pair_chains(
    build: Callable[[int], tuple[Call, Call]],
    repeats: int,
    overhead: Overhead,
    is_chain: bool = True,
) -> tuple[int, Pair]:
    """Time both functions, several calls in a program if one is quick.

    Returns:
      The number of calls in a program, and the times of that program.
    """
    single = pair(*build(1), repeats, overhead)
    if min(single.ours, single.peer) >= QUICK:
        return 1, single
    if is_chain:
        return CHAIN, pair(*build(CHAIN), repeats, overhead)
    return APART, pair(*build(APART), repeats, overhead.apart)


def _burst(call: Call) -> int:
    """Warm up, and count the calls that fill a burst."""
    call()
    return max(1, min(_MOST, int(_BURST / min(_seconds(call, 1) for _ in range(3)))))


def _seconds(call: Call, times: int, clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    for _ in range(times):
        call()
    return (clock() - start) / times

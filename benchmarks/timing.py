"""Wall-clock times of functions that return only when their work is done."""

import ctypes
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

Call = Callable[[], object]

CHAIN = 16  # calls in one program
APART = 6  # the same where none takes another's result: XLA runs so few in turn
QUICK = 0.05  # milliseconds: quicker calls are timed in a chain
_BURST = 0.004  # seconds: quick functions are called in bursts of about this long
_MOST = 50  # calls in a burst
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h


@dataclass(frozen=True)
class Overhead:
    """Milliseconds that a program which does nothing takes, and one of `APART` arrays."""

    ours: float = 0
    peer: float = 0
    ours_apart: float = 0
    peer_apart: float = 0

    @property
    def apart(self) -> "Overhead":
        """The overhead of a program of `APART` calls, none of which takes another's result."""
        return Overhead(self.ours_apart, self.peer_apart)

    def facts(self) -> dict[str, float]:
        """For a table's foot and the JSON."""
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


def keep_freed_memory() -> None:
    """Have glibc keep what is freed, as the peer's arena does, and not give it back to the system.

    Else a tensor of some MiB costs page faults in each call, or costs none, by chance.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # of glibc
        mallopt(_TRIM_THRESHOLD, 1 << 30)
        mallopt(_MMAP_THRESHOLD, 1 << 25)


def finish(function: Callable[..., Any], *operands: Any) -> Any:
    """The result of a function of JAX when it is done."""
    return jax.block_until_ready(function(*operands))


def alone(call: Call, repeats: int) -> float:
    """The median in milliseconds of one function that has run before."""
    return 1e3 * statistics.median(_seconds(call, 1) for _ in range(repeats))


def pair(ours: Call, peer: Call, repeats: int, overhead: Overhead = NONE) -> Pair:
    """Two functions timed in turn, so that a busy moment of the machine meets both."""
    bursts = _burst(ours), _burst(peer)
    turns = [
        (
            1e3 * _seconds(ours, bursts[0]) - overhead.ours,
            1e3 * _seconds(peer, bursts[1]) - overhead.peer,
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
    """One call of both functions, or several where one is quick: their number, and their times."""
    found = pair(*build(1), repeats, overhead)
    if min(found.ours, found.peer) >= QUICK:
        return 1, found
    if is_chain:
        return CHAIN, pair(*build(CHAIN), repeats, overhead)
    return APART, pair(*build(APART), repeats, overhead.apart)


def _burst(call: Call) -> int:
    """Warm up, and see how many calls fill a burst."""
    call()
    return max(1, min(_MOST, int(_BURST / min(_seconds(call, 1) for _ in range(3)))))


def _seconds(call: Call, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times

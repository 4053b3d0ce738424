"""Random calls, jitted or eager, with several sets of values for each that is compiled.

    PYTHONPATH=src:tests:conformance/src python3 tests/cuda/many_calls.py matmul xla eager 0 750

draws the calls of these seeds, and prints how many of each operator there were. A call's operands
are arguments of its program. With `in_flight` behind the seeds the kernels take the tiles whose
products run on while the next begin, which no call of these sizes takes by itself; with `spans`
those of several spans.
"""

import dataclasses
import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from dmlax._core import pairs
from support import bits
from support.calls import binary as binary_calls
from support.calls import convolution as convolution_calls
from support.calls import convolution_add as convolution_add_calls
from support.calls import dynamic_quantize as dynamic_quantize_calls
from support.calls import lookup as lookup_calls
from support.calls import matmul as matmul_calls
from support.calls import pooling as pooling_calls
from support.random_calls import redraw

KINDS = {
    "matmul": matmul_calls.call,
    "binary": binary_calls.call,
    "convolution": convolution_calls.call,
    "convolution_add": convolution_add_calls.call,
    "pooling": pooling_calls.call,
    "dynamic_quantize": dynamic_quantize_calls.call,
    "lookup": lookup_calls.call,
}
SETS = 8  # a call has this many sets of values
IN_ONE_PROGRAM = 10  # calls


def arrays(x: Any) -> Iterator[np.ndarray]:
    """The arrays of a call, in its fields, dicts and tuples."""
    if isinstance(x, np.ndarray | np.generic):
        yield np.asarray(x)
    elif dataclasses.is_dataclass(x):
        for field in dataclasses.fields(x):
            yield from arrays(getattr(x, field.name))
    elif isinstance(x, dict | tuple):
        for each in x.values() if isinstance(x, dict) else x:
            yield from arrays(each)


def replaced(x: Any, others: Iterator[Any]) -> Any:
    """The call with other arrays."""
    if isinstance(x, np.ndarray | np.generic):
        return next(others)
    if dataclasses.is_dataclass(x):
        names = [field.name for field in dataclasses.fields(x)]
        return dataclasses.replace(x, **{n: replaced(getattr(x, n), others) for n in names})
    if isinstance(x, dict):
        return {key: replaced(each, others) for key, each in x.items()}
    return tuple(replaced(each, others) for each in x) if isinstance(x, tuple) else x


def redrawn(call: Any, seed: int) -> Any:
    """The call with other bytes, and its other numbers permuted and its floats scaled."""
    rng = np.random.default_rng(seed)
    return _consistent(replaced(call, (redraw(x, rng) for x in arrays(call))))


def _consistent(call: Any) -> Any:
    """The call, with what its convolution gives."""
    if not isinstance(call, convolution_add_calls.Call):
        return call
    return dataclasses.replace(call, convolved=call.convolution.expected())


def mismatches(
    kind: str, implementation: str, eager: bool, seeds: range, counts: Counter[str]
) -> Iterator[str]:
    """Runs the calls of some seeds, jitted as one program; a line for each that differs."""
    calls = [KINDS[kind](seed) for seed in seeds]

    def run(given: Any) -> Any:
        rebuilt = [replaced(each, iter(x)) for each, x in zip(calls, given, strict=True)]
        return [each(implementation) for each in rebuilt]

    function = run if eager else jax.jit(run)
    for number in range(SETS):
        drawn = calls
        if number:
            drawn = [redrawn(each, SETS * s + number) for s, each in zip(seeds, calls, strict=True)]
        found = function(jax.device_put([list(arrays(each)) for each in drawn]))
        for seed, each, got in zip(seeds, drawn, found, strict=True):
            counts[getattr(each, "operator", kind)] += 1
            wanted = each.expected()
            same = got.dtype == wanted.dtype and got.shape == wanted.shape
            if not same or (bits(got) != bits(wanted)).any():
                yield f"seed {seed}, values {number}: {each.x.shape} {each}"


def force_tiles(kind: str) -> None:
    """Has each product that is lowered take the next of some tiles."""
    from dmlax._cuda.tile import GemmProblem, Schedule, Tile
    from dmlax._operators.convolution.cuda import kernel as of_convolutions
    from dmlax._operators.matmul.cuda import kernel as of_products

    of_kinds = {
        "in_flight": (
            Tile(3, 1, 256, 64, 6, 1, in_flight=True),
            Tile(4, 1, 192, 64, 6, 1, in_flight=True),
            Tile(2, 2, 64, 32, 4, 1, in_flight=True),
            Tile(1, 1, 128, 128, 3, 1, in_flight=True),
        ),
        "spans": (
            Tile(1, 1, 64, 128, 3, 1, spans=4),
            Tile(1, 1, 32, 128, 4, 1, spans=3),
            Tile(2, 2, 64, 32, 2, 1, spans=4),
            Tile(2, 1, 128, 64, 3, 1, spans=2),
            Tile(2, 1, 128, 128, 3, 1, spans=2),
        ),
    }
    tiles = itertools.cycle(of_kinds[kind])

    def choose(problem: GemmProblem, multiprocessors: int, *others: object) -> Schedule:
        return Schedule.of(problem, next(tiles), multiprocessors)

    of_products.choose_schedule = of_convolutions.choose_schedule = choose


def main() -> None:
    """The program."""
    kind, implementation, mode, *ends = sys.argv[1:]
    first, last = map(int, ends[:2])
    if ends[2:]:
        force_tiles(ends[2])
    pairs._WORTH_A_TABLE = 0  # so that few elements take the table, too
    counts: Counter[str] = Counter()
    wrong = []
    for start in range(first, last, IN_ONE_PROGRAM):
        seeds = range(start, min(start + IN_ONE_PROGRAM, last))
        wrong += mismatches(kind, implementation, mode == "eager", seeds, counts)
        jax.clear_caches()
    print("\n".join(wrong))
    print(f"{implementation}, {mode}, {jax.devices()[0]}: {dict(counts)}, {len(wrong)} mismatches")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

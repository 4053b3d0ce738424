"""Runs random calls and compares them with what they should give, bit by bit.

    PYTHONPATH=src:tests:conformance/src python3 -m support.random_calls matmul mosaic_gpu 0 1000

checks the calls of these seeds, which `support/calls/matmul.py` draws, and prints how many there
were; DMLAX_NATIVE_ISA names the instruction set of native_cpu.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from support import bits

PACKINGS = ("rows", "panels", "", "")  # packings of a call's weights; "": they are not prepared
_IN_ONE_PROGRAM = 40  # calls: compiling is most of the time


def find_mismatches(
    draw_call: Callable[[int], Any],
    implementation: str,
    first: int,
    last: int,
    *,
    known: bool = True,
    eager: bool = False,
) -> Iterator[str]:
    """Runs the calls of seeds first to last - 1; a line for each that differs.

    The compiler knows the operands beforehand; else calls are eager, or pytrees whose leaves are
    traced.
    """
    for start in range(first, last, _IN_ONE_PROGRAM):
        calls = [draw_call(seed) for seed in range(start, min(start + _IN_ONE_PROGRAM, last))]
        leaves, structure = ([], calls) if known else jax.tree.flatten(calls)

        def run(leaves: Any, structure: Any = structure) -> Any:
            given = structure if known else jax.tree.unflatten(structure, leaves)
            return [each(implementation) for each in given]

        found = run(leaves) if eager else jax.jit(run)(leaves)
        for seed, (each, got) in enumerate(zip(calls, found, strict=True), start):
            wanted = each.expected()
            same = got.dtype == wanted.dtype and got.shape == wanted.shape
            if not same or (bits(got) != bits(wanted)).any():
                yield f"seed {seed}: {each.x.shape} {each}"


def redraw(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Other bytes; other numbers permuted, and floats scaled."""
    if x.dtype.itemsize == 1:
        limits = np.iinfo(x.dtype)
        return rng.integers(limits.min, limits.max, x.shape, x.dtype, endpoint=True)
    y = rng.permutation(x.reshape(-1)).reshape(x.shape)
    if x.dtype.kind != "f":
        return y
    with np.errstate(over="ignore", under="ignore"):
        scaled = y * x.dtype.type(rng.choice([1, 0.5, 3, -1, rng.uniform(0.5, 2)]))
    return np.where(np.isfinite(scaled) & ((scaled != 0) | (y == 0)), scaled, y)


def main(module: str, implementation: str, first: str, last: str) -> None:
    """The program."""
    calls = importlib.import_module(f"support.calls.{module}")
    wrong = list(calls.mismatches(implementation, int(first), int(last)))
    print("\n".join(wrong))
    count = int(last) - int(first)
    print(f"{implementation}, {jax.devices()[0]}: {count} calls, {len(wrong)} mismatches")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main(*sys.argv[1:])

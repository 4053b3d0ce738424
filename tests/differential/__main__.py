"""`python -m differential`: judges random graphs, and shows those that are wrong."""

import argparse
import collections
import multiprocessing
import os
import sys

import jax

from differential.graphs import describe, draw
from differential.judge import check

BAD = ("wrong", "wrong bits", "refused", "raw")
_CHUNK = 25


def judge_chunk(start: int, count: int) -> list[tuple[int, str, str]]:
    """Judges some graphs; a process keeps no program of them."""
    found = [(seed, *check(seed)) for seed in range(start, start + count)]
    jax.clear_caches()
    return found


def main() -> int:
    """Prints bad graphs and counts of verdicts; returns 1 if there is a bad one."""
    parser = argparse.ArgumentParser("python -m differential", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=3000, help="how many graphs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--show", type=int, default=10, help="the most bad graphs to print")
    options = parser.parse_args()
    end = options.start + options.count
    chunks = [(i, min(_CHUNK, end - i)) for i in range(options.start, end, _CHUNK)]
    verdicts: collections.Counter[str] = collections.Counter()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for found in pool.starmap(judge_chunk, chunks, 1):
            for seed, verdict, why in found:
                verdicts[verdict] += 1
                if verdict in BAD and sum(verdicts[each] for each in BAD) <= options.show:
                    print(
                        f"--- {verdict}, seed {seed}: {why}\n{describe(draw(seed)[0])}", flush=True
                    )
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))
    return int(any(verdicts[each] for each in BAD))


if __name__ == "__main__":
    sys.exit(main())

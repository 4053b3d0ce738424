"""`python -m tools.differential`: judges random graphs, and shows those that are wrong."""

import argparse
import collections
import concurrent.futures
import multiprocessing
import sys

from tools.differential import functions
from tools.differential.graphs import describe, draw
from tools.differential.judge import check_all

BAD = ("wrong", "wrong bits", "batch", "refused", "raw")
_CHUNK = 25


def main() -> int:
    """Prints bad graphs and counts of verdicts; returns 1 if there is a bad one."""
    parser = argparse.ArgumentParser("python -m tools.differential", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=3000, help="how many graphs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--show", type=int, default=10, help="the most bad graphs to print")
    parser.add_argument("--from-jax", action="store_true", help="functions that from_jax writes")
    options = parser.parse_args()
    check = functions.check_all if options.from_jax else check_all
    end = options.start + options.count
    chunks = [range(i, min(i + _CHUNK, end)) for i in range(options.start, end, _CHUNK)]
    verdicts: collections.Counter[str] = collections.Counter()
    spawn = multiprocessing.get_context("spawn")  # JAX's threads outlive no fork
    with concurrent.futures.ProcessPoolExecutor(mp_context=spawn) as pool:
        for found in pool.map(check, chunks):
            for seed, verdict, why in found:
                verdicts[verdict] += 1
                if verdict in BAD and sum(verdicts[each] for each in BAD) <= options.show:
                    graph = "" if options.from_jax else f"\n{describe(draw(seed)[0])}"
                    print(f"--- {verdict}, seed {seed}: {why}{graph}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))
    return int(any(verdicts[each] for each in BAD))


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tools.litert`: random files of one operator or a small network, beside LiteRT."""

import argparse
import collections
import sys
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import dmlax.litert
from dmlax.errors import UnsupportedError
from tools.litert.cases import CASES, ROWS
from tools.litert.compare import difference, draw_inputs
from tools.litert.files import model
from tools.litert.networks import NETWORKS

RESOLVERS = {"xnnpack": OpResolverType.AUTO, "reference": OpResolverType.BUILTIN_REF}
_NAMES = [*sorted(CASES), *sorted(NETWORKS)]
_CALLS = 2  # so that a state is seen
_RECORDED, _MOST_DRAWN = 2, 20  # files of a case; LiteRT refuses a few


def main() -> int:
    """Prints files that differ and counts; returns 1 if there is one."""
    parser = argparse.ArgumentParser("python -m tools.litert", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=5000, help="how many files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", choices=_NAMES, action="append", help="only these")
    parser.add_argument("--resolver", choices=sorted(RESOLVERS), help="only this one")
    parser.add_argument("--record", type=Path, help="write files and LiteRT's outputs here")
    arguments = parser.parse_args()
    if arguments.record:
        return record(arguments.record)
    verdicts: collections.Counter[str] = collections.Counter()
    names = arguments.case or _NAMES
    for i in range(arguments.count):
        name, seed = names[i % len(names)], arguments.seed + i
        data, rng = draw(name, seed)
        for resolver in [arguments.resolver] if arguments.resolver else RESOLVERS:
            verdict = judge(data, resolver, rng)
            kind = verdict.partition(":")[0]
            verdicts[kind] += 1
            if kind in ("wrong", "error"):
                print(f"{name} seed {seed} {resolver} {verdict}")
                verdicts[f"wrong {name} {resolver}"] += 1
    print(", ".join(f"{kind} {count}" for kind, count in sorted(verdicts.items())))
    return int(any(verdicts[kind] for kind in ("wrong", "error")))


def draw(name: str, seed: int) -> tuple[bytes, np.random.Generator]:
    """The bytes of a random file, and the generator of its inputs."""
    rng = np.random.default_rng([seed, *name.encode()])
    graphs = NETWORKS[name](rng) if name in NETWORKS else [CASES[name](rng)]
    return model(*graphs), rng


def peer_of(data: bytes, resolver: str) -> Any:
    """LiteRT's interpreter of a file, None if it refuses the file."""
    try:
        peer = Interpreter(model_content=data, experimental_op_resolver_type=RESOLVERS[resolver])
        peer.allocate_tensors()
    except (RuntimeError, ValueError):
        return None
    return peer


def run(peer: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """LiteRT's outputs by name."""
    for detail in peer.get_input_details():
        peer.set_tensor(detail["index"], inputs[detail["name"]])
    peer.invoke()
    found = {x["name"]: peer.get_tensor(x["index"]).copy() for x in peer.get_output_details()}
    for name in [name for name in found if name.startswith(ROWS)]:
        count = int(found[name][0]) * int(name.removeprefix(ROWS))
        for other in (x for x in found.values() if x.ndim > 1):
            other[:, count:] = 0  # LiteRT leaves there what was in memory
    return found


def judge(data: bytes, resolver: Any, rng: np.random.Generator) -> str:
    """Says how the outputs of a file compare."""
    if (peer := peer_of(data, resolver)) is None:
        return "refused by LiteRT"
    try:
        ours = dmlax.litert.load(data, arithmetic=resolver)
    except UnsupportedError as error:
        return f"not known: {error}"
    except Exception as error:
        return f"error: {type(error).__name__}: {error}"
    state: Any = ours.init_state()
    for _ in range(_CALLS):
        inputs = draw_inputs({x["name"]: x for x in peer.get_input_details()}, rng)
        outputs, state = ours.step(state, inputs)
        for name, wanted in run(peer, inputs).items():
            if problem := difference(np.asarray(outputs[name]), wanted):
                return f"wrong: {problem}"
    return "equal"


def record(path: Path) -> int:
    """Writes files, inputs and LiteRT's outputs of both resolvers to an archive."""
    arrays: dict[str, np.ndarray] = {}
    for name in _NAMES:
        found, seed = 0, 0
        while found < _RECORDED and seed < _MOST_DRAWN:
            data, rng = draw(name, seed)
            seed += 1
            peers = {each: peer_of(data, each) for each in RESOLVERS}
            if None in peers.values():
                continue
            key = f"{name}/{found}"
            arrays[f"{key}/model"] = np.frombuffer(data, np.uint8)
            for call in range(_CALLS):
                details = {x["name"]: x for x in peers["xnnpack"].get_input_details()}
                inputs = draw_inputs(details, rng)
                arrays |= {f"{key}/{call}/input/{x}": array for x, array in inputs.items()}
                for resolver, peer in peers.items():
                    outputs = run(peer, inputs).items()
                    arrays |= {f"{key}/{call}/{resolver}/{x}": array for x, array in outputs}
            found += 1
    np.savez_compressed(path, **arrays)
    print(f"{len(arrays)} arrays, {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m dmlax.onnx`: lists, compares, digests, times and profiles a model."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np

from dmlax.errors import UnsupportedError
from dmlax.onnx import Model, load, peer
from dmlax.onnx.differences import difference_of, print_differences, print_total
from dmlax.onnx.digest import digest, first_difference, heading
from dmlax.onnx.inputs import draw_inputs
from dmlax.onnx.nodes import count_outputs, run_nodes
from dmlax.onnx.profile import profile
from dmlax.onnx.progress import counted, stage

_SECONDS, _FEWEST_CALLS = 3.0, 5  # a benchmark takes at least these
_OPTIONS = {  # of the command, for arguments of `load`
    "constants": "--constant NAME=VALUE",
    "input_shapes": "--shape NAME=SIZES",
    "nonzero_size": "--nonzero-size ROWS",
}
Tensors: TypeAlias = Mapping[str, np.ndarray]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Returns:
      0; 1 where a tensor or a digest differs; 2 where the model cannot be loaded or compared.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.html and not options.profile:
        parser.error("--html needs --profile")
    if (options.tensors or options.expect or options.steps) and not options.digest:
        parser.error("--tensors, --expect and --steps need --digest")
    try:
        return _run(options)
    except _errors() as error:
        print(error, *_as_options(str(error)), sep="\n", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    if options.html:
        options.html.open("a").close()  # a file that cannot be written is an error at once
    with stage("loading"):
        model = _load(options)
    if options.digest:
        return _digest(model, options)
    _list(model, options.model)
    compares = [_compare] * options.compare + [_compare_nodes] * options.nodes
    if not (compares or options.bench or options.profile):
        return 0
    inputs, theirs = _inputs(model, options), dict[str, np.ndarray]()
    if compares:
        with stage("running ONNX Runtime"):
            theirs = peer.run_every_tensor(peer.fuse(options.model), inputs)
    differ = [compare(model, inputs, theirs) for compare in compares]
    if options.bench:
        _bench(model, options.model, inputs)
    if options.profile:
        times = profile(model, inputs)
        print(times)
        if options.html:
            options.html.write_text(times.html(), encoding="utf-8")
    return int(any(differ))


def _as_options(message: str) -> list[str]:
    """The command's options for the arguments of `load` that a message names."""
    named = [f"{option} for {name}=" for name, option in _OPTIONS.items() if f"{name}=" in message]
    return [f"  here: {', '.join(named)}"] if named else []


def _errors() -> tuple[type[Exception], ...]:
    return (UnsupportedError, ImportError, OSError, ValueError, *peer.errors())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m dmlax.onnx", description=__doc__)
    parser.add_argument("model", type=Path, help="an ONNX file, or one that Model.save wrote")
    parser.add_argument("--compare", action="store_true", help="with ONNX Runtime, every tensor")
    parser.add_argument(
        "--nodes", action="store_true", help="each node, computed from ONNX Runtime's tensors"
    )
    parser.add_argument("--bench", action="store_true", help="time a call, and ONNX Runtime's")
    parser.add_argument("--profile", action="store_true", help="time each node of a call")
    parser.add_argument(
        "--digest", action="store_true", help="print the SHA-256 of each output, and nothing else"
    )
    parser.add_argument("--tensors", action="store_true", help="digest every tensor")
    parser.add_argument("--steps", type=int, default=0, help="digest so many steps of a decoder")
    parser.add_argument("--expect", type=Path, help="an earlier digest, which has to be the same")
    parser.add_argument("--html", type=Path, help="write the profile as a page to this file")
    parser.add_argument("--inputs", type=Path, help="an .npz file of inputs; else likely ones")
    parser.add_argument(
        "--arithmetic", choices=("exact", "float32"), help="default of a digest exact"
    )
    parser.add_argument(
        "--nonzero-size", type=int, help="the rows of every NonZero, Compress and NonMaxSuppression"
    )
    parser.add_argument(
        "--constant", action="append", default=[], help="the value of an input, as name=[1, 2]"
    )
    parser.add_argument(
        "--shape", action="append", default=[], help="of an input, as name=1,3,224,224"
    )
    return parser


def _load(options: argparse.Namespace) -> Model:
    return load(
        options.model,
        arithmetic=options.arithmetic or ("exact" if options.digest else None),
        nonzero_size=options.nonzero_size,
        input_shapes=dict(map(_named_shape, options.shape)),
        constants=dict(map(_named_value, options.constant)),
    )


def _named_value(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, json.loads(value.lower())


def _named_shape(text: str) -> tuple[str, tuple[int | str, ...]]:
    name, _, sizes = text.rpartition("=")
    return name, tuple(int(size) if size.isdigit() else size for size in sizes.split(","))


def _list(model: Model, path: Path) -> None:
    """Prints the nodes, what runs, and sizes."""
    print(model)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(model.params))
    print(f"{path.stat().st_size / 1e6:.1f} MB, params {size / 1e6:.1f} MB")
    with stage("explaining"):
        explanation = model.explain({name: _of_batch_1(x) for name, x in model.inputs.items()})
    print(explanation)


def _of_batch_1(struct: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    """An input of one image where the batch is dynamic, as most kernels need its size."""
    batch = [1 if not isinstance(size, int) else size for size in struct.shape[:1]]
    return jax.ShapeDtypeStruct((*batch, *struct.shape[1:]), struct.dtype)


def _inputs(model: Model, options: argparse.Namespace) -> dict[str, np.ndarray]:
    if options.inputs:
        with np.load(options.inputs, allow_pickle=False) as file:
            return dict(file)
    return draw_inputs(model._saved, model.inputs)


def _digest(model: Model, options: argparse.Namespace) -> int:
    """Prints the digests of the tensors; 1 if they are not those of a file."""
    inputs, first = _inputs(model, options), heading(model)
    if options.steps:  # the caches are no inputs of a step
        inputs = {name: x for name, x in inputs.items() if name in model._slots.given()}
    found = digest(model, inputs, tensors=options.tensors, steps=options.steps)
    print(first, *found, sep="\n")
    difference = options.expect and first_difference(options.expect, first, found)
    if difference:
        print(difference, file=sys.stderr)
    return int(bool(difference))


def _compare(model: Model, inputs: Tensors, theirs: Tensors) -> bool:
    """Prints the tensors that differ, the first one on top; True if there are any."""
    print(f"dmlax follows ONNX Runtime {peer.FOLLOWS}; {peer.version()} is installed")
    known, outputs = model.tensors(), list(model.outputs)
    names = [name for name in theirs if name in known and name not in outputs]
    names += [name for name in outputs if name in theirs]
    with stage("computing every tensor"):
        ours = jax.block_until_ready(model.apply(model.params, inputs, outputs=names))
    producers = model._saved.producers
    differences = [
        difference_of(name, producers[name].type if name in producers else "", ours[name], x)
        for name, x in counted([(name, theirs[name]) for name in names], "comparing", len(names))
    ]
    different = [x for x in differences if x.different and x.name not in outputs]
    print_total(differences)
    if different:
        print(f"the first tensor that differs, in the file's order: {different[0]}")
    print_differences(different[1:])
    for difference in differences:
        if difference.name in outputs:
            print(f"output {difference}")
    return any(x.different for x in differences)


def _compare_nodes(model: Model, inputs: Tensors, theirs: Tensors) -> bool:
    """Computes each node from ONNX Runtime's tensors, and prints the operators that differ."""
    results, count = run_nodes(model, {**inputs, **theirs}), count_outputs(model)
    differences = [
        difference_of(name, f"{node.type} {node.name!r}", value, theirs[name])
        for node, name, value in counted(results, "computing outputs of nodes", count)
        if name in theirs
    ]
    print("each node computed from ONNX Runtime's tensors:")
    print_total(differences)
    different = [x for x in differences if x.different]
    print(f"operators that differ: {', '.join(sorted({x.kind for x in different})) or 'none'}")
    print_differences(different)
    return bool(different)


def _bench(model: Model, file: Path, inputs: Tensors) -> None:
    """Prints the medians of calls, taken in turn; also ONNX Runtime's where it is installed."""
    session = peer.start(file) if find_spec("onnxruntime") else None
    arrays = jax.tree.map(jax.numpy.asarray, inputs)
    calls: dict[str, Callable[[], object]] = {"dmlax": lambda: jax.block_until_ready(model(arrays))}
    if session is not None:
        calls["onnxruntime"] = lambda: peer.run(session, inputs)
    with stage("compiling"):
        first = _time(calls["dmlax"])
    print(f"first call {first:.2f} s")
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + _SECONDS
    with stage("timing calls"):
        while time.perf_counter() < end or len(times["dmlax"]) < _FEWEST_CALLS:
            for name, call in calls.items():
                times[name].append(_time(call))
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    for name, median in medians.items():
        print(f"{name}: {1e3 * median:.2f} ms a call")
    if session is not None:
        ratio = medians["dmlax"] / medians["onnxruntime"]
        print(f"dmlax takes {ratio:.2f} of ONNX Runtime's time")


def _time(call: Callable[[], object]) -> float:
    """The seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())

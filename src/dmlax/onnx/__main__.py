"""`python -m dmlax.onnx`: lists, compares and times a model."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import jax
import numpy as np

from dmlax.errors import UnsupportedError
from dmlax.onnx import Model, load, peer
from dmlax.onnx.differences import difference_of, print_differences, print_total
from dmlax.onnx.inputs import draw_inputs
from dmlax.onnx.nodes import run_nodes

_SECONDS, _FEWEST_CALLS = 3.0, 5  # a benchmark takes at least these
_Item = TypeVar("_Item")
Tensors: TypeAlias = Mapping[str, np.ndarray]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Returns:
      0; 1 where a tensor differs; 2 where the model cannot be loaded or compared.
    """
    options = _parser().parse_args(arguments)
    try:
        model = _load(options)
        _list(model, options.model)
        compares = [_compare] * options.compare + [_compare_nodes] * options.nodes
        if not (compares or options.bench):
            return 0
        inputs = _inputs(model, options)
        session = peer.start(options.model) if compares or find_spec("onnxruntime") else None
        theirs = peer.run_every_tensor(peer.fuse(options.model), inputs) if compares else {}
        differ = [compare(model, inputs, theirs) for compare in compares]
    except _errors() as error:
        print(error, file=sys.stderr)
        return 2
    if options.bench:
        _bench(model, session, inputs)
    return int(any(differ))


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
    parser.add_argument("--inputs", type=Path, help="an .npz file of inputs; else likely ones")
    parser.add_argument("--arithmetic", choices=("exact", "float32"))
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
        arithmetic=options.arithmetic,
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
    print(model.explain({name: _of_batch_1(struct) for name, struct in model.inputs.items()}))


def _of_batch_1(struct: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    """An input of one image where the batch is dynamic, as most kernels need its size."""
    batch = [1 if not isinstance(size, int) else size for size in struct.shape[:1]]
    return jax.ShapeDtypeStruct((*batch, *struct.shape[1:]), struct.dtype)


def _inputs(model: Model, options: argparse.Namespace) -> dict[str, np.ndarray]:
    if options.inputs:
        with np.load(options.inputs, allow_pickle=False) as file:
            return dict(file)
    return draw_inputs(model._saved, model.inputs)


def _compare(model: Model, inputs: Tensors, theirs: Tensors) -> bool:
    """Prints the tensors that differ, the first one on top; True if there are any."""
    print(f"dmlax follows ONNX Runtime {peer.FOLLOWS}; {peer.version()} is installed")
    known, outputs = model.tensors(), list(model.outputs)
    names = [name for name in theirs if name in known and name not in outputs]
    names += [name for name in outputs if name in theirs]
    ours = model.apply(model.params, inputs, outputs=names)
    producers = model._saved.producers
    differences = [
        difference_of(name, producers[name].type if name in producers else "", ours[name], x)
        for name, x in _progress([(name, theirs[name]) for name in names], "comparing")
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
    differences = [
        difference_of(name, f"{node.type} {node.name!r}", value, theirs[name])
        for node, name, value in _progress(list(run_nodes(model, {**inputs, **theirs})), "nodes")
        if name in theirs
    ]
    print("each node computed from ONNX Runtime's tensors:")
    print_total(differences)
    different = [x for x in differences if x.different]
    print(f"operators that differ: {', '.join(sorted({x.kind for x in different})) or 'none'}")
    print_differences(different)
    return bool(different)


def _progress(items: Sequence[_Item], what: str) -> Iterable[_Item]:
    """A progress bar where `rich` is installed and a terminal is there."""
    try:
        from rich.progress import track
    except ImportError:
        return items
    return track(items, what) if sys.stderr.isatty() else items


def _bench(model: Model, session: peer.InferenceSession | None, inputs: Tensors) -> None:
    """Prints the medians of calls, taken in turn."""
    arrays = jax.tree.map(jax.numpy.asarray, inputs)
    calls: dict[str, Callable[[], object]] = {"dmlax": lambda: jax.block_until_ready(model(arrays))}
    if session is not None:
        calls["onnxruntime"] = lambda: peer.run(session, inputs)
    print(f"first call {_time(calls['dmlax']):.2f} s")
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + _SECONDS
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

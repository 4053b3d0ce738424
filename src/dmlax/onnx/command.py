"""`python -m dmlax.onnx`: lists, compares and times a model."""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dmlax.errors import SpecError, UnsupportedError
from dmlax.onnx import Model, ModelError, load, peer

_SEED = 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Returns:
      0; 1 where a tensor differs; 2 where the model cannot be loaded or compared.
    """
    options = _parser().parse_args(arguments)
    try:
        model = _load(options)
    except (SpecError, UnsupportedError, ModelError, ImportError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    _list(model, options.model)
    if not (options.compare or options.bench):
        return 0
    try:
        inputs = _inputs(model, options)
        session = peer.start(options.model) if options.compare or find_spec("onnxruntime") else None
    except (SpecError, ValueError, ImportError) as error:
        print(error, file=sys.stderr)
        return 2
    differ = options.compare and _compare(model, options.model, inputs)
    if options.bench:
        _bench(model, session, inputs)
    return 1 if differ else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m dmlax.onnx", description=__doc__)
    parser.add_argument("model", type=Path, help="an ONNX file, or one that Model.save wrote")
    parser.add_argument("--compare", action="store_true", help="with ONNX Runtime, every tensor")
    parser.add_argument("--bench", action="store_true", help="time a call, and ONNX Runtime's")
    parser.add_argument("--inputs", type=Path, help="an .npz file of inputs; else random ones")
    parser.add_argument("--arithmetic", choices=("exact", "float32"))
    parser.add_argument(
        "--nonzero-size", type=int, help="the rows of every NonZero, Compress and NonMaxSuppression"
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
    )


def _named_shape(text: str) -> tuple[str, tuple[int | str, ...]]:
    name, _, sizes = text.rpartition("=")
    return name, tuple(int(size) if size.isdigit() else size for size in sizes.split(","))


def _list(model: Model, path: Path) -> None:
    """Prints the nodes, what runs, and sizes."""
    print(model)
    print(f"{path.stat().st_size / 1e6:.1f} MB, params {_size(model.params) / 1e6:.1f} MB")
    print(model.explain({name: _of_batch_1(struct) for name, struct in model.inputs.items()}))


def _of_batch_1(struct: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    """An input of one image where the batch is dynamic, as most kernels need its size."""
    batch = [1 if not isinstance(size, int) else size for size in struct.shape[:1]]
    return jax.ShapeDtypeStruct((*batch, *struct.shape[1:]), struct.dtype)


def _size(params: Any) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(params))


def _inputs(model: Model, options: argparse.Namespace) -> dict[str, np.ndarray]:
    if options.inputs:
        with np.load(options.inputs, allow_pickle=False) as file:
            return dict(file)
    generator = np.random.default_rng(_SEED)
    return {name: _random(generator, struct) for name, struct in model.inputs.items()}


def _random(generator: np.random.Generator, struct: jax.ShapeDtypeStruct) -> np.ndarray:
    """A random array; a dynamic size is 1."""
    shape = tuple(size if isinstance(size, int) else 1 for size in struct.shape)
    dtype = np.dtype(struct.dtype)
    if dtype.kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    return generator.integers(0, 2 if dtype.itemsize > 1 else 100, shape).astype(dtype)


def _compare(model: Model, path: Path, inputs: dict[str, np.ndarray]) -> bool:
    """Prints the tensors that differ, in the file's order; True if there are any."""
    print(f"dmlax follows ONNX Runtime {peer.FOLLOWS}; {peer.version()} is installed")
    theirs = peer.run_every_tensor(peer.fuse(path), inputs)
    known = model.tensors()
    names = [name for name in theirs if name in known]
    ours = model.apply(model.params, inputs, outputs=names)
    total = different = 0
    for name in _progress(names, "comparing"):
        count, size, worst = _difference(np.asarray(ours[name]), theirs[name])
        total, different = total + size, different + count
        if count:
            print(f"{name}: {count} of {size} elements differ, by at most {worst:g}")
    print(f"{len(names)} tensors, {total} elements: {different} differ")
    return different > 0


def _difference(ours: np.ndarray, theirs: np.ndarray) -> tuple[int, int, float]:
    """The number of different elements, of all of them, and the largest difference."""
    if ours.shape != theirs.shape:
        return theirs.size, theirs.size, float("inf")
    same = (ours == theirs) | ((ours != ours) & (theirs != theirs))
    gap = np.abs(ours[~same].astype(np.float64) - theirs[~same].astype(np.float64))
    return int((~same).sum()), theirs.size, float(gap.max(initial=0))


def _progress(items: Sequence[Any], what: str) -> Iterable[Any]:
    """A progress bar where `rich` is installed and a terminal is there."""
    try:
        from rich.progress import track
    except ImportError:
        return items
    return track(items, what) if sys.stderr.isatty() else items


def _bench(model: Model, session: Any, inputs: dict[str, np.ndarray]) -> None:
    """Prints the medians of calls, taken in turn."""
    arrays = jax.tree.map(jax.numpy.asarray, inputs)
    calls: dict[str, Callable[[], Any]] = {"dmlax": lambda: jax.block_until_ready(model(arrays))}
    if session is not None:
        calls["onnxruntime"] = lambda: session.run(None, inputs)
    start = time.perf_counter()
    calls["dmlax"]()
    print(f"first call {time.perf_counter() - start:.2f} s")
    times: dict[str, list[float]] = {name: [] for name in calls}
    for name in _rounds(calls):
        start = time.perf_counter()
        calls[name]()
        times[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(each) for name, each in times.items()}
    for name, median in medians.items():
        print(f"{name}: {1e3 * median:.2f} ms a call")
    if session is not None:
        ratio = medians["dmlax"] / medians["onnxruntime"]
        print(f"dmlax takes {ratio:.2f} of ONNX Runtime's time")


def _rounds(names: Iterable[str], seconds: float = 3.0) -> Iterator[str]:
    """The names in turn, for some seconds and at least five times."""
    names, end, count = list(names), time.perf_counter() + seconds, 0
    while count < 5 or time.perf_counter() < end:
        yield from names
        count += 1

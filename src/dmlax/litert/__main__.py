"""`python -m dmlax.litert`: lists a model, and compares it with LiteRT."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import jax
import numpy as np

from dmlax.errors import UnsupportedError
from dmlax.litert import Arithmetic, load, read_source
from dmlax.litert.peer import FOLLOWS, Peer
from dmlax.onnx.differences import difference_of, print_differences, print_total
from dmlax.onnx.inputs import draw_inputs
from dmlax.onnx.nodes import count_outputs, run_nodes
from dmlax.onnx.progress import counted, stage


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Returns:
      0; 1 where a tensor differs; 2 where the model cannot be loaded or compared.
    """
    parser = argparse.ArgumentParser("python -m dmlax.litert", description=__doc__)
    parser.add_argument("model", type=Path, help="a .tflite file, or a bundle of them")
    parser.add_argument("--member", help="the file of a bundle")
    parser.add_argument("--arithmetic", choices=get_args(Arithmetic), default="xnnpack")
    parser.add_argument("--compare", action="store_true", help="with LiteRT, every tensor")
    parser.add_argument("--nodes", action="store_true", help="each node, from LiteRT's tensors")
    parser.add_argument("--inputs", type=Path, help="an .npz file of inputs; else random ones")
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except (UnsupportedError, ImportError, OSError, ValueError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    data = read_source(options.model, options.member)
    with stage("loading"):
        model = load(data, arithmetic=options.arithmetic)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(model.params))
    with stage("explaining"):
        explanation = model.explain()
    print(f"{model}\n{len(data) / 1e6:.1f} MB, params {size / 1e6:.1f} MB\n{explanation}")
    if not (options.compare or options.nodes):
        return 0
    if options.inputs:
        with np.load(options.inputs, allow_pickle=False) as file:
            inputs = dict(file)
    else:
        inputs = draw_inputs(model._saved, model.inputs)
    print(f"dmlax follows LiteRT {FOLLOWS}, arithmetic {options.arithmetic}")
    with stage("running LiteRT"):
        theirs = Peer(data, options.arithmetic).run(inputs)
    graph, differ = model._saved, False
    producers = {name: f"{node.op} {node.name!r}" for name, node in graph.producers.items()}
    if options.compare:
        names = [name for name in theirs if name in model.tensors()]
        with stage("computing every tensor"):
            ours = jax.block_until_ready(model.apply(model.params, inputs, outputs=names))
        pairs = [(producers.get(name, ""), name, np.asarray(ours[name])) for name in names]
        differ |= _show("each tensor, from the inputs on:", pairs, theirs)
    if options.nodes:
        tensors = {**inputs, **{name: np.asarray(x) for name, x in model.init_state().items()}}
        results = run_nodes(model, {**tensors, **theirs})
        found = counted(results, "computing outputs of nodes", count_outputs(model))
        pairs = [
            (producers.get(name, ""), name, np.asarray(value))
            for _, name, value in found
            if name in theirs
        ]
        differ |= _show("each node computed from LiteRT's tensors:", pairs, theirs)
    return int(differ)


def _show(
    title: str, pairs: Sequence[tuple[str, str, np.ndarray]], theirs: dict[str, np.ndarray]
) -> bool:
    """Prints the tensors that differ; True if there are any."""
    found = [difference_of(name, operator, value, theirs[name]) for operator, name, value in pairs]
    print(title)
    print_total(found)
    different = [x for x in found if x.different]
    print_differences(different)
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())

"""Work split over all the attached GPUs: bits first, then the wall time of one call in a row.

    python -m benchmarks.gpu_sharding > ours
    python -m benchmarks.gpu_sharding --table ours

A model's batch is split, by `jax.shard_map`, in which each GPU runs kernels, and automatically,
where the compiler splits what `xla` runs. Single operators are split over output channels likewise.
Outputs are compared with one GPU's, and collectives are read in the compiled program. The second
command writes results/.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from rich.console import Console

import dmlax
import dmlax.onnx
from benchmarks import gpu_models, networks, report, timing

BATCH = 128  # images of one GPU
SCALING = 0.975  # of as many times one GPU's images a second
IN_A_ROW = 20  # calls
AXIS = "gpu"
WAYS = ("shard_map", "automatic")
SPLIT, WHOLE = PartitionSpec(AXIS), PartitionSpec()
COLLECTIVE = re.compile(
    r"= (\S+) (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\("
)


@dataclass(frozen=True)
class Work:
    """A function of operands, and how these and its outputs are split."""

    name: str
    call: Callable[..., Any]
    operands: tuple[Any, ...]
    specs: tuple[PartitionSpec, ...]
    output: PartitionSpec


def main() -> None:
    """Print a line of JSON for the machine, then one for each way to split each work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="*", default=["resnet50"], choices=gpu_models.NETWORKS)
    parser.add_argument("--files", type=Path, help="folder of quantized files to use or write")
    parser.add_argument("--table", type=Path, help="file of what the first command printed")
    options = parser.parse_args()
    if options.table:
        return _write(*report.read_lines(options.table))
    devices = jax.devices()
    if len(devices) < 2:
        raise SystemExit(f"needs several devices, and JAX sees {devices}")
    facts = {"devices": len(devices), "times": f"wall time of one of {IN_A_ROW} calls in a row"}
    print(json.dumps(report.environment() | facts), flush=True)
    mesh = jax.make_mesh((len(devices),), (AXIS,), axis_types=(AxisType.Auto,))
    for work in _operators():
        for row in _operator_rows(work, mesh):
            print(json.dumps(row), flush=True)
    for name in options.networks:
        file = gpu_models.quantized_file(name, options.files)
        for row in _model_rows(name, file, mesh):
            print(json.dumps(row), flush=True)
    return None


def _model_rows(name: str, file: Any, mesh: jax.sharding.Mesh) -> Iterator[dict[str, Any]]:
    """One GPU's batch, one batch split, and a batch of each GPU."""
    model = dmlax.onnx.load(file)
    inputs = networks.draw_inputs(file, BATCH * mesh.size, seed=1)
    parts = [
        {key: x[start : start + BATCH] for key, x in inputs.items()}
        for start in range(0, BATCH * mesh.size, BATCH)
    ]
    one = jax.jit(model.apply)
    given = jax.device_put((model.params, parts[0]), mesh.devices.flat[0])
    alone = _in_a_row_ms(one, *given)
    yield _model_row(name, "none", 1, BATCH, alone, 1.0, [])
    found = [jax.tree.map(np.asarray, one(given[0], part)) for part in parts]
    wanted = jax.tree.map(lambda *arrays: np.concatenate(arrays), *found)
    for images, ways in ((BATCH, WAYS[:1]), (BATCH * mesh.size, WAYS)):
        few = {key: x[:images] for key, x in inputs.items()}
        work = Work(name, model.apply, (model.params, few), (WHOLE, SPLIT), SPLIT)
        for split, ms, got, collectives in _runs(work, mesh, ways):
            for key, x in got.items():
                np.testing.assert_array_equal(x, wanted[key][:images], f"{name}, {split}")
            over = images / BATCH * alone / ms
            yield _model_row(name, split, mesh.size, images, ms, over, collectives)


def _model_row(
    name: str, split: str, gpus: int, images: int, ms: float, over: float, collectives: list[str]
) -> dict[str, Any]:
    return {
        "network": name,
        "split": split,
        "GPUs": gpus,
        "images": images,
        "in a row ms": ms,
        "images/s": 1e3 * images / ms,
        "over one GPU": over,
        "collectives": ", ".join(collectives),
    }


def _operators() -> Iterator[Work]:
    """A convolution of res5 and a product of ViT-B/16, weights split by output channel."""
    rng = np.random.default_rng(0)
    convolve = partial(
        dmlax.quantized_linear_convolution,
        input_scale=0.02,
        filter_scale=0.01,
        output_scale=1.5,
        input_zero_point=np.uint8(121),
        output_zero_point=np.uint8(117),
        start_padding=(1, 1),
        end_padding=(1, 1),
        dimension_numbers=("NHWC", "OIHW", "NHWC"),
    )
    images = rng.integers(0, 256, (BATCH, 7, 7, 512), np.uint8)
    filter = rng.integers(-127, 128, (512, 512, 3, 3), np.int8)
    channels = PartitionSpec(None, None, None, AXIS)
    yield Work("3x3 over 7x7x512", convolve, (images, filter), (WHOLE, SPLIT), channels)
    a = rng.integers(0, 256, (4096, 768), np.uint8)
    b = rng.integers(-127, 128, (768, 3072), np.int8)
    multiply = partial(
        dmlax.quantized_linear_matrix_multiply,
        a_scale=0.02,
        b_scale=0.01,
        output_scale=0.6,
        a_zero_point=np.uint8(121),
        output_zero_point=np.uint8(117),
    )
    columns = PartitionSpec(None, AXIS)
    yield Work("4096x768 by 768x3072", multiply, (a, b), (WHOLE, columns), columns)


def _operator_rows(work: Work, mesh: jax.sharding.Mesh) -> Iterator[dict[str, Any]]:
    one = jax.jit(work.call)
    given = jax.device_put(work.operands, mesh.devices.flat[0])
    wanted, alone = np.asarray(one(*given)), _in_a_row_ms(one, *given)
    facts = {"operator": work.name, "split": "none", "GPUs": 1}
    yield facts | {"in a row ms": alone, "over one GPU": 1.0, "collectives": ""}
    for split, ms, got, collectives in _runs(work, mesh):
        np.testing.assert_array_equal(got, wanted, f"{work.name}, {split}")
        facts = {"operator": work.name, "split": split, "GPUs": mesh.size}
        over, text = alone / ms, ", ".join(collectives)
        yield facts | {"in a row ms": ms, "over one GPU": over, "collectives": text}


def _runs(
    work: Work, mesh: jax.sharding.Mesh, ways: Sequence[str] = WAYS
) -> Iterator[tuple[str, float, Any, list[str]]]:
    """Each way to split: its name, its milliseconds, its outputs and its collectives."""
    mapped = jax.shard_map(
        work.call, mesh=mesh, in_specs=work.specs, out_specs=work.output, check_vma=False
    )
    placed = [
        jax.device_put(operand, NamedSharding(mesh, spec))
        for operand, spec in zip(work.operands, work.specs, strict=True)
    ]
    for split in ways:
        function = mapped if split == "shard_map" else work.call
        compiled = jax.jit(function).lower(*placed).compile()
        outputs = compiled(*placed)
        shards = {len(x.sharding.device_set) for x in jax.tree.leaves(outputs)}
        assert shards == {mesh.size}, f"{work.name}, {split}: outputs lie on {shards} devices"
        text = compiled.as_text() or ""
        collectives = [" ".join(each[::-1]) for each in COLLECTIVE.findall(text)]
        found = jax.tree.map(np.asarray, outputs)
        yield split, _in_a_row_ms(compiled, *placed), found, collectives


def _in_a_row_ms(call: Callable[..., Any], *operands: Any) -> float:
    def call_in_a_row() -> None:
        jax.block_until_ready([call(*operands) for _ in range(IN_A_ROW)])

    call_in_a_row()
    return timing.alone(call_in_a_row, 7) / IN_A_ROW


def _write(facts: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """The tables and their targets, shown and written."""
    batches = report.Report("batches split over GPUs")
    batches.rows = [row for row in rows if "network" in row]
    channels = report.Report("operators split over output channels")
    channels.rows = [row for row in rows if "operator" in row]
    for row in batches.rows:
        if row["split"] == "shard_map" and row["images"] == BATCH * row["GPUs"]:
            what = f"{row['network']}, {BATCH} images a GPU: images/s over one GPU's"
            limit = SCALING * row["GPUs"]
            target = report.Target(what, row["over one GPU"], limit, at_least=True)
            batches.targets.append(target)
    found = [each for each in (batches, channels) if each.rows]
    for each in found:
        each.show(Console())
    report.write_of_gpu("sharding", found, facts)


if __name__ == "__main__":
    main()

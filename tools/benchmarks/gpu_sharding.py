"""Work split over all the attached GPUs: bits first, then the wall time of one call in a row.

    python -m tools.benchmarks gpu_sharding > lines
    python -m tools.benchmarks gpu_sharding --table lines --json FILE

A model's batch is split by `jax.shard_map`, where every GPU runs kernels, and automatically, where
the compiler splits what `xla` runs. Single operators are split over output channels in both ways.
Outputs are compared with one GPU's. The collectives are those of the compiled program.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import onnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import dmlax
import dmlax.onnx
from tools.benchmarks import gpu, gpu_models, report
from tools.benchmarks.options import ONLY, option
from tools.benchmarks.report import Report, Row
from tools.zoo import networks

_TABLE = option("--table", type=Path, metavar="LINES", help="make the tables of the lines")
OPTIONS = (_TABLE, ONLY.with_default("resnet50"), gpu.FILES)
_BATCH = 128  # images of one GPU
_SCALING = 0.975  # of as many times one GPU's images a second
_AXIS = "gpu"
_WAYS = ("shard_map", "automatic")
_SPLIT, _WHOLE = PartitionSpec(_AXIS), PartitionSpec()
_COLLECTIVE = re.compile(
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


class Run(NamedTuple):
    """A work split in one way; the outputs are NumPy's."""

    split: str
    ms: float
    outputs: Any
    collectives: str


def run(table: Path | None, only: str, files: Path | None) -> list[Report] | None:
    """Print the lines of all works, or make the tables."""
    if table:
        return _tables(*report.read_lines(table))
    if len(jax.devices()) < 2:
        raise SystemExit(f"needs several devices, and JAX sees {jax.devices()}")
    report.print_lines(_lines(only, files))
    return None


def _lines(only: str, files: Path | None) -> Iterator[Row]:
    count = len(jax.devices())
    facts = {"devices": count, "times": "wall time of one of 20 calls in a row"}
    yield report.environment() | facts
    mesh = jax.make_mesh((count,), (_AXIS,), axis_types=(AxisType.Auto,))
    for work in _operators():
        yield from _operator_rows(work, mesh)
    for name in gpu_models.NETWORKS:
        if re.search(only, name):
            yield from _model_rows(name, gpu_models.quantized_file(name, files), mesh)


def _model_rows(name: str, file: onnx.ModelProto, mesh: Mesh) -> Iterator[Row]:
    """One GPU's batch, one batch split, and a batch of each GPU."""
    model = dmlax.onnx.load(file)
    inputs = networks.draw_inputs(file, _BATCH * mesh.size, seed=1)
    parts = [
        {key: x[start : start + _BATCH] for key, x in inputs.items()}
        for start in range(0, _BATCH * mesh.size, _BATCH)
    ]
    one = jax.jit(model.apply)
    params, images = jax.device_put((model.params, parts[0]), mesh.devices.flat[0])
    alone = _in_a_row_ms(one, params, images)

    def row(split: str, gpus: int, images: int, ms: float, collectives: str = "") -> Row:
        return {
            "network": name,
            "split": split,
            "GPUs": gpus,
            "images": images,
            "in a row ms": ms,
            "images/s": 1e3 * images / ms,
            "over one GPU": images / _BATCH * alone / ms,
            "collectives": collectives,
        }

    yield row("none", 1, _BATCH, alone)
    outputs = [jax.tree.map(np.asarray, one(params, part)) for part in parts]
    expected = jax.tree.map(lambda *arrays: np.concatenate(arrays), *outputs)
    for count, ways in ((_BATCH, _WAYS[:1]), (_BATCH * mesh.size, _WAYS)):
        few = {key: x[:count] for key, x in inputs.items()}
        work = Work(name, model.apply, (model.params, few), (_WHOLE, _SPLIT), _SPLIT)
        for made in _runs(work, mesh, ways):
            for key, x in made.outputs.items():
                np.testing.assert_array_equal(x, expected[key][:count], f"{name}, {made.split}")
            yield row(made.split, mesh.size, count, made.ms, made.collectives)


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
        dimension_numbers=gpu.NHWC,
    )
    images = rng.integers(0, 256, (_BATCH, 7, 7, 512), np.uint8)
    filter = rng.integers(-127, 128, (512, 512, 3, 3), np.int8)
    channels = PartitionSpec(None, None, None, _AXIS)
    yield Work("3x3 over 7x7x512", convolve, (images, filter), (_WHOLE, _SPLIT), channels)
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
    columns = PartitionSpec(None, _AXIS)
    yield Work("4096x768 by 768x3072", multiply, (a, b), (_WHOLE, columns), columns)


def _operator_rows(work: Work, mesh: Mesh) -> Iterator[Row]:
    one = jax.jit(work.call)
    operands = jax.device_put(work.operands, mesh.devices.flat[0])
    expected, alone = np.asarray(one(*operands)), _in_a_row_ms(one, *operands)
    for gpus, made in [
        (1, Run("none", alone, expected, "")),
        *((mesh.size, made) for made in _runs(work, mesh)),
    ]:
        np.testing.assert_array_equal(made.outputs, expected, f"{work.name}, {made.split}")
        yield {
            "operator": work.name,
            "split": made.split,
            "GPUs": gpus,
            "in a row ms": made.ms,
            "over one GPU": alone / made.ms,
            "collectives": made.collectives,
        }


def _runs(work: Work, mesh: Mesh, ways: Sequence[str] = _WAYS) -> Iterator[Run]:
    """Run a work split in every way."""
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
        collectives = _COLLECTIVE.findall(compiled.as_text() or "")
        text = ", ".join(f"{kind} {shape}" for shape, kind in collectives)
        yield Run(split, _in_a_row_ms(compiled, *placed), jax.tree.map(np.asarray, outputs), text)


def _in_a_row_ms(call: Callable[..., object], *operands: object) -> float:
    return gpu.in_a_row_ms(partial(call, *operands), repeats=7)


def _tables(facts: Row, rows: Sequence[Row]) -> list[Report]:
    batches = Report("batches split over GPUs", measured_on=facts)
    batches.rows = [row for row in rows if "network" in row]
    channels = Report("operators split over output channels", measured_on=facts)
    channels.rows = [row for row in rows if "operator" in row]
    for row in batches.rows:
        if row["split"] == "shard_map" and row["images"] == _BATCH * row["GPUs"]:
            what = f"{row['network']}, {_BATCH} images a GPU: images/s over one GPU's"
            batches.add_target(what, row["over one GPU"], _SCALING * row["GPUs"], at_least=True)
    return [table for table in (batches, channels) if table.rows]

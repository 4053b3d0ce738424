"""Models split over all the attached GPUs: bits first, then the wall time of one call in a row.

A batch is split by `jax.shard_map`, where every GPU runs kernels, and automatically, where the
compiler splits the program. Outputs are compared with one GPU's. The collectives are those of the
compiled program.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import dmlax.onnx
from tools.benchmarks import gpu, gpu_models
from tools.benchmarks.report import ONLY, Report, Row, option
from tools.zoo import networks

OPTIONS = (option(ONLY, default="resnet50"), gpu.FILES)
_BATCH = 128  # images of one GPU
_SPLIT, _WHOLE = PartitionSpec("gpu"), PartitionSpec()
_COLLECTIVE = re.compile(
    r"= (\S+) (all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\("
)


def run(only: str, files: Path | None) -> list[Report]:
    """Compare, then time, the networks whose names match."""
    count = len(jax.devices())
    if count < 2:
        raise SystemExit(f"needs several devices, and JAX sees {jax.devices()}")
    facts = {"devices": count, "times": "wall time of one of 20 calls in a row"}
    mesh = jax.make_mesh((count,), ("gpu",), axis_types=(AxisType.Auto,))
    report = Report("batches split over GPUs", facts=facts)
    for name in gpu_models.NETWORKS:
        if re.search(only, name):
            report.rows += _rows(name, gpu_models.quantized_file(name, files), mesh)
    return [report]


def _rows(name: str, file: onnx.ModelProto, mesh: Mesh) -> Iterator[Row]:
    """One GPU's batch, one batch split, and a batch for each GPU."""
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
    for split, count in (
        ("shard_map", _BATCH),
        ("shard_map", _BATCH * mesh.size),
        ("automatic", _BATCH * mesh.size),
    ):
        images = {key: x[:count] for key, x in inputs.items()}
        first = {key: x[:count] for key, x in expected.items()}
        yield row(split, mesh.size, count, *_split(model, images, first, mesh, split))


def _split(
    model: dmlax.onnx.Model,
    images: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    mesh: Mesh,
    split: str,
) -> tuple[float, str]:
    """Milliseconds of a call of the split model, and its collectives."""
    function: Callable[..., Any] = model.apply
    if split == "shard_map":
        specs = (_WHOLE, _SPLIT)
        function = jax.shard_map(
            function, mesh=mesh, in_specs=specs, out_specs=_SPLIT, check_vma=False
        )
    placed = (
        jax.device_put(model.params, NamedSharding(mesh, _WHOLE)),
        jax.device_put(images, NamedSharding(mesh, _SPLIT)),
    )
    compiled = jax.jit(function).lower(*placed).compile()
    outputs = compiled(*placed)
    for key, x in outputs.items():
        assert len(x.sharding.device_set) == mesh.size, f"{split}: {key} is on {x.sharding}"
        np.testing.assert_array_equal(x, expected[key], split)
    found = _COLLECTIVE.findall(compiled.as_text() or "")
    return _in_a_row_ms(compiled, *placed), ", ".join(f"{kind} {shape}" for shape, kind in found)


def _in_a_row_ms(call: Callable[..., object], *operands: object) -> float:
    return gpu.in_a_row_ms(partial(call, *operands), repeats=7)

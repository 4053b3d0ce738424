"""The operators split over the GPUs of one host: the same bits, and no input gathered.

    PYTHONPATH=src:tests:conformance/src python3 tests/cuda/many_devices.py

Needs JAX and NumPy alone. tests/operators/convolution/test_sharding.py and
tests/operators/nonzero do the same on four devices of a CPU.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import dmlax
from support.cases.convolution import SPLIT

OPTIONS = {
    "input_scale": 0.1,
    "filter_scale": 0.2,
    "output_scale": 300.0,
    "input_zero_point": 5,
    "filter_zero_point": 3,
    "start_padding": (1, 1),
    "end_padding": (1, 1),
}


def convolutions(mesh: jax.sharding.Mesh) -> None:
    """Splits by batch and by output channel, dense, grouped and depthwise."""
    rng = np.random.default_rng(0)
    count = mesh.size
    for groups in (1, 4, 64):
        operands = (
            rng.integers(0, 256, (4 * count, 64, 28, 28), np.uint8),
            rng.integers(-128, 128, (64, 64 // groups, 3, 3), np.int8),
            rng.integers(-1000, 1000, 64, np.int32),
        )
        layer = partial(dmlax.quantized_linear_convolution, **OPTIONS, group_count=groups)
        call = jax.jit(layer)
        wanted = _on_cpu(partial(layer, implementation="reference"), operands)
        for name, specs in SPLIT.items():
            placed = [
                jax.device_put(operand, NamedSharding(mesh, spec))
                for operand, spec in zip(operands, specs, strict=True)
            ]
            text = call.lower(*placed).compile().as_text()
            assert f"num_partitions={count}" in text
            assert "all-gather" not in text
            got = call(*placed)
            assert len({shard.device for shard in got.addressable_shards}) == count
            np.testing.assert_array_equal(got, wanted)
            print(f"convolution, {groups} groups, by {name}: {got.size:,} outputs exact")


def nonzero(mesh: jax.sharding.Mesh) -> None:
    """An input split along its first axis, by axis_name."""
    x = np.random.default_rng(1).random((1024 * mesh.size, 999), np.float32)
    x = np.where(x < 0.3, x, 0).astype(np.float32)
    rows = np.argwhere(x)
    wanted = np.zeros((x.size, 2), np.uint32)
    wanted[: len(rows)] = rows
    split = jax.shard_map(
        partial(dmlax.nonzero_coordinates, axis_name="d"),
        mesh=mesh,
        in_specs=PartitionSpec("d"),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    placed = jax.device_put(x, NamedSharding(mesh, PartitionSpec("d")))
    count, got = jax.jit(split)(placed)
    assert int(count) == len(rows)
    np.testing.assert_array_equal(got, wanted)
    print(f"nonzero_coordinates, by axis_name: {len(rows):,} of {x.size:,} exact")


def _on_cpu(function: Any, operands: tuple[np.ndarray, ...]) -> np.ndarray:
    with jax.default_device(jax.devices("cpu")[0]):
        return np.asarray(jax.jit(function)(*map(jnp.asarray, operands)))


def main() -> None:
    """Run on all the GPUs, of which there must be several."""
    devices = jax.devices()
    if devices[0].platform != "gpu" or len(devices) < 2:
        raise SystemExit(f"needs several GPUs, and JAX sees {devices}")
    print(f"{len(devices)} x {devices[0].device_kind}, jax {jax.__version__}")
    mesh = jax.make_mesh((len(devices),), ("d",), axis_types=(AxisType.Auto,))
    convolutions(mesh)
    nonzero(mesh)


if __name__ == "__main__":
    main()

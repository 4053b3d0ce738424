"""One program on several hosts: a quantized layer, and coordinates of an array that they share.

Start it on every host, with the first host's address, the number of hosts, and the host's index:

    python several_hosts.py 10.0.0.1:1234 2 0
"""

import re
import sys
from dataclasses import dataclass

import jax
import numpy as np
from jax import Array
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import dmlax

COLLECTIVE = r"= (.*?) (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)\("
MOST = 512  # coordinates that are kept of the whole array


@dataclass(frozen=True)
class Record:
    """This host's results, as NumPy arrays, and the collectives of both programs."""

    first_image: int
    outputs: np.ndarray
    count: int
    coordinates: np.ndarray
    collectives: dict[str, list[tuple[str, str]]]


def images(first: int, count: int) -> np.ndarray:
    """Images of the whole batch, by their indices; a host loads only some."""
    rows = np.arange(first, first + count).reshape(-1, 1, 1, 1)
    pixels = np.arange(3 * 16 * 16).reshape(1, 3, 16, 16)
    values = (rows * 7919 + pixels * 104729) % 65521
    return np.where(values % 29 == 0, values % 256, 0).astype(np.uint8)


def layer(x: Array, filter: dmlax.PreparedFilter) -> Array:
    """A quantized convolution; every image is convolved on the device that holds it."""
    return dmlax.quantized_linear_convolution(
        x, filter, input_scale=0.05, filter_scale=0.02, output_scale=0.5, output_zero_point=3
    )


def coordinates(x: Array) -> dmlax.NonzeroCoordinates:
    """Inside shard_map: a device's part of the batch in, the whole batch's coordinates out."""
    return dmlax.nonzero_coordinates(x, size=MOST, axis_name="batch", fill_value=2**32 - 1)


def filter() -> dmlax.PreparedFilter:
    """The same on every host."""
    return dmlax.prepare_filter(
        (np.arange(8 * 3 * 3 * 3) % 251 - 125).astype(np.int8).reshape(8, 3, 3, 3)
    )


def main(arguments: list[str]) -> Record:
    """Runs both programs over the devices of all hosts."""
    address, hosts, index = arguments
    jax.distributed.initialize(address, int(hosts), int(index))
    mesh = jax.make_mesh((jax.device_count(),), ("batch",))
    local_images = 2 * jax.local_device_count()
    first = local_images * jax.process_index()
    batch = NamedSharding(mesh, P("batch"))
    x = jax.make_array_from_process_local_data(batch, images(first, local_images))
    # What is not split is made on every host, and put on every device.
    weights = jax.device_put(filter(), NamedSharding(mesh, P()))
    convolve = jax.jit(layer)
    find = jax.jit(jax.shard_map(coordinates, mesh=mesh, in_specs=P("batch"), out_specs=P()))
    y, (count, rows) = convolve(x, weights), find(x)
    mine = sorted(y.addressable_shards, key=lambda shard: shard.index[0].start)
    return Record(
        first,
        np.concatenate([np.asarray(shard.data) for shard in mine]),
        int(count),  # the same on every device
        np.asarray(rows),
        {"layer": collectives(convolve, x, weights), "coordinates": collectives(find, x)},
    )


def collectives(function: jax.stages.Wrapped, *arguments: Array) -> list[tuple[str, str]]:
    """The collectives of a compiled program, and the shapes of their results."""
    text = function.lower(*arguments).compile().as_text()
    return [(kind, shape) for shape, kind in re.findall(COLLECTIVE, text)]


if __name__ == "__main__":
    record = main(sys.argv[1:])
    print(
        f"images from {record.first_image}: {record.outputs.shape}, {record.count} nonzero pixels"
    )
    print(record.collectives)

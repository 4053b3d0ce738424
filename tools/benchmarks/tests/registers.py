"""Registers of the convolutions' kernels, compiled for an H100 that need not be there.

    PYTHONPATH=src:conformance/src python3 -m tools.benchmarks.tests.registers [REGEX]

`nox -s cuda_registers` installs what it takes: JAX's plugin for CUDA, which compiles without a GPU,
and ptxas. A line for each layer of layers.json whose name matches; it fails where a thread takes so
many registers that fewer blocks run on a multiprocessor than the tile is chosen for.
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import NamedTuple

import jax
import numpy as np

import dmlax
from dmlax._cuda import capability
from dmlax._operators.convolution.cuda import kernel
from tools.benchmarks import cases

H100 = """
gpu_device_info {
  cuda_compute_capability { major: 9 minor: 0 }
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 device_memory_size: 84942979072
  clock_rate_ghz: 1.98
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
runtime_version { major: 13 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
REGISTERS, MOST = 65_536, 255  # a multiprocessor's; a thread's, which come by eights
LAYOUT = ("NHWC", "OIHW", "NHWC")
BATCHES = (8, 32, 128)
SUMMED = re.compile("res..1x1b")  # layers that a residual is added to


class Kernel(NamedTuple):
    """What ptxas says of a kernel, and what its tile leaves a thread; None of a depthwise one."""

    registers: int
    spilled: int
    limit: int | None


def said(function):
    """Calls a function, and returns what it and its C++ code print."""
    with tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            function()
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return file.read().decode(errors="replace")


def compile_for(sharding, tiles, call, shapes):
    """The kernel of a program of one."""
    tiles.clear()
    given = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding) for x in shapes]
    text = said(lambda: jax.jit(lambda *x: call(*x)).lower(*given).compile())  # traced anew
    registers, spilled = (
        max(map(int, re.findall(pattern, text)))
        for pattern in (r"Used (\d+) registers", r"(\d+) bytes spill stores")
    )
    limits = (min(REGISTERS // (tile.threads * tile.blocks) // 8 * 8, MOST) for tile in tiles)
    return Kernel(registers, spilled, min(limits, default=None))


def calls(layer) -> Iterator[tuple[str, Callable[..., object], list[jax.ShapeDtypeStruct]]]:
    """The calls of a layer, and of its sum with a residual, by name, and their shapes."""
    outputs, stride = layer.out_channels, layer.stride
    shape = outputs, layer.in_channels // layer.groups, layer.kernel, layer.kernel
    options = {"dimension_numbers": LAYOUT, "group_count": layer.groups}
    filter = dmlax.prepare_filter(np.ones(shape, np.int8), **options)
    padding, bias = (layer.padding,) * 2, np.zeros(outputs, np.int32)
    options |= {
        "input_scale": 0.02,
        "filter_scale": np.full(outputs, 0.01, np.float32),
        "output_scale": 0.05,
        "input_zero_point": np.uint8(120),
        "output_zero_point": np.uint8(128),
        "strides": (stride, stride),
        "start_padding": padding,
        "end_padding": padding,
    }
    residual = {"addend_scale": 0.0123, "sum_scale": 0.0371, "sum_zero_point": np.uint8(121)}
    side = (layer.size + 2 * layer.padding - layer.kernel) // stride + 1

    def convolve(x):
        return dmlax.quantized_linear_convolution(x, filter, bias, **options)

    def convolve_and_add(x, addend):
        call = dmlax.quantized_linear_convolution_add
        return call(x, filter, bias, addend, **options, **residual)

    for batch in BATCHES:
        x = jax.ShapeDtypeStruct((batch, layer.size, layer.size, layer.in_channels), np.uint8)
        for options["arithmetic"] in ("exact", "float32"):
            name = f"{layer.name}, {batch}, {options['arithmetic']}"
            yield name, convolve, [x]
            if SUMMED.search(layer.name):
                addend = jax.ShapeDtypeStruct((batch, side, side, outputs), np.uint8)
                yield f"{name}, sum", convolve_and_add, [x, addend]


def without_gpu(dump: str) -> None:
    """Sets what compiles for a GPU that is not there, and what it prints."""
    jax.config.update("jax_platforms", "cpu")
    os.environ |= {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", dump: "1"}  # no cuDNN


def main():
    without_gpu("MOSAIC_GPU_DUMP_PTXAS")
    tiles, choose = [], kernel.choose_schedule

    def keep(*given):
        schedule = choose(*given)
        tiles.append(schedule.tile)
        return schedule

    kernel.choose_schedule = keep
    capability.why_not = lambda platform: None if platform == "cuda" else "not for CUDA"
    topologies = import_module("jax.experimental.topologies")
    chip = topologies.get_topology_desc("", "cuda", target_config=H100, topology="1x1x1")
    sharding = jax.sharding.SingleDeviceSharding(chip.devices[0])
    over = 0
    for layer in cases.layers(sys.argv[1] if sys.argv[1:] else "", "convolution"):
        for name, call, shapes in calls(layer):
            found = compile_for(sharding, tiles, call, shapes)
            too_many = found.limit is not None and found.registers > found.limit
            over += too_many
            limit = "" if found.limit is None else f" of {found.limit}"
            spilled = f", {found.spilled} bytes spilled" if found.spilled else ""
            print(f"{name}: {found.registers}{limit} registers{spilled}{' TOO MANY' * too_many}")
    sys.exit(over and f"{over} kernels take too many registers")


if __name__ == "__main__":
    main()

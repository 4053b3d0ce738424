"""Device times of convolutions on an attached GPU: `python -m benchmarks.gpu_convolution`.

With `--peer`, those of PyTorch's bf16 convolution instead, in a process of its own: two profilers
cannot share one. `--part 1/4` takes every fourth layer from the second on.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks import cases

REPEATS = 10
BATCHES = (32, 128)
CHECKED = 2  # images, on the CPU
LAYOUT = ("NHWC", "OIHW", "NHWC")
SIDE = 8192  # of the matrices whose product is the ceiling


def main() -> None:
    """Print a line of JSON for the ceiling, then one for each layer and batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", action="store_true", help="time PyTorch")
    parser.add_argument("--part", default="0/1", help="which of how many shares of the layers")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    chosen = cases.layers("")[part::parts]
    for row in (_peer if options.peer else _ours)(chosen):
        print(json.dumps(row), flush=True)


def _ours(layers: list[cases.Layer]) -> Iterator[dict[str, Any]]:
    yield {"int8_top_per_s": 2e-9 * SIDE**3 / _device_ms(_product, _bytes(0), _bytes(1))}
    for batch in BATCHES:
        for layer in layers:
            yield {"layer": layer.name, "batch": batch} | _row(cases.Problem.of(layer, batch))


def _row(problem: cases.Problem) -> dict[str, Any]:
    """By dmlax, checked; and cuDNN's convolution of int8 into float32 alone."""
    layer = problem.layer
    x = problem.x.transpose(0, 2, 3, 1)
    call = jax.jit(partial(problem.call, dimension_numbers=LAYOUT))
    given = jax.device_put(x), problem.filter(dimension_numbers=LAYOUT)
    _check(problem, x, np.asarray(call(*given)))
    alone = jax.jit(
        partial(
            lax.conv_general_dilated,
            window_strides=2 * (layer.stride,),
            padding=2 * (2 * (layer.padding,),),
            feature_group_count=layer.groups,
            dimension_numbers=("NHWC", "OHWI", "NHWC"),
            preferred_element_type=jnp.float32,
        )
    )
    w = jax.device_put(problem.w.transpose(0, 2, 3, 1))
    signed = jax.device_put((x ^ 128).view(np.int8))
    found = {"xla_ms": _device_ms(call, *given), "gop": 2e-9 * problem.products}
    try:
        return found | {"cudnn_int8_ms": _device_ms(alone, signed, w)}
    except jax.errors.JaxRuntimeError as error:  # some layers have no such kernel
        return found | {"cudnn_int8": str(error).splitlines()[0]}


def _check(problem: cases.Problem, x: np.ndarray, got: np.ndarray) -> None:
    """The first images and the last, against the CPU."""
    some = np.concatenate([x[:CHECKED], x[-CHECKED:]])
    with jax.default_device(jax.devices("cpu")[0]):
        call = jax.jit(partial(problem.call, dimension_numbers=LAYOUT))
        wanted = call(some, problem.filter(dimension_numbers=LAYOUT))
    ours = np.concatenate([got[:CHECKED], got[-CHECKED:]])
    np.testing.assert_array_equal(ours, wanted, problem.layer.name, strict=True)


def _bytes(seed: int) -> jax.Array:
    drawn = np.random.default_rng(seed).integers(-128, 128, (SIDE, SIDE), np.int8)
    placed: jax.Array = jax.device_put(drawn)
    return placed


@jax.jit
def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    axes = (((1,), (1,)), ((), ()))
    product: jax.Array = lax.dot_general(a, b, axes, preferred_element_type=jnp.int32)
    return product


def _device_ms(call: Callable[..., Any], *operands: Any) -> float:
    profiler = import_module("jax.experimental.mosaic.gpu.profiler")
    jax.block_until_ready(call(*operands))
    _, times = profiler.measure(call, iterations=REPEATS)(*operands)
    return float(statistics.median(times))


def _peer(layers: list[cases.Layer]) -> Iterator[dict[str, Any]]:
    """PyTorch's convolution alone, in bf16 and channels last."""
    torch = import_module("torch")
    torch.backends.cudnn.benchmark = True
    torch_ms = import_module("benchmarks.gpu_nonzero").torch_ms
    for batch in BATCHES:
        for layer in layers:
            shape = (batch, layer.in_channels, layer.size, layer.size)
            kernel = (
                layer.out_channels,
                layer.in_channels // layer.groups,
                layer.kernel,
                layer.kernel,
            )
            x, w = (
                torch.randn(sizes, dtype=torch.bfloat16, device="cuda").to(
                    memory_format=torch.channels_last
                )
                for sizes in (shape, kernel)
            )
            call = partial(
                torch.nn.functional.conv2d,
                x,
                w,
                stride=layer.stride,
                padding=layer.padding,
                groups=layer.groups,
            )
            yield {"layer": layer.name, "batch": batch, "torch_bf16_ms": torch_ms(torch, call)}


if __name__ == "__main__":
    main()

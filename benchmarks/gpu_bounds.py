"""Bounds of the convolutions on an attached GPU, each beside its time: bytes, products, latency.

    python -m benchmarks.gpu_bounds

The layers of layers.json alone, and the kernels of ResNet-50's file by their shapes. A kernel takes
at least what an empty one takes and its bytes at a copy's speed. It also takes at least as long as
one tile, which has the GPU to itself, and the products of the other tiles that the busiest
multiprocessor makes, at its share of the rate of a product of 8192^3. `copied MB` are what all
blocks copy to their shared memory, most of it from the second cache. Where windows slide, rows are
those of the padded images, and their one tile is of a row of outputs without padding.
"""

import argparse
import functools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

import dmlax.onnx
from benchmarks import cases, device_timing, gpu_models, networks, report
from dmlax._convolution.cuda.problem import ConvProblem
from dmlax._convolution.cuda.space_to_depth import ChannelTransform
from dmlax._core.dispatch import Bind
from dmlax._cuda import capability

BATCHES = (32, 128)
MODEL_BATCHES = (8, 32, 128)
LAYOUT = ("NHWC", "OIHW", "NHWC")
SIDE = 8  # of the outputs of one tile
SUMMED = "us", "bytes us", "copied MB", "one tile us", "other tiles us", "bound us"  # of a model
SUM: dict[str, Any] = {
    "addend_scale": np.float32(0.0123),
    "addend_zero_point": np.uint8(117),
    "sum_scale": np.float32(0.0371),
    "sum_zero_point": np.uint8(121),
}
_ARRAY = re.compile(r"\b[a-z]+\d+\[([\d,]*)\]")
_CALL = re.compile(
    r"^\s*\S+ = (?P<outputs>.*?) custom-call\(.*?"
    r"operand_layout_constraints={(?P<operands>.*?)}, api_version.*?/dmlax_convolution/"
)


class Kernel(NamedTuple):
    """A convolution as its kernel takes it."""

    pixels: int
    channels: int
    depth: int  # bytes of a filter's row
    size: int  # of the kernel whose tile is timed: 1 or 3
    stride: int
    bytes: int
    adds: bool
    arithmetic: str


def main() -> None:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=Path, help="folder of quantized files to use or write")
    parser.add_argument("--batch", type=int, nargs="*", default=BATCHES, help="of the layers")
    parser.add_argument("--model-batch", type=int, nargs="*", default=MODEL_BATCHES)
    options = parser.parse_args()
    facts = report.environment() | device_timing.ceilings()
    facts |= {"empty_kernel_us": _empty_us(), "times": device_timing.TIMES}
    chip = report.chip_of(facts)
    layers = report.Report(f"bounds of layers alone on an {chip}")
    layers.rows = [row for batch in options.batch for row in _layers(batch, facts)]
    model = report.Report(f"bounds of ResNet-50's convolutions on an {chip}")
    file = gpu_models.quantized_file("resnet50", options.files)
    model.rows = [row for batch in options.model_batch for row in _model(file, batch, facts)]
    for each in (layers, model):
        each.show(Console())
    report.write_of_gpu("bounds", [layers, model], facts)


def _layers(batch: int, facts: report.Row) -> Iterator[report.Row]:
    for layer in cases.layers(""):
        if layer.groups > 1:
            continue
        problem = cases.Problem.of(layer, batch, "NHWC")
        given = jax.device_put((problem.x, problem.filter()))
        plan: Any = problem.call(*given, implementation=Bind(plan=True))[0]
        target = ChannelTransform.of(ConvProblem.of(plan)).target
        kernel = Kernel(
            target.output_pixels,
            target.output_channels,
            target.depth,
            3 if layer.kernel > 1 else 1,
            layer.stride,
            problem.bytes,
            adds=False,
            arithmetic="exact",
        )
        call = problem.jitted(implementation="mosaic_gpu")
        us = 1e3 * device_timing.jax_ms(call, *given)
        bounds = _bounds(kernel, _product_of(target), us, facts)
        yield {"layer": layer.name, "batch": batch, "us": us} | bounds


def _model(file: Any, batch: int, facts: report.Row) -> Iterator[report.Row]:
    """Kernels of the same shape together, then all."""
    model = dmlax.onnx.load(file, arithmetic="float32")
    given = jax.device_put(networks.draw_inputs(file, batch, seed=1))
    call = jax.jit(model.apply)
    program, products = _compile(call, model.params, given)
    times = [
        1e3 * ms
        for name, ms in device_timing.jax_kernels(call, model.params, given)
        if gpu_models.CONVOLUTIONS.search(name)
    ]
    found: dict[Kernel, list[float]] = {}
    for kernel, us in zip(kernels_of(program), times, strict=True):
        found.setdefault(kernel, []).append(us)
    total: report.Row = {"batch": batch, "kernels": len(times), "sum": ""}
    total |= dict.fromkeys(SUMMED, 0.0)
    for kernel, each in found.items():
        us = sum(each) / len(each)
        row = {"batch": batch, "kernels": len(each), "sum": kernel.adds, "us": us}
        row |= _bounds(kernel, products[_key(kernel)], us, facts)
        total |= {name: total[name] + len(each) * row[name] for name in SUMMED}
        yield row
    yield {name: total.get(name, "") for name in row} | {"of it": total["bound us"] / total["us"]}


def _compile(call: Any, *operands: Any) -> tuple[str, dict[Any, Any]]:
    """The text of the compiled program, and the matrix products of its convolutions."""
    from dmlax._convolution.cuda import kernel as convolution
    from dmlax._cuda.kernels_of_program import compile_kernels

    products, product_of = {}, convolution.product_of

    def recorded(problem: ConvProblem) -> Any:
        found = product_of(problem)
        key = problem.output_pixels, problem.output_channels, problem.depth, found.adds
        products[key] = found
        return found

    jax.clear_caches()  # else a layer that was lowered before is not recorded
    with mock.patch.object(convolution, "product_of", recorded):
        lowered = call.lower(*operands)
    compile_kernels(lowered)
    return str(lowered.compile().as_text()), products


def _key(kernel: Kernel) -> tuple[int, int, int, bool]:
    return kernel.pixels, kernel.channels, kernel.depth, kernel.adds


def _product_of(problem: ConvProblem) -> Any:
    """The matrix product of a convolution."""
    from dmlax._convolution.cuda.kernel import product_of

    return product_of(problem)


def kernels_of(program: str) -> Iterator[Kernel]:
    """The convolutions of a compiled program, in its order."""
    for line in program.splitlines():
        if not (found := _CALL.match(line)):
            continue
        (pixels, channels), *_ = _sizes(found["outputs"])
        operands = [math.prod(sizes) for sizes in _sizes(found["operands"])]
        depth = operands[1] // channels
        yield Kernel(
            pixels,
            channels,
            depth,
            3 if depth % 9 == 0 else 1,
            stride=1,
            bytes=sum(operands) + pixels * channels,
            adds=pixels * channels in operands[2:],
            arithmetic="float32",
        )


def _sizes(types: str) -> list[tuple[int, ...]]:
    """The sizes of each array that a text names."""
    return [tuple(map(int, filter(None, x.split(",")))) for x in _ARRAY.findall(types)]


def _bounds(kernel: Kernel, problem: Any, us: float, facts: report.Row) -> report.Row:
    """Compute the columns of a kernel, a matrix product, that takes `us` microseconds."""
    from dmlax._cuda.gemm import keeps_right
    from dmlax._cuda.tile import Schedule, choose_tile, count_tiles

    multiprocessors = capability.multiprocessors()
    sizes = kernel.pixels, kernel.channels, kernel.depth
    tile = choose_tile(problem, multiprocessors)
    tiles = count_tiles(problem, tile)
    others = -(-tiles // multiprocessors) - 1
    schedule = Schedule.of(problem, tile, multiprocessors)
    rights = schedule.blocks if keeps_right(schedule) else tiles
    copied = tiles * _left_bytes(problem, tile) + rights * tile.columns * kernel.depth
    copied += tiles * tile.rows * tile.columns * kernel.adds
    products = others * multiprocessors * tile.rows * tile.columns * kernel.depth
    one_us = _one_tile_us(tile, kernel._replace(pixels=0, channels=0, bytes=0), problem.sliding)
    others_us = 2e-6 * products / facts["int8_top_per_s"]
    bytes_us = 1e-3 * kernel.bytes / facts["copy_gb_per_s"] + facts["empty_kernel_us"]
    bound = max(bytes_us, one_us + others_us)
    return dict(zip(("pixels", "channels", "depth"), sizes, strict=True)) | {
        "tile": f"{tile.rows} x {tile.columns}",
        "tiles": tiles,
        "bytes us": bytes_us,
        "copied MB": 1e-6 * copied,
        "one tile us": one_us,
        "other tiles us": others_us,
        "bound us": bound,
        "of it": bound / us,
    }


def _left_bytes(problem: Any, tile: Any) -> int:
    """Bytes that a tile copies of the input."""
    if sliding := problem.sliding:
        return int((tile.rows + sliding.pixels_beyond) * sliding.pixel_bytes)
    return int(tile.rows * problem.depth)


@functools.cache
def _one_tile_us(tile: Any, kernel: Kernel, sliding: Any) -> float:
    """Time a kernel that makes one tile, or those of one row of outputs where windows slide."""
    from dmlax._convolution.cuda import kernel as convolution
    from dmlax._convolution.cuda import sliding as windows

    with (
        mock.patch.object(convolution, "choose_tile", return_value=tile),
        mock.patch.object(windows, "_FEWEST_PIXELS", 0 if sliding else windows._FEWEST_PIXELS),
    ):
        call, given = _one_row(tile, sliding) if sliding else _one_tile(tile, kernel)
        call = functools.partial(call, arithmetic=kernel.arithmetic, implementation="mosaic_gpu")
        return 1e3 * device_timing.jax_ms(jax.jit(call), *jax.device_put(given))


def _one_row(tile: Any, sliding: Any) -> tuple[Any, list[Any]]:
    """A convolution whose windows slide over one image, and its operands."""
    rng = np.random.default_rng(0)
    shape = (1, sliding.taps[0], sliding.width, sliding.pixel_bytes)
    x = rng.integers(0, 256, shape, np.uint8)
    w = rng.integers(-128, 128, (tile.columns, sliding.pixel_bytes, *sliding.taps), np.int8)
    call = functools.partial(
        dmlax.quantized_linear_convolution,
        input_scale=cases.INPUT_SCALE,
        filter_scale=np.float32(0.01),
        output_scale=np.float32(1),
        input_zero_point=cases.INPUT_ZERO_POINT,
        output_zero_point=cases.OUTPUT_ZERO_POINT,
        dimension_numbers=LAYOUT,
    )
    return call, [x, dmlax.prepare_filter(w, dimension_numbers=LAYOUT)]


def _one_tile(tile: Any, kernel: Kernel) -> tuple[Any, list[Any]]:
    """A convolution that fills one tile, and its operands."""
    channels, side = kernel.depth // kernel.size**2, SIDE * kernel.stride
    layer = cases.Layer(
        *("tile", channels, side, tile.columns, kernel.size, kernel.stride, kernel.size // 2, 1)
    )
    problem = cases.Problem.of(layer, tile.rows // SIDE**2, "NHWC")
    given: list[Any] = [problem.x, problem.filter()]
    call: Any = problem.call
    if kernel.adds:
        given.append(np.zeros((tile.rows // SIDE**2, SIDE, SIDE, tile.columns), np.uint8))
        call = functools.partial(_with_sum, problem)
    return call, given


def _with_sum(problem: cases.Problem, x: Any, filter: Any, addend: Any, **options: Any) -> Any:
    return dmlax.quantized_linear_convolution_add(
        *(x, filter, problem.bias, addend),
        input_scale=cases.INPUT_SCALE,
        filter_scale=problem.filter_scale,
        output_scale=problem.output_scale,
        input_zero_point=cases.INPUT_ZERO_POINT,
        output_zero_point=cases.OUTPUT_ZERO_POINT,
        dimension_numbers=LAYOUT,
        **SUM,
        **options,
    )


def _empty_us() -> float:
    """Time a kernel whose threads do nothing."""
    from dmlax._cuda import launch

    def empty(x: jax.Array) -> jax.Array:
        return launch.launch(
            "empty",
            lambda **_: None,
            {"x": x},
            {"output": jax.ShapeDtypeStruct((1,), jnp.uint32)},
            blocks=capability.multiprocessors(),
            warpgroups=2,
            shared_words=1024,
        )[0]

    return 1e3 * device_timing.jax_ms(jax.jit(empty), jnp.zeros(1, jnp.uint32))


if __name__ == "__main__":
    main()

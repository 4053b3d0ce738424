"""Lower bounds of the convolutions on an attached GPU, beside their times.

The layers of layers.json alone, and the kernels of ResNet-50's file by their shapes. A kernel takes
at least the time of an empty one and its bytes at a copy's speed. It also takes at least the time
of one tile that has the GPU to itself, and of the products of the other tiles that the busiest
multiprocessor makes, at its share of the rate of a product of 8192^3. `copied MB` counts what all
blocks copy to their shared memory, most of it from the second cache. Where windows slide, rows are
those of the padded images, and the one tile is a row of outputs without padding.
"""

import functools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import onnx

import dmlax
import dmlax.onnx
from dmlax._compile import compiling_kernels
from dmlax._cuda import capability, launch, tuning
from dmlax._cuda.block import keeps_right
from dmlax._cuda.tile import GemmProblem, Schedule, Sliding, Tile, choose_tile, count_tiles
from dmlax._operators.convolution.api import QUANTIZED
from dmlax._operators.convolution.cuda import kernel as convolution
from dmlax._operators.convolution.cuda.problem import ConvProblem
from dmlax._operators.convolution.cuda.space_to_depth import ChannelTransform
from tools.benchmarks import cases, gpu, gpu_convolution_add, gpu_models
from tools.benchmarks.options import BATCH, option
from tools.benchmarks.report import Report, Row
from tools.zoo import networks

OPTIONS = (
    gpu.FILES,
    BATCH.with_default((32, 128)),
    option("--model-batch", type=int, nargs="*", default=(8, 32, 128), help="of ResNet-50's file"),
)
_SIDE = 8  # of the outputs of one tile
_SUMMED = "us", "bytes us", "copied MB", "one tile us", "other tiles us", "bound us"  # of a model
_ARRAY = re.compile(r"\b[a-z]+\d+\[([\d,]*)\]")
_CALL = re.compile(
    r"^\s*\S+ = (?P<outputs>.*?) custom-call\(.*?"
    r"operand_layout_constraints={(?P<operands>.*?)}, api_version.*?/dmlax_convolution/"
)
Key = tuple[int, int, int, bool]  # pixels, channels, depth, whether a residual is added


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

    @property
    def key(self) -> Key:
        """The sizes by which the matrix products of a program differ."""
        return self.pixels, self.channels, self.depth, self.adds


def run(files: Path | None, batch: Sequence[int], model_batch: Sequence[int]) -> Iterator[Report]:
    """The tables of the layers and of the model."""
    facts = gpu.facts() | {"empty_kernel_us": _empty_us()}
    layers = gpu.report_of("bounds of layers alone", facts)
    layers.rows = [row for size in batch for row in _layers(size, facts)]
    yield layers
    model = gpu.report_of("bounds of ResNet-50's convolutions", facts)
    file = gpu_models.quantized_file("resnet50", files)
    model.rows = [row for size in model_batch for row in _model(file, size, facts)]
    yield model


def _layers(batch: int, facts: Row) -> Iterator[Row]:
    for layer in cases.layers(""):
        if layer.groups > 1:
            continue
        problem = cases.Problem.of(layer, batch, "NHWC")
        operands = jax.device_put((problem.x, problem.filter()))
        plan, _ = QUANTIZED.plan(*operands, problem.bias, **problem.parameters)
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
        us = 1e3 * gpu.jax_ms(problem.jitted(implementation="mosaic_gpu"), *operands)
        bounds = _bounds(kernel, convolution.product_of(target), us, facts)
        yield {"layer": layer.name, "batch": batch, "us": us} | bounds


def _model(file: onnx.ModelProto, batch: int, facts: Row) -> Iterator[Row]:
    """A row for the kernels of a shape, then one for all."""
    model = dmlax.onnx.load(file, arithmetic="float32")
    operands = jax.device_put((model.params, networks.draw_inputs(file, batch, seed=1)))
    call = jax.jit(model.apply)
    program, products = _compile(call, *operands)
    names_and_times = gpu.jax_kernels(call, *operands)
    times = [1e3 * ms for name, ms in names_and_times if gpu_models.CONVOLUTIONS.search(name)]
    times_of: dict[Kernel, list[float]] = defaultdict(list)
    for kernel, us in zip(kernels_of(program), times, strict=True):
        times_of[kernel].append(us)
    total: Row = {"batch": batch, "kernels": len(times), "sum": ""} | dict.fromkeys(_SUMMED, 0.0)
    for kernel, same in times_of.items():
        us = sum(same) / len(same)
        row = {"batch": batch, "kernels": len(same), "sum": kernel.adds, "us": us}
        row |= _bounds(kernel, products[kernel.key], us, facts)
        total |= {name: total[name] + len(same) * row[name] for name in _SUMMED}
        yield row
    yield {name: total.get(name, "") for name in row} | {"of it": total["bound us"] / total["us"]}


def _compile(call: Any, *operands: Any) -> tuple[str, dict[Key, GemmProblem]]:
    """The text of the compiled program, and the matrix products of its convolutions."""
    products, product_of = {}, convolution.product_of

    def recorded(problem: ConvProblem) -> GemmProblem:
        product = product_of(problem)
        key = problem.output_pixels, problem.output_channels, problem.depth, product.adds
        products[key] = product
        return product

    jax.clear_caches()  # else a layer in the cache is not recorded
    with (
        mock.patch.object(convolution, "product_of", recorded),
        compiling_kernels(lambda: call.lower(*operands)),
    ):
        return str(call.lower(*operands).compile().as_text()), products


def kernels_of(program: str) -> Iterator[Kernel]:
    """The convolutions of a compiled program, in its order."""
    for line in program.splitlines():
        if not (match := _CALL.match(line)):
            continue
        (pixels, channels), *_ = _sizes(match["outputs"])
        operands = [math.prod(sizes) for sizes in _sizes(match["operands"])]
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
    """The sizes of every array that a text names."""
    return [tuple(map(int, filter(None, x.split(",")))) for x in _ARRAY.findall(types)]


def _bounds(kernel: Kernel, problem: GemmProblem, us: float, facts: Row) -> Row:
    """Compute the columns of a kernel, a matrix product, that takes `us` microseconds."""
    multiprocessors = capability.multiprocessors()
    tile = choose_tile(problem, multiprocessors)
    tiles = count_tiles(problem, tile)
    others = -(-tiles // multiprocessors) - 1
    products = others * multiprocessors * tile.rows * tile.columns * kernel.depth
    single = kernel._replace(pixels=0, channels=0, bytes=0)
    one_us = _one_tile_us(tile, single, problem.sliding)
    others_us = 2e-6 * products / facts["int8_top_per_s"]
    bytes_us = 1e-3 * kernel.bytes / facts["copy_gb_per_s"] + facts["empty_kernel_us"]
    bound = max(bytes_us, one_us + others_us)
    return {
        "pixels": kernel.pixels,
        "channels": kernel.channels,
        "depth": kernel.depth,
        "tile": f"{tile.rows} x {tile.columns}",
        "tiles": tiles,
        "bytes us": bytes_us,
        "copied MB": 1e-6 * _copied(kernel, problem, tile, tiles, multiprocessors),
        "one tile us": one_us,
        "other tiles us": others_us,
        "bound us": bound,
        "of it": bound / us,
    }


def _copied(
    kernel: Kernel, problem: GemmProblem, tile: Tile, tiles: int, multiprocessors: int
) -> int:
    """Bytes that all blocks copy to their shared memory."""
    schedule = Schedule.of(problem, tile, multiprocessors)
    rights = schedule.blocks if keeps_right(schedule) else tiles
    if sliding := problem.sliding:
        left = (tile.rows + sliding.pixels_beyond) * sliding.pixel_bytes
    else:
        left = tile.rows * problem.depth
    addend = tile.rows * tile.columns * kernel.adds
    return tiles * (left + addend) + rights * tile.columns * kernel.depth


@functools.cache
def _one_tile_us(tile: Tile, kernel: Kernel, sliding: Sliding | None) -> float:
    """Time a kernel of one tile; where windows slide, of the tiles of one row of outputs."""
    fewest = 0 if sliding else tuning.FEWEST_SLIDING_PIXELS
    with (
        mock.patch.object(convolution, "choose_tile", return_value=tile),
        mock.patch.object(tuning, "FEWEST_SLIDING_PIXELS", fewest),
    ):
        call, operands = _one_row(tile, sliding) if sliding else _one_tile(tile, kernel)
        call = functools.partial(call, arithmetic=kernel.arithmetic, implementation="mosaic_gpu")
        return 1e3 * gpu.jax_ms(jax.jit(call), *jax.device_put(operands))


def _one_row(tile: Tile, sliding: Sliding) -> tuple[Callable[..., jax.Array], list[Any]]:
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
        dimension_numbers=gpu.NHWC,
    )
    return call, [x, dmlax.prepare_filter(w, dimension_numbers=gpu.NHWC)]


def _one_tile(tile: Tile, kernel: Kernel) -> tuple[Callable[..., jax.Array], list[Any]]:
    """A convolution that fills one tile, and its operands."""
    channels, side = kernel.depth // kernel.size**2, _SIDE * kernel.stride
    layer = cases.Layer(
        *("tile", channels, side, tile.columns, kernel.size, kernel.stride, kernel.size // 2, 1)
    )
    problem = cases.Problem.of(layer, tile.rows // _SIDE**2, "NHWC")
    operands: list[Any] = [problem.x, problem.filter()]
    if not kernel.adds:
        return problem.call, operands
    addend = np.zeros((tile.rows // _SIDE**2, _SIDE, _SIDE, tile.columns), np.uint8)
    return functools.partial(_with_sum, problem), [*operands, addend]


def _with_sum(
    problem: cases.Problem,
    x: jax.Array,
    filter: dmlax.PreparedFilter,
    addend: jax.Array,
    **options: Any,
) -> jax.Array:
    parameters = problem.parameters | gpu_convolution_add.SUM | options
    return dmlax.quantized_linear_convolution_add(x, filter, problem.bias, addend, **parameters)


def _empty_us() -> float:
    """Time a kernel whose threads do nothing."""

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

    return 1e3 * gpu.jax_ms(jax.jit(empty), jnp.zeros(1, jnp.uint32))

"""Single operators against ONNX Runtime, on a CPU: the works of three benchmarks."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from onnx import helper

import dmlax
from dmlax._core.dispatch import Implementation
from dmlax._core.requantize import Arithmetic
from dmlax._fused.block_product.plan import Blocks
from dmlax.onnx.operators import n_bits
from tools.benchmarks import onnx_peer, peaks
from tools.benchmarks.report import ONLY, REPEATS, Report, Row, tracked
from tools.benchmarks.works import Work, measure

OPTIONS = (ONLY, REPEATS)
_INPUT, _ADDEND, _OUTPUT = (np.float32(scale) for scale in (0.0371, 0.0213, 0.0457))
_ZERO_POINT, _OUTPUT_ZERO_POINT = np.uint8(117), np.uint8(121)
_BATCHES = (1, 8)
_SUM_SHAPES = ((256, 56), (512, 28), (1024, 14), (2048, 7))  # channels and size, in ResNet-50
_SE_SHAPES = ((32, 112), (144, 56), (240, 28), (672, 14), (1152, 7))  # EfficientNet-B0
_PRODUCTS = ((1, 128, 768, 768), (1, 1, 768, 3072), (1, 512, 512, 512), (8, 128, 64, 128))
_FEW_ROWS, _SIDES = (1, 2, 4, 8), (256, 1024, 4096)
_BLOCK = 32  # elements of 4 bits that share a scale
_ELEMENTS = (2**12, 2**14, 2**16, 150_000, 2**18, 2**20, 2**22)


def run(benchmark: str, only: str, repeats: int) -> Iterator[Report]:
    """Check, then time, every operator of the benchmark whose name matches."""
    works = [work for work in WORKS[benchmark]() if re.search(only, work.operator)]
    if not works:
        return
    report, overhead = onnx_peer.begin_report(benchmark, repeats)
    for work in tracked(works, report.name):
        row = measure(work, repeats, overhead)
        report.rows.append(row | (_of_reading(work, row) if work.weights else {}))
    yield report


def _of_reading(work: Work, row: Row) -> Row:
    """The form of a product's weights, and their rate beside that of reading as many bytes."""
    b = work.operands["b"]
    rate = b.nbytes / row["dmlax us"] * 1e6
    shares = {"GB/s": 1e-9 * rate, "of reading": rate / _read_rate(b.nbytes)}
    return {"weights": work.weights, **shares}


@cache
def _read_rate(size: int) -> float:
    return peaks.read_rate(size)


# Works -----------------------------------------------------------------------------------------


def _family() -> Iterator[Work]:
    """Products, sums, pools, lookups and dynamic quantization."""
    for shape in _PRODUCTS:
        yield integer_product(*shape)
        yield from (quantized_product(*shape, arithmetic) for arithmetic in _ARITHMETICS)
    for batch, image, arithmetic in product(_BATCHES, _SUM_SHAPES, _ARITHMETICS):
        yield _sum(batch, *image, arithmetic)
    for batch, arithmetic in product(_BATCHES, _ARITHMETICS):
        yield from (_average(batch, layout, arithmetic) for layout in ("NCHW", "NHWC"))
    yield from (_maximum(batch) for batch in _BATCHES)
    for batch, image in product(_BATCHES, _SE_SHAPES):
        yield from (_multiply(batch, *image, arithmetic) for arithmetic in _ARITHMETICS)
        yield _lookup(batch, *image)
    for bits, arithmetic in product(range(12, 23, 2), _ARITHMETICS):
        yield _dynamic(2**bits, arithmetic)


def _few_rows() -> Iterator[Work]:
    """Products of few rows, as in a language model's decode step."""
    for side, rows in product(_SIDES, _FEW_ROWS):
        integer = replace(integer_product(1, rows, side, side), weights="prepared")
        yield integer
        yield replace(integer, operand=integer.operands["b"], fed=("b",), weights="an input")
        quantized = quantized_product(1, rows, side, side, "float32")
        yield replace(quantized, weights="prepared")
        yield _block_product(rows, side)


def _element_wise() -> Iterator[Work]:
    """Quantization and dequantization, six calls of a size in one program."""
    rng = np.random.default_rng(0)
    operands = {"scale": _INPUT, "zero_point": _ZERO_POINT}
    for size in _ELEMENTS:
        reals = rng.normal(0, 2, size).astype(np.float32)
        for arithmetic in _ARITHMETICS:
            call = _element(dmlax.element_wise_quantize_linear, arithmetic=arithmetic)
            yield Work("QuantizeLinear", str(size), arithmetic, call, reals, operands)
        call = _element(dmlax.element_wise_dequantize_linear)
        yield Work("DequantizeLinear", str(size), None, call, _draw(size), operands)


WORKS = {"family": _family, "few_rows": _few_rows, "element_wise": _element_wise}
_ARITHMETICS: tuple[Arithmetic, ...] = ("exact", "float32")


def _element(function: Callable[..., Any], **keywords: Any) -> Callable[..., Any]:
    """An element-wise operator as a function of one array."""

    def call(x: jax.Array, _: None, **options: Any) -> Any:
        return function(x, _INPUT, _ZERO_POINT, **keywords, **options)

    return call


def _draw(*shape: int, bits: int = 8, dtype: type[np.integer] = np.uint8) -> np.ndarray:
    """Draw integers of `bits` bits, the same on every run."""
    low = 0 if dtype is np.uint8 else -(2 ** (bits - 1))
    return np.random.default_rng(0).integers(low, low + 2**bits, shape, dtype)


def _factors(batch: int, rows: int, depth: int, columns: int) -> dict[str, Any]:
    """A matrix and a weight, or a batch of both. 7 bits keep ONNX Runtime from saturating."""
    many = (batch,) if batch > 1 else ()
    b = _draw(*many, depth, columns, bits=7, dtype=np.int8)
    return {
        "size": "x".join(map(str, (*many, rows, depth, columns))),
        "input": _draw(*many, rows, depth),
        "operand": b if many else dmlax.prepare_matrix(b, packing="auto"),
        "fed": ("b",) if many else (),
        "operands": {"b": b},
    }


def integer_product(*shape: int) -> Work:
    """A MatMulInteger of so many matrices, rows, depth and columns, whose weight is prepared."""
    factors = _factors(*shape)
    operands = factors.pop("operands") | {"a_zero": _ZERO_POINT, "b_zero": np.int8(0)}
    call = partial(dmlax.matrix_multiply_integer, a_zero_point=_ZERO_POINT)
    return Work("MatMulInteger", arithmetic=None, call=call, operands=operands, **factors)


def quantized_product(
    batch: int, rows: int, depth: int, columns: int, arithmetic: Arithmetic
) -> Work:
    """A QLinearMatMul of these sizes, whose weight is prepared."""
    factors = _factors(batch, rows, depth, columns)
    output = np.float32(_INPUT * _ADDEND * 74 * 37 * depth**0.5 / 50)
    call = partial(
        dmlax.quantized_linear_matrix_multiply,
        a_scale=_INPUT,
        b_scale=_ADDEND,
        output_scale=output,
        a_zero_point=_ZERO_POINT,
        output_zero_point=_OUTPUT_ZERO_POINT,
        arithmetic=arithmetic,
    )
    operands = _two_operands(factors.pop("operands")["b"], np.int8(0), output)
    return Work("QLinearMatMul", arithmetic=arithmetic, call=call, operands=operands, **factors)


def _two_operands(b: np.ndarray, b_zero: np.generic, output: np.generic) -> dict[str, Any]:
    """ONNX's operands after the first, of an operator of two quantized tensors."""
    return {
        "a_scale": _INPUT,
        "a_zero": _ZERO_POINT,
        "b": b,
        "b_scale": _ADDEND,
        "b_zero": b_zero,
        "y_scale": output,
        "y_zero": _OUTPUT_ZERO_POINT,
    }


def _binary(
    operator: str,
    function: Callable[..., jax.Array],
    a: np.ndarray,
    b: np.ndarray,
    output: np.float32,
    arithmetic: Arithmetic,
) -> Work:
    call = partial(
        function,
        a_scale=_INPUT,
        b_scale=_ADDEND,
        output_scale=output,
        a_zero_point=_ZERO_POINT,
        b_zero_point=_ZERO_POINT,
        output_zero_point=_OUTPUT_ZERO_POINT,
        arithmetic=arithmetic,
    )
    operands = _two_operands(b, _ZERO_POINT, output)
    domain = onnx_peer.OWN_DOMAIN
    return Work(operator, _size(a), arithmetic, call, a, operands, b, fed=("b",), domain=domain)


def _size(x: np.ndarray) -> str:
    return "x".join(map(str, x.shape))


def _sum(batch: int, channels: int, size: int, arithmetic: Arithmetic) -> Work:
    a = _draw(batch, size, size, channels)
    add = dmlax.element_wise_quantized_linear_add
    return _binary("QLinearAdd", add, a, np.roll(a, 77), _OUTPUT, arithmetic)


def _multiply(batch: int, channels: int, size: int, arithmetic: Arithmetic) -> Work:
    """An image times a factor for every channel, as in squeeze and excitation."""
    a, b = _draw(batch, channels, size, size), _draw(batch, channels, 1, 1)
    output = np.float32(0.0813)
    multiply = dmlax.element_wise_quantized_linear_multiply
    return _binary("QLinearMul", multiply, a, b, output, arithmetic)


def _lookup(batch: int, channels: int, size: int) -> Work:
    x = _draw(batch, channels, size, size)
    return Work(
        "QLinearSigmoid",
        _size(x),
        None,
        dmlax.quantized_lookup,
        x,
        _sigmoid(),
        _sigmoid_table(),
        domain=onnx_peer.OWN_DOMAIN,
    )


def _sigmoid() -> dict[str, Any]:
    return _one_operand(np.float32(1 / 256), np.uint8(0))


def _one_operand(scale: np.float32, zero_point: np.uint8) -> dict[str, Any]:
    """ONNX's operands after the first, of an operator of one quantized tensor."""
    output = {"y_scale": scale, "y_zero": zero_point}
    return {"x_scale": _INPUT, "x_zero": _ZERO_POINT, **output}


@cache
def _sigmoid_table() -> np.ndarray:
    """ONNX Runtime's results of all bytes."""
    inputs = {"x": np.arange(256, dtype=np.uint8)}
    node = helper.make_node(
        "QLinearSigmoid", ["x", *_sigmoid()], ["y"], domain=onnx_peer.OWN_DOMAIN
    )
    model = onnx_peer.build([node], inputs, ["y"], _sigmoid())
    peer, read = onnx_peer.bind(onnx_peer.start(model), inputs, ["y"])
    peer()
    return read()[0]


def _average(batch: int, layout: str, arithmetic: Arithmetic) -> Work:
    """A global average pool."""
    channels, size = _SUM_SHAPES[-1]
    is_last = layout == "NHWC"
    x = _draw(batch, *((size, size, channels) if is_last else (channels, size, size)))

    def call(x: jax.Array, _: None, **options: Any) -> jax.Array:
        return dmlax.quantized_linear_global_average_pooling(
            x,
            input_scale=_INPUT,
            output_scale=_OUTPUT,
            input_zero_point=_ZERO_POINT,
            output_zero_point=_OUTPUT_ZERO_POINT,
            dimension_numbers=layout,
            arithmetic=arithmetic,
            **options,
        )

    return Work(
        "QLinearGlobalAveragePool",
        f"{layout} {_size(x)}",
        arithmetic,
        call,
        x,
        _one_operand(_OUTPUT, _OUTPUT_ZERO_POINT),
        domain=onnx_peer.OWN_DOMAIN,
        attributes={"channels_last": int(is_last)},
    )


def _maximum(batch: int) -> Work:
    x = _draw(batch, 64, 112, 112)

    def call(x: jax.Array, _: None, **options: Any) -> jax.Array:
        return dmlax.max_pooling(
            x, window_size=3, strides=2, start_padding=1, end_padding=1, **options
        )

    attributes = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    return Work("MaxPool", _size(x), None, call, x, {}, attributes=attributes)


def _dynamic(size: int, arithmetic: Arithmetic) -> Work:
    x = np.random.default_rng(0).normal(0.3, 2, size).astype(np.float32)

    def call(x: jax.Array, _: None, **options: Any) -> dmlax.DynamicQuantizeLinear:
        return dmlax.dynamic_quantize_linear(x, arithmetic=arithmetic, **options)

    name = "DynamicQuantizeLinear"
    return Work(name, f"2^{size.bit_length() - 1}", arithmetic, call, x, {}, outputs=3)


def _block_product(rows: int, side: int) -> Work:
    """A MatMulNBits of 4 bits without zero points."""
    rng = np.random.default_rng(0)
    held = rng.integers(0, 256, (side, side // _BLOCK, _BLOCK // 2), np.uint8)
    scale = rng.uniform(0.5, 1.5, (side, side // _BLOCK)).astype(np.float32) / side

    def call(x: jax.Array, operand: Any, implementation: Implementation = "auto") -> jax.Array:
        if implementation == "xla" and len(x) > 1:  # the kernel adds each row by itself
            return jnp.concatenate([call(row, operand, "xla") for row in x[:, None]])
        plan, operands = n_bits.BLOCKS.plan(Blocks(x, *operand), _BLOCK)
        return n_bits.BLOCKS.call(plan, operands, implementation)

    return Work(
        "MatMulNBits",
        f"{rows}x{side}x{side}",
        "exact",
        call,
        rng.normal(size=(rows, side)).astype(np.float32),
        {"b": held, "scale": scale},
        (held.reshape(side, -1), scale, np.full((1, 1), 8, np.float32)),
        domain=onnx_peer.OWN_DOMAIN,
        attributes={"K": side, "N": side, "bits": 4, "block_size": _BLOCK},
        weights="4 bits",
        tolerance=2e-6,
    )

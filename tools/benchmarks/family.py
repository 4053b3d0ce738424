"""Products, sums, pools, lookups and dynamic quantization against ONNX Runtime, on a CPU."""

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from typing import Any

import jax
import numpy as np
from onnx import helper

import dmlax
from dmlax._core.requantize import Arithmetic
from tools.benchmarks import onnx_peer
from tools.benchmarks.options import ONLY, REPEATS
from tools.benchmarks.report import Report, tracked
from tools.benchmarks.works import Work, measure

OPTIONS = (ONLY, REPEATS)
_INPUT, _ADDEND, _OUTPUT = (np.float32(scale) for scale in (0.0371, 0.0213, 0.0457))
_ZERO_POINT, _OUTPUT_ZERO_POINT = np.uint8(117), np.uint8(121)
_BATCHES = (1, 8)
_SUM_SHAPES = ((256, 56), (512, 28), (1024, 14), (2048, 7))  # of ResNet-50: channels and size
_SE_SHAPES = ((32, 112), (144, 56), (240, 28), (672, 14), (1152, 7))  # of EfficientNet-B0
_PRODUCTS = ((1, 128, 768, 768), (1, 1, 768, 3072), (1, 512, 512, 512), (8, 128, 64, 128))
_LIMITS = {
    "MatMulInteger": 0.9,
    "QLinearMatMul": 0.9,
    "QLinearAdd": 1.0,
    "QLinearMul": 1.0,
    "QLinearSigmoid": 1.0,
    "MaxPool": 1.0,
    "QLinearGlobalAveragePool": 1.0,
    "DynamicQuantizeLinear": 1.0,
}


def run(only: str, repeats: int) -> Iterator[Report]:
    """Check, then time, every operator whose name matches."""
    works = [work for work in _works() if re.search(only, work.operator)]
    if not works:
        return
    report, _, overhead = onnx_peer.begin_report("family", repeats)
    for work in tracked(works, report.name):
        report.rows.append(measure(work, repeats, overhead))
    for name in dict.fromkeys(work.operator for work in works):
        ratios = report.column("ratio", operator=name)
        report.add_target(f"{name}: largest ratio to ORT", max(ratios), _LIMITS[name])
    yield report


# Works -----------------------------------------------------------------------------------------


def _works() -> Iterator[Work]:
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


_ARITHMETICS: tuple[Arithmetic, ...] = ("exact", "float32")


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

"""Costs of DirectML descriptors: creating an operator, and calling it beside the function."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

import dmlax
from dmlax import directml
from dmlax.directml import BufferTensorDesc, DataType, FeatureLevel
from tools.benchmarks import timing
from tools.benchmarks.options import REPEATS
from tools.benchmarks.report import Report, Row

OPTIONS = (REPEATS,)
_MILLISECOND, _MICROSECONDS = 1.0, 20.0
_FRESH = 100
_LEVEL = FeatureLevel.LEVEL_6_4
Tensors = dict[str, np.ndarray]


def run(repeats: int) -> Iterator[Report]:
    """Create every operator, create it again, and call it."""
    report = Report("directml", [_row(name, repeats) for name in _CASES])
    report.add_target("creating, ms", max(report.column("create ms")), _MILLISECOND)
    report.add_target("added to a call, us", max(report.column("added us")), _MICROSECONDS)
    yield report


def _row(name: str, repeats: int) -> Row:
    described, plain = _CASES[name]
    operator = directml.create_operator(described(1), feature_level=_LEVEL)
    tensors = {key: jax.device_put(value) for key, value in _drawn(described(1)).items()}
    for ours, theirs in zip(operator(**tensors).values(), plain(tensors), strict=True):
        np.testing.assert_array_equal(ours.reshape(theirs.shape), theirs)
    pair = timing.pair(
        lambda: jax.block_until_ready(operator(**tensors)),
        lambda: jax.block_until_ready(plain(tensors)),
        repeats,
    )
    return {
        "operator": name,
        "create ms": _creating([described(batch) for batch in range(2, _FRESH)]),
        "again ms": _creating([described(batch) for batch in range(2, _FRESH)]),
        "call us": 1e3 * pair.ours,
        "plain us": 1e3 * pair.peer,
        "ratio": pair.ratio,
        "quartiles": pair.spread,
        "added us": 1e3 * (pair.ours - pair.peer),
    }


def _creating(descs: list[Any]) -> float:
    """Time the creation of one operator: the mean in milliseconds."""
    start = time.perf_counter()
    for desc in descs:
        directml.create_operator(desc, feature_level=_LEVEL)
    return 1e3 * (time.perf_counter() - start) / len(descs)


# Cases -----------------------------------------------------------------------------------------


def _tensor(data_type: DataType, *sizes: int) -> BufferTensorDesc:
    return BufferTensorDesc(data_type=data_type, sizes=sizes)


def _nonzero(batch: int) -> directml.NonzeroCoordinatesOperatorDesc:
    return directml.NonzeroCoordinatesOperatorDesc(
        input_tensor=_tensor(DataType.FLOAT32, batch, 1, 8, 8),
        output_count_tensor=_tensor(DataType.UINT32, 1, 1, 1, 1),
        output_coordinates_tensor=_tensor(DataType.UINT32, 1, 1, batch * 64, 4),
    )


def _quantized(batch: int) -> directml.QuantizedLinearConvolutionOperatorDesc:
    one = (1, 1, 1, 1)
    return directml.QuantizedLinearConvolutionOperatorDesc(
        input_tensor=_tensor(DataType.UINT8, batch, 8, 8, 8),
        input_scale_tensor=_tensor(DataType.FLOAT32, *one),
        input_zero_point_tensor=_tensor(DataType.UINT8, *one),
        filter_tensor=_tensor(DataType.INT8, 8, 8, 3, 3),
        filter_scale_tensor=_tensor(DataType.FLOAT32, 1, 8, 1, 1),
        filter_zero_point_tensor=_tensor(DataType.INT8, *one),
        bias_tensor=_tensor(DataType.INT32, 1, 8, 1, 1),
        output_scale_tensor=_tensor(DataType.FLOAT32, *one),
        output_zero_point_tensor=_tensor(DataType.UINT8, *one),
        output_tensor=_tensor(DataType.UINT8, batch, 8, 6, 6),
        dimension_count=2,
        strides=(1, 1),
        dilations=(1, 1),
        start_padding=(0, 0),
        end_padding=(0, 0),
        group_count=1,
    )


def _quantize(batch: int) -> directml.ElementWiseQuantizeLinearOperatorDesc:
    return directml.ElementWiseQuantizeLinearOperatorDesc(
        input_tensor=_tensor(DataType.FLOAT32, batch, 64),
        scale_tensor=_tensor(DataType.FLOAT32, batch, 64),
        zero_point_tensor=_tensor(DataType.UINT8, batch, 64),
        output_tensor=_tensor(DataType.UINT8, batch, 64),
    )


def _drawn(desc: Any) -> Tensors:
    """Draw small values for every input."""
    draw = np.random.default_rng(0)
    order = directml.create_operator(desc, feature_level=_LEVEL).bind_order
    tensors = {name: getattr(desc, name) for name in order.inputs}
    return {name: draw.integers(1, 9, x.sizes).astype(x.dtype) for name, x in tensors.items()}


def _plain_nonzero(tensors: Tensors) -> list[jax.Array]:
    return list(dmlax.nonzero_coordinates(tensors["input_tensor"]))


def _plain_quantized(tensors: Tensors) -> list[jax.Array]:
    return [
        dmlax.quantized_linear_convolution(
            tensors["input_tensor"],
            tensors["filter_tensor"],
            tensors["bias_tensor"],
            input_scale=tensors["input_scale_tensor"],
            filter_scale=tensors["filter_scale_tensor"],
            output_scale=tensors["output_scale_tensor"],
            input_zero_point=tensors["input_zero_point_tensor"],
            filter_zero_point=tensors["filter_zero_point_tensor"],
            output_zero_point=tensors["output_zero_point_tensor"],
        )
    ]


def _plain_quantize(tensors: Tensors) -> list[jax.Array]:
    operands = (tensors[f"{name}_tensor"] for name in ("input", "scale", "zero_point"))
    return [dmlax.element_wise_quantize_linear(*operands)]


_CASES: dict[str, tuple[Callable[[int], Any], Callable[[Any], list[jax.Array]]]] = {
    "nonzero_coordinates": (_nonzero, _plain_nonzero),
    "quantized_linear_convolution": (_quantized, _plain_quantized),
    "element_wise_quantize_linear": (_quantize, _plain_quantize),
}

"""A program that gives a kernel's handler hostile attributes and shapes: a crash ends it.

    PYTHONPATH=tests python -m support.hostile.handlers 0 dmlax_max_pooling_v1 dmlax_lookup_v1

It prints each call before it makes it, so the last line names the call that ended the process.
"""

import os
import resource
import sys
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from dmlax._cpu import library
from support.raw_calls import GOOD

MOST_GROWTH = 3 << 20  # KiB of the process: one image's planes may take 2 GiB
HUGE = (2**30, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**61, 2**62, 2**63 - 1)
ODD = (*HUGE, 0, 1, 2, 3, 64, -1, -(2**31), -(2**62), -(2**63))
SIZES = (0, 1, 2, 3, 5, 8, 65)
DTYPES = ("int8", "uint8", "int16", "int32", "float32")
REFUSALS = (  # the handlers', then XLA's own for a result's data type
    *("convolution: ", "matrix product: ", "matrix product's epilogue: ", "element_wise: "),
    *("quantized_binary: ", "lookup: ", "pooling: ", "dynamic_quantize: ", "nonzero_coordinates: "),
    *("rows: ", "quantized_softmax: ", "block product: ", "float convolution: "),
    *("level product: ", "cache attention: ", "ordered product: ", "ordered sum: "),
    "exact function: ",
    "Wrong buffer dtype",
)


@dataclass(frozen=True)
class HandlerCall:
    """A call of a handler: arrays as (shape, dtype), and attributes."""

    operands: tuple[tuple[tuple[int, ...], str], ...]
    outputs: tuple[tuple[tuple[int, ...], str], ...]
    attributes: dict[str, Any]

    def run(self, target: str) -> None:
        """Make the call, which is refused or answered."""
        results = [jax.ShapeDtypeStruct(shape, np.dtype(dtype)) for shape, dtype in self.outputs]
        values = [np.ones(shape, dtype) for shape, dtype in self.operands]
        call = jax.ffi.ffi_call(target, results)
        try:
            jax.block_until_ready(call(*values, **self.attributes))
        except jax.errors.JaxRuntimeError as error:
            if not any(words in str(error) for words in REFUSALS):
                raise


POOL = {"windows": np.array([1, 1, 1, 0] + [2, 1, 1, 0] * 2, np.int64), "channels_last": False}
IMAGE = ((1, 2, 1, 5, 5), "uint8")
POOLED = (((1, 2, 1, 4, 4), "uint8"),)
FLOAT, ZERO, ONE = ((1,), "float32"), ((1,), "uint8"), ((1, 1), "float32")
BINARY = HandlerCall(
    (*[((2, 3), "uint8")] * 2, *[ONE] * 3, *[((1, 1), "uint8")] * 3),
    (((2, 3), "uint8"),),
    {"exact": True},
)
SUMS = (((3, 4), "int32"), ONE, ((1, 4), "float32"))
CALLS = {
    "dmlax_nonzero_coordinates_v1": HandlerCall(
        (((3, 5), "float32"),),
        (((), "uint32"), ((15, 2), "uint32")),
        {"sizes": np.array([3, 5], np.int64), "fill_value": np.uint32(7)},
    ),
    "dmlax_convolution_v1": HandlerCall(
        tuple(GOOD.operands.values()), (GOOD.output,), GOOD.attributes
    ),
    "dmlax_matrix_multiply_v1": HandlerCall(
        (
            *(((3, 5), "uint8"), ((5, 4), "int8"), ((0,), "int32"), ZERO, ((1,), "int8")),
            *(((4,), "int32"), FLOAT, ((4,), "float32"), FLOAT, ZERO),
        ),
        (((3, 4), "uint8"),),
        {"transposed": False, "panels": False, "b_unsigned": False, "exact": True},
    ),
    "dmlax_requantize_sums_v1": HandlerCall(
        (*SUMS, ONE, ((1, 1), "uint8"), ((1, 4), "int32")),
        (((3, 4), "uint8"),),
        {"exact": True},
    ),
    "dmlax_scale_sums_v1": HandlerCall(
        (*SUMS, ((1, 4), "float32")),
        (((3, 4), "float32"),),
        {"has_bias": True, "exact": True},
    ),
    "dmlax_quantize_linear_v1": HandlerCall(
        (((3, 1, 70), "float32"), ((1, 2, 1), "float32"), ((3, 1, 1), "int8")),
        (((3, 2, 70), "int8"),),
        {"exact": True},
    ),
    "dmlax_dequantize_linear_v1": HandlerCall(
        (((3, 1, 70), "int8"), ((1, 2, 1), "float32"), ((3, 1, 1), "int8")),
        (((3, 2, 70), "float32"),),
        {},
    ),
    "dmlax_quantized_add_v1": BINARY,
    "dmlax_quantized_multiply_v1": BINARY,
    "dmlax_lookup_v1": HandlerCall((((4,), "uint8"), ((256,), "uint8")), (((4,), "uint8"),), {}),
    "dmlax_max_pooling_v1": HandlerCall((IMAGE,), POOLED, POOL),
    "dmlax_average_pooling_v1": HandlerCall(
        (IMAGE, FLOAT, ZERO, FLOAT, ZERO),
        POOLED,
        POOL | {"include_padding": False, "exact": True, "is_global": False},
    ),
    "dmlax_dynamic_quantize_v1": HandlerCall(
        (((3, 4), "float32"),),
        (((3, 4), "uint8"), ((), "float32"), ((), "uint8")),
        {"exact": True},
    ),
    "dmlax_normalize_rows_v1": HandlerCall(
        (((3, 5), "float32"), ((5,), "float32"), ((5,), "float32")),
        (((3, 5), "float32"),),
        {"epsilon": np.float32(1e-5), "is_centred": True},
    ),
    "dmlax_softmax_rows_v1": HandlerCall((((3, 5), "float32"),), (((3, 5), "float32"),), {}),
    "dmlax_average_bytes_v1": HandlerCall(
        (((2, 5, 3), "uint8"), ((256,), "float32")), (((2, 3), "float32"),), {}
    ),
    "dmlax_quantized_softmax_v1": HandlerCall(
        (((3, 5), "uint8"), ((256,), "float32")),
        (((3, 5), "uint8"),),
        {"multiplier": np.float32(256), "zero_point": np.int64(0)},
    ),
    "dmlax_block_product_v1": HandlerCall(
        (((128,), "float32"), ((8, 32), "uint8"), ((8, 2), "float32"), ((8, 2), "float32")),
        (((16,), "float32"),),
        {},
    ),
    "dmlax_level_product_v1": HandlerCall(
        (((2, 64), "float32"), ((8, 32), "uint8"), ((8, 2), "float32"), ((8, 1), "uint8")),
        (((2, 8), "float32"),),
        {"bits": np.int64(4), "block": np.int64(32)},
    ),
    "dmlax_cache_attention_v1": HandlerCall(
        (
            *(((2, 4, 3, 8), "float32"), ((2, 2, 5, 8), "float32"), ((2, 2, 5, 6), "float32")),
            *(((2, 3, 2), "int32"), ((2, 4), "float32")),
        ),
        (((2, 4, 3, 6), "float32"),),
        {"scale": np.float32(0.5), "softcap": np.float32(0)},
    ),
    "dmlax_float_convolution_v1": HandlerCall(
        (
            *(((2, 3, 5, 5), "float32"), ((4, 12), "float32"), ((4,), "float32")),
            *(((4,), "float32"), ((0,), "float32")),
        ),
        (((2, 4, 3, 3), "float32"),),
        {
            "axes": np.int64(2),
            "windows": np.array([2, 2, 2, 2, 1, 1, 1, 1], np.int64),
            "groups": np.int64(1),
            "input_last": False,
            "output_last": False,
            "packed": False,
            "transposed": False,
            "activation": np.int64(1),
            "low": np.float32(0),
            "high": np.float32(6),
            "fuses": False,
        },
    ),
    "dmlax_ordered_product_v1": HandlerCall(
        (((2, 3, 70), "float32"), ((2, 70, 5), "float32")), (((2, 3, 5), "float32"),), {}
    ),
    "dmlax_ordered_sum_v1": HandlerCall((((2, 70, 5), "float32"),), (((2, 5), "float32"),), {}),
    "dmlax_exact_function_v1": HandlerCall(
        (((2, 70), "float32"),), (((2, 70), "float32"),), {"function": np.int64(8)}
    ),
}


def changed(rng: np.random.Generator, call: HandlerCall) -> HandlerCall:
    """Return the call with hostile attributes, and sometimes other shapes and data types."""
    attributes = {name: _attribute(rng, value) for name, value in call.attributes.items()}
    arrays = [*call.operands, *call.outputs]
    if rng.random() < 0.4:
        at, size = rng.integers(len(arrays)), int(rng.choice(SIZES))
        arrays[at] = (_shape(rng, arrays[at][0], size), arrays[at][1])
    if rng.random() < 0.1:
        at = rng.integers(len(arrays))
        arrays[at] = (arrays[at][0], str(rng.choice(DTYPES)))
    if rng.random() < 0.3:
        arrays = _emptied(rng, arrays)
    count = len(call.operands)
    return HandlerCall(tuple(arrays[:count]), tuple(arrays[count:]), attributes)


def far_windows(rng: np.random.Generator, target: str, call: HandlerCall) -> HandlerCall:
    """Return windows of a pool or convolution that fit, and reach far outside of the image."""
    windows = call.attributes["windows"].copy()
    unit, axes = int(rng.choice(HUGE)), []
    for axis in range(2):
        image = call.operands[0][0][axis - 2]
        window, stride, dilation, start, end = (
            int(each)
            for each in (
                rng.choice([1, 2, 3]),
                *rng.choice([1, 2, max(unit // 2, 1), unit], 2),
                *rng.choice([0, 1, unit // 2, unit], 2),
            )
        )
        is_convolution = "_convolution_" in target
        window = 2 if is_convolution else window
        count = (image + start + end - (window - 1) * dilation - 1) // stride + 1
        axes.append(min(max(count, 1), 9))
        if is_convolution:
            rows = window, stride, dilation, start, min(end, 2**63 - 1)
            windows[axis::2] = rows[: len(windows) // 2]
        else:
            windows[4 * axis + 4 :][:4] = window, stride, dilation, start
    shape, dtype = call.outputs[0]
    outputs = (((*shape[:-2], *axes), dtype),)
    return replace(call, outputs=outputs, attributes=call.attributes | {"windows": windows})


def _attribute(rng: np.random.Generator, value: Any) -> Any:
    if isinstance(value, bool):
        return value ^ (rng.random() < 0.15)
    if isinstance(value, np.ndarray):
        value = value.copy()
        for _ in range(rng.integers(4)):
            value[rng.integers(len(value))] = rng.choice(ODD)
        return value[: rng.integers(len(value))] if rng.random() < 0.05 else value
    odd = int(rng.choice(ODD))
    odd = odd % 2**32 if value.dtype == np.uint32 else odd
    return value.dtype.type(odd) if rng.random() < 0.3 else value


def _shape(rng: np.random.Generator, shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return a shape with another size, an axis more or an axis less."""
    axes, kind = list(shape), rng.integers(4)
    at = int(rng.integers(max(len(axes), 1)))
    if kind == 0 or not axes:
        axes.insert(at, size)
    elif kind == 1:
        del axes[at]
    else:
        axes[at] = size
    return tuple(axes)


def _emptied(rng: np.random.Generator, arrays: list[Any]) -> list[Any]:
    """Return arrays without elements, whose other sizes need no memory, however large."""
    rank = max(len(shape) for shape, _ in arrays)
    zero, huge, size = *rng.integers(rank, size=2), int(rng.choice([2**31, 2**40, 2**50]))

    def emptied(shape: tuple[int, ...]) -> tuple[int, ...]:
        axes = list(shape)
        for at in (huge, zero):
            if at < len(axes):
                axes[at] = 0 if at == zero else size
        return tuple(axes) if 0 in axes else shape

    return [(emptied(shape), dtype) for shape, dtype in arrays]


def check(target: str, seed: int, count: int) -> None:
    """Make the good call, then others."""
    good, rng = CALLS[target], np.random.default_rng(seed)
    good.run(target)
    for i in range(count):
        far = "windows" in good.attributes and i % 2
        call = far_windows(rng, target, good) if far else changed(rng, good)
        print(target, call, flush=True)
        call.run(target)


def main(seed: str, *targets: str) -> None:
    """Check handlers, and that they have taken little memory."""
    assert library.why_not("cpu") is None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for target in targets:
        check(target, int(seed), int(os.environ.get("CALLS", "25")))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < MOST_GROWTH, f"{grown} KiB"


if __name__ == "__main__":
    main(*sys.argv[1:])

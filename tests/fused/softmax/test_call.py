"""The softmax of 8 bits: the kernel beside plain XLA. Tests of `onnx` compare ONNX Runtime."""

import jax
import numpy as np
import pytest

from dmlax._fused.softmax.call import SOFTMAX
from support import needs_kernels
from support.raw_calls import call_handler

pytestmark = needs_kernels
COUNTS = (1, 7, 64, 300)
UNITS = 1 / 256, 2.0**-60, 0.01, 1.5, -0.01, 2.0**-126


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_the_kernel_has_the_bits_of_xla(dtype, unit):
    rng, limits = np.random.default_rng(0), np.iinfo(dtype)
    for count, spread, scale in zip(COUNTS, (256, 4, 60, 256), (3, 0.7, 0.01, 0.1), strict=True):
        x = rng.integers(0, spread, (2, 9, count)) + limits.min  # 18 rows: 8, 8 and 2
        zero_point = int(rng.integers(limits.min, limits.max + 1))
        plan, operands = SOFTMAX.plan(x.astype(dtype), scale, np.float32(unit), zero_point)
        wanted = SOFTMAX.call(plan, operands, "xla")
        np.testing.assert_array_equal(SOFTMAX.call(plan, operands, "native_cpu"), wanted)


def test_a_batch_is_one_call():
    x = np.random.default_rng(1).integers(0, 256, (40, 32, 64), np.uint8)

    def softmax(x):
        return SOFTMAX.call(*SOFTMAX.plan(x, 0.1, np.float32(1 / 256), 0))

    mapped = jax.jit(jax.vmap(softmax))
    assert mapped.lower(x).as_text().count("dmlax_quantized_softmax_v1") == 1
    np.testing.assert_array_equal(mapped(x), softmax(x))


@pytest.mark.parametrize(
    ("dtypes", "shapes", "zero_point", "why"),
    [
        (("int16", "float32", "int16"), ((3, 4), (256,), (3, 4)), 0, "element type"),
        (("uint8", "float32", "int8"), ((3, 4), (256,), (3, 4)), 0, "element type"),
        (("uint8", "int32", "uint8"), ((3, 4), (256,), (3, 4)), 0, "element type"),
        (("uint8", "float32", "uint8"), ((3, 4), (255,), (3, 4)), 0, "size"),
        (("uint8", "float32", "uint8"), ((3, 4), (256,), (4, 3)), 0, "size"),
        (("uint8", "float32", "uint8"), ((), (256,), ()), 0, "size"),
        (("uint8", "float32", "uint8"), ((3, 4), (256,), (3, 4)), -1, "zero point"),
        (("int8", "float32", "int8"), ((3, 4), (256,), (3, 4)), 128, "zero point"),
    ],
)
def test_the_handler_refuses_what_does_not_fit(dtypes, shapes, zero_point, why):
    attributes = {"multiplier": np.float32(1), "zero_point": np.int64(zero_point)}
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"quantized_softmax: .*{why}"):
        call_handler("dmlax_quantized_softmax_v1", dtypes, shapes, **attributes)

"""A fuzz target for the native kernels, by Atheris; `nox -s fuzz` runs it under sanitizers.

    python tools/fuzz/native_cpu.py -max_total_time=600

Each input becomes a call of a kernel: a valid one, whose output must be that of NumPy's integers,
or one of a handler itself with anything in its shapes and attributes, which must be refused or
answered, and never read or write what is not its own.
"""

import sys
from dataclasses import replace
from pathlib import Path

import atheris

TESTS = Path(__file__).parents[2] / "tests"
sys.path.append(str(TESTS))
with atheris.instrument_imports(include=["dmlax"]):
    import dmlax

import jax
import jax.numpy as jnp
import numpy as np

from support import assert_same
from support.calls.convolution import call as convolution
from support.calls.elementwise import INTEGERS
from support.calls.elementwise import call as element_wise
from support.calls.matmul import call as product
from support.hostile.handlers import CALLS, changed, far_windows
from support.raw_calls import GOOD, OPERANDS

FRESH = 0.7  # the share of new inputs; the rest are changes of telling inputs
KEPT = 500  # calls, after which what was compiled for them is forgotten
DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32")
OF_A_PARAMETER = ("int8", "uint8", "int16", "int32", "float32", "float64")
OF_AN_ELEMENT = ("float32", "float16", "bfloat16", "bool", *INTEGERS)
FLAGS = ["panels", "input_last", "output_last", "filter_unsigned", "exact"]
ODD = (0, 1, 2, 3, 63, 64, 65, -1, -(2**63), 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1)
calls = 0


@atheris.instrument_func
def one_input(data: bytes) -> None:
    """Run one call."""
    global calls
    calls += 1
    if calls % KEPT == 0:
        jax.clear_caches()
    given = atheris.FuzzedDataProvider(data)
    which = given.PickValueInList(
        [
            nonzero,
            valid_convolution,
            valid_product,
            valid_element_wise,
            invalid_convolution,
            invalid_nonzero,
            invalid_element_wise,
            hostile_handler,
        ]
    )
    which(given)


def fresh_or_changed(data: bytes, most: int, seed: int) -> bytes:
    """Mostly new bytes: where a sanitizer keeps its counters to itself, no input looks telling."""
    rng = np.random.default_rng(seed)
    if rng.random() < FRESH:
        return rng.bytes(int(rng.integers(1, most)))
    return bytes(atheris.Mutate(data, len(data)))


@atheris.instrument_func
def nonzero(given: atheris.FuzzedDataProvider) -> None:
    """Values, shape, size and rank as the fuzzer says."""
    dtype = np.dtype(given.PickValueInList(list(DTYPES)))
    shape = [given.ConsumeIntInRange(0, 40) for _ in range(given.ConsumeIntInRange(1, 4))]
    elements = int(np.prod(shape))
    words = given.ConsumeBytes(elements * dtype.itemsize).ljust(elements * dtype.itemsize, b"\0")
    if dtype.kind == "b":
        words = bytes(byte & 1 for byte in words)
    x = np.frombuffer(words, dtype).reshape(shape)
    rows = np.argwhere(x)
    size = given.ConsumeIntInRange(0, elements + 70)
    fill = given.ConsumeIntInRange(0, 2**32 - 1)
    count, got = dmlax.nonzero_coordinates(
        x, size=size, fill_value=fill, implementation="native_cpu"
    )
    wanted = np.full((size, rows.shape[1]), fill, np.uint32)
    wanted[: len(rows)] = rows[:size]
    np.testing.assert_array_equal(count, len(rows))
    np.testing.assert_array_equal(got, wanted)


@atheris.instrument_func
def valid_convolution(given: atheris.FuzzedDataProvider) -> None:
    """One of 2^32 random calls."""
    chosen = convolution(given.ConsumeIntInRange(0, 2**32 - 1))
    np.testing.assert_array_equal(chosen("native_cpu"), chosen.expected(), strict=True)


@atheris.instrument_func
def valid_product(given: atheris.FuzzedDataProvider) -> None:
    """One of 2^32 random calls."""
    chosen = product(given.ConsumeIntInRange(0, 2**32 - 1))
    assert_same(chosen("native_cpu"), chosen.expected())


@atheris.instrument_func
def invalid_convolution(given: atheris.FuzzedDataProvider) -> None:
    """A good call of the handler with some shapes, data types and attributes changed."""
    call = GOOD
    for _ in range(given.ConsumeIntInRange(0, 4)):
        kind = given.ConsumeIntInRange(0, 4)
        if kind == 0:
            name = given.PickValueInList(list(OPERANDS))
            shape, dtype = call.operands[name]
            call = call.with_operands(**{name: (_shape(given, shape), dtype)})
        elif kind == 1:
            name = given.PickValueInList(list(OPERANDS))
            shape, _ = call.operands[name]
            call = call.with_operands(
                **{name: (shape, given.PickValueInList(list(OF_A_PARAMETER)))}
            )
        elif kind == 2:
            shape, dtype = call.output
            call = replace(call, output=(_shape(given, shape), dtype))
        elif kind == 3:
            windows = call.attributes["windows"].copy()
            windows[given.ConsumeIntInRange(0, 9)] = _number(given)
            call = call.with_attributes(windows=windows)
        else:
            name = given.PickValueInList(FLAGS)
            call = call.with_attributes(
                **{name: not call.attributes[name]}, groups=np.int64(_number(given))
            )
    _refused_or_answered(call, given)


@atheris.instrument_func
def invalid_nonzero(given: atheris.FuzzedDataProvider) -> None:
    """The other handler, with any sizes."""
    x = np.ones(_shape(given, (3, 5)), given.PickValueInList([*DTYPES, "complex64"]))
    shapes = [_shape(given, ()), _shape(given, (x.size, max(x.ndim, 1)))]
    outputs = [jax.ShapeDtypeStruct(shape, np.uint32) for shape in shapes]
    sizes = [*x.shape]
    if sizes and given.ConsumeBool():
        sizes[given.ConsumeIntInRange(0, len(sizes) - 1)] = _number(given)
    call = jax.ffi.ffi_call("dmlax_nonzero_coordinates_v1", outputs)
    _refused_or_answered(
        lambda _: call(x, sizes=np.array(sizes, np.int64), fill_value=np.uint32(7)), given
    )


@atheris.instrument_func
def valid_element_wise(given: atheris.FuzzedDataProvider) -> None:
    """One of 2^32 random calls."""
    chosen = element_wise(given.ConsumeIntInRange(0, 2**32 - 1))
    assert_same(chosen("native_cpu"), chosen.expected())


@atheris.instrument_func
def invalid_element_wise(given: atheris.FuzzedDataProvider) -> None:
    """Either element-wise handler, with some shapes and data types changed."""
    quantizes = given.ConsumeBool()
    dtypes = ["float32", "float32", "int8", "int8"] if quantizes else ["int8", "float32"] * 2
    shapes = [(3, 1, 70), (1, 2, 1), (3, 1, 1), (3, 2, 70)]
    for _ in range(given.ConsumeIntInRange(0, 3)):
        operand = given.ConsumeIntInRange(0, 3)
        if given.ConsumeBool():
            shapes[operand] = _shape(given, shapes[operand])
        else:
            dtypes[operand] = given.PickValueInList(list(OF_AN_ELEMENT))
    *operands, output = (
        jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))
        for shape, dtype in zip(shapes, dtypes, strict=True)
    )
    target = "dmlax_quantize_linear_v1" if quantizes else "dmlax_dequantize_linear_v1"
    call = jax.ffi.ffi_call(target, output)
    attributes = {"exact": given.ConsumeBool()} if quantizes else {}
    values = [jnp.ones(operand.shape, operand.dtype) for operand in operands]
    _refused_or_answered(lambda _: call(*values, **attributes), given)


@atheris.instrument_func
def hostile_handler(given: atheris.FuzzedDataProvider) -> None:
    """Any handler, its attributes up to 2^63, its windows far outside of the image or not."""
    target = given.PickValueInList(list(CALLS))
    rng = np.random.default_rng(given.ConsumeIntInRange(0, 2**32 - 1))
    if "windows" in CALLS[target].attributes and given.ConsumeBool():
        far_windows(rng, target, CALLS[target]).run(target)
    else:
        changed(rng, CALLS[target]).run(target)


def _refused_or_answered(call: object, given: atheris.FuzzedDataProvider) -> None:
    try:
        jax.block_until_ready(call(given.ConsumeIntInRange(0, 255)))  # type: ignore[operator]
    except jax.errors.JaxRuntimeError as error:  # the handler's, or XLA's own for a data type
        known = ("convolution: ", "nonzero_coordinates: ", "element_wise: ", "Wrong buffer")
        if not any(words in str(error) for words in known):
            raise


@atheris.instrument_func
def _shape(given: atheris.FuzzedDataProvider, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape with an axis more, an axis less, or another size."""
    axes, kind = list(shape), given.ConsumeIntInRange(0, 2)
    at = given.ConsumeIntInRange(0, max(len(axes) - 1, 0))
    if kind == 0 or not axes:
        axes.insert(at, given.ConsumeIntInRange(0, 5))
    elif kind == 1:
        del axes[at]
    else:
        axes[at] = given.ConsumeIntInRange(0, 130)
    return tuple(axes)


@atheris.instrument_func
def _number(given: atheris.FuzzedDataProvider) -> int:
    if given.ConsumeBool():
        return int(given.PickValueInList(list(ODD)))
    return int(given.ConsumeIntInRange(-3, 200))


if __name__ == "__main__":
    options = ["-len_control=0", "-max_len=600"]
    atheris.Setup([*sys.argv, *options], one_input, custom_mutator=fresh_or_changed)
    atheris.Fuzz()

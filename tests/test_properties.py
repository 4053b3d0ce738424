"""Whatever Hypothesis draws, the oracle agrees."""

import functools

import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import dmlax
from convolution_cases import LAYOUTS, NARROW, keywords, laid_out
from support import (
    assert_same,
    draw,
    oracle,
    padded_rows,
    wild_floats,
    window_attributes,
)

EIGHT_BITS = st.sampled_from(["int8", "uint8"])
SEEDS = st.integers(0, 2**32 - 1)
NONZERO_DTYPES = [
    *("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32"),
]


@st.composite
def sparse_arrays(draws):
    """An array of any shape, its zeros of both signs where there are two."""
    dtype = np.dtype(draws(st.sampled_from(NONZERO_DTYPES)))
    shape = tuple(draws(st.lists(st.integers(1, 5), min_size=1, max_size=5)))
    seed, density = draws(SEEDS), draws(st.sampled_from([0, 0.1, 0.5, 1]))
    keep = np.random.default_rng(seed).random(shape) < density
    if dtype.kind == "b":
        return keep
    words = draw(seed, f"uint{dtype.itemsize * 8}", shape) * keep
    if dtype.kind == "f":
        words = np.where(keep, words, words.dtype.type(1 << (dtype.itemsize * 8 - 1)))
        words[..., :1] *= keep[..., :1]
    return words.view(dtype)


def ranks(x):
    sizes = list(x.shape)
    while len(sizes) > 1 and sizes[0] == 1:
        sizes.pop(0)
    return st.integers(len(sizes), x.ndim)


@given(st.data(), sparse_arrays(), st.integers(0, 2**32 - 1))
def test_nonzero_coordinates(data, x, fill_value):
    size, width = data.draw(st.integers(0, x.size + 40)), data.draw(ranks(x))
    found = dmlax.nonzero_coordinates(x, size=size, coordinate_rank=width, fill_value=fill_value)
    asked = {
        "OutputCountTensor": ("uint32", ()),
        "OutputCoordinatesTensor": ("uint32", (x.size, width)),
    }
    expected = oracle("nonzero_coordinates", {"InputTensor": x}, asked)
    count = expected["OutputCountTensor"]
    assert_same(found.count, count)
    rows = expected["OutputCoordinatesTensor"][:count]
    assert_same(found.coordinates, padded_rows(rows, size, fill_value))


@st.composite
def convolutions(draws):
    """Operands by DirectML's names, and dmlax's window options."""
    spatial = draws(st.sampled_from([2, 2, 2, 1]))
    group_count, channels, per_group = (draws(st.integers(1, 3)) for _ in range(3))
    sizes = st.lists(st.integers(1, 3), min_size=spatial, max_size=spatial)
    kernel, strides, dilations = (tuple(draws(sizes)) for _ in range(3))
    padding = st.lists(st.integers(0, 3), min_size=spatial, max_size=spatial)
    start, end, spare = (tuple(draws(padding)) for _ in range(3))
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    image = [
        max(span - a - b, 1) + extra
        for span, a, b, extra in zip(spans, start, end, spare, strict=True)
    ]
    outputs, seed = group_count * per_group, draws(SEEDS)
    x_dtype, w_dtype = draws(EIGHT_BITS), draws(EIGHT_BITS)
    input_zero, filter_zero = draws(st.booleans()), draws(st.sampled_from([None, (), (outputs,)]))
    inputs = {
        "InputTensor": draw(
            seed, x_dtype, (draws(st.integers(1, 2)), group_count * channels, *image)
        ),
        "FilterTensor": draw(seed + 1, w_dtype, (outputs, channels, *kernel)),
        "InputZeroPointTensor": draw(seed + 2, x_dtype) if input_zero else None,
        "FilterZeroPointTensor": None
        if filter_zero is None
        else draw(seed + 3, w_dtype, filter_zero),
    }
    options = {
        "strides": strides,
        "dilations": dilations,
        "start_padding": start,
        "end_padding": end,
        "group_count": group_count,
    }
    return inputs, options, draws(st.booleans())


def call(function, inputs, options, layout, prepared, *bias, **parameters):
    """The result in the canonical layout, from operands in another, the filter prepared or not."""
    x, w = inputs["InputTensor"], inputs["FilterTensor"]
    canonical = LAYOUTS["NCHW"] if x.ndim == 4 else NARROW
    layout = layout if x.ndim == 4 else canonical
    w = laid_out(w, canonical[1], layout[1])
    zero = keywords(inputs, "FilterZeroPointTensor")
    shared = {"group_count": options["group_count"], "dimension_numbers": layout}
    if prepared:
        w, zero = dmlax.prepare_filter(w, **zero, **shared), {}
    result = function(
        *(laid_out(x, canonical[0], layout[0]), w, *bias),
        **keywords(inputs, "InputZeroPointTensor"),
        **zero,
        **parameters,
        **{**options, **shared},
    )
    return laid_out(np.asarray(result), layout[2], canonical[2])


LAYOUT = st.sampled_from(list(LAYOUTS.values()))


@given(convolutions(), LAYOUT)
def test_convolution_integer(convolution, layout):
    inputs, options, prepared = convolution
    got = call(dmlax.convolution_integer, inputs, options, layout, prepared)
    attributes = window_attributes(inputs["InputTensor"].ndim - 2, **options)
    asked = {"OutputTensor": ("int32", ())}
    expected = oracle("convolution_integer", inputs, asked, **attributes)
    assert_same(got, expected["OutputTensor"])


@given(convolutions(), LAYOUT, SEEDS, EIGHT_BITS, st.booleans(), st.booleans(), st.booleans())
def test_quantized_linear_convolution(convolution, layout, seed, dtype, biased, shifted, wild):
    inputs, options, prepared = convolution
    outputs = len(inputs["FilterTensor"])
    rng = np.random.default_rng(seed)
    sx, sw, sy = (
        wild_floats(seed + 1, 3)
        if wild
        else rng.choice([0.25, 0.3, 1.0, 3.0, -1.7], 3).astype(np.float32)
    )
    inputs = inputs | {
        "BiasTensor": draw(seed, np.int32, outputs) >> 18 if biased else None,
        "InputScaleTensor": sx,
        "FilterScaleTensor": np.full(outputs, sw)
        * np.exp2(rng.integers(-2, 3, outputs)).astype(np.float32),
        "OutputScaleTensor": sy if wild else sy * np.float32(97),
        "OutputZeroPointTensor": draw(seed, dtype) if shifted else None,
    }
    if not np.isfinite(inputs["FilterScaleTensor"]).all() or not inputs["FilterScaleTensor"].all():
        inputs["FilterScaleTensor"] = sw
    got = call(
        functools.partial(dmlax.quantized_linear_convolution, output_dtype=dtype),
        *(inputs, options, layout, prepared, inputs["BiasTensor"]),
        **keywords(
            inputs,
            "InputScaleTensor",
            "FilterScaleTensor",
            "OutputScaleTensor",
            "OutputZeroPointTensor",
        ),
    )
    attributes = window_attributes(inputs["InputTensor"].ndim - 2, **options)
    asked = {"OutputTensor": (dtype, ())}
    expected = oracle("quantized_linear_convolution", inputs, asked, **attributes)
    assert_same(got, expected["OutputTensor"])


@st.composite
def broadcasts(draws):
    """A shape, and two that broadcast to it."""
    shape = tuple(draws(st.lists(st.integers(1, 5), min_size=1, max_size=4)))

    def parameter():
        kept = [size if draws(st.booleans()) else 1 for size in shape]
        return tuple(kept[draws(st.integers(0, len(shape))) :])

    return shape, parameter(), parameter()


@given(
    broadcasts(), SEEDS, st.sampled_from(["float32", "float16", "int32"]), EIGHT_BITS, st.booleans()
)
def test_element_wise_quantize_linear(shapes, seed, kind, dtype, wild):
    shape, scale_shape, zero_shape = shapes
    rng = np.random.default_rng(seed)
    scale_dtype = np.dtype("float16" if kind == "float16" else "float32")
    scale = wild_floats(seed, scale_shape, scale_dtype)
    if not wild:
        scale = np.asarray(rng.choice([0.5, 1, -2, 1.7], scale_shape), scale_dtype)
    if kind == "int32":
        x = draw(seed, np.int32, shape) >> np.int32(rng.integers(0, 31))
    else:
        with np.errstate(over="ignore"):
            ties = rng.integers(-300, 300, shape) / 2 * np.broadcast_to(scale, shape).astype(float)
            x = np.where(rng.random(shape) < 0.8, ties, wild_floats(seed, shape, kind)).astype(kind)
    zero = draw(seed, dtype, zero_shape)
    got = dmlax.element_wise_quantize_linear(x, scale, zero)
    inputs = {"InputTensor": x, "ScaleTensor": scale, "ZeroPointTensor": zero}
    asked = {"OutputTensor": (dtype, shape)}
    assert_same(got, oracle("element_wise_quantize_linear", inputs, asked)["OutputTensor"])


@given(
    broadcasts(),
    SEEDS,
    st.sampled_from(["int8", "uint8", "int16", "uint16", "int32", "uint32"]),
    st.sampled_from(["float32", "float16"]),
    st.booleans(),
)
def test_element_wise_dequantize_linear(shapes, seed, dtype, kind, shifted):
    shape, scale_shape, zero_shape = shapes
    x, scale = draw(seed, dtype, shape), wild_floats(seed, scale_shape, kind)
    zero = draw(seed + 1, dtype, zero_shape) if shifted else None
    got = dmlax.element_wise_dequantize_linear(jnp.asarray(x), jnp.asarray(scale), zero)
    inputs = {"InputTensor": x, "ScaleTensor": scale, "ZeroPointTensor": zero}
    asked = {"OutputTensor": (kind, shape)}
    assert_same(got, oracle("element_wise_dequantize_linear", inputs, asked)["OutputTensor"])

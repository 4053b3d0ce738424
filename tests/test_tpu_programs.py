"""Programs for five generations of TPU, compiled here ahead of time; no TPU runs them.

Of the convolutions v5e gets every combination of dtypes, arithmetic, preparation and groups; the
others get a covering set, with every combination of dtypes and every pair of all choices. All of
them get every dtype of the element-wise operators and, in every rank, of nonzero; the dozen layers
one image at a time; and nonzero of 2^20 elements. v5e gets every law, and so every operator.

Seconds are the process's, of all threads, so that a busy machine does not count.
"""

from functools import partial
from itertools import combinations, product
from math import prod
from typing import NamedTuple

import jax
import pytest

import dmlax
from support.laws import LAWS
from support.optimised import HOST, Product, Program, read
from support.tpu import GENERATIONS, compile_for
from tools.benchmarks import cases

pytestmark = pytest.mark.tpu

LAYERS = cases.layers(  # every kernel and stride, few and many channels, depthwise
    "conv1|res2.(1x1[ac]|3x3)|res3.(3x3s2|proj)|res[45].(1x1b|3x3)|dw56s2|dw14"
)
MOST_SECONDS = 30.0
EIGHT_BITS = ("int8", "uint8")
GROUPS = {"one group": 1, "two groups": 2, "depthwise": 16}
HARMLESS = {  # the compiler's own calls
    "AllocateBuffer",  # scratch memory of the chip
    "AssumeGatherIndicesInBound",  # a promise of the lookup's gather, which computes nothing
}
EXACT = Product("s8", "s8", "s32", 0)


class Choice(NamedTuple):
    """A quantized convolution; of "int32" output it is the integer one."""

    input: str
    filter: str
    output: str
    arithmetic: str
    prepared: bool
    groups: str


class Sought(NamedTuple):
    """A nonzero call."""

    dtype: str
    shape: tuple[int, ...]


CHOICES = [
    Choice(*each)
    for each in product(
        *(EIGHT_BITS, EIGHT_BITS, (*EIGHT_BITS, "int32")),
        *(("exact", "float32"), (False, True), GROUPS),
    )
    if each[2:4] != ("int32", "float32")  # an integer result has no arithmetic to choose
]
COVERING = CHOICES[::7]
SHAPES = ((1000,), (30, 40), (3, 50, 7), (2, 3, 40, 5))
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
FLOATS = ("float16", "bfloat16", "float32")
NONZERO = [Sought(*each) for each in product(("bool", *INTEGERS, *FLOATS), SHAPES)]
QUANTIZE = list(product(("float32", "float16", "int32"), EIGHT_BITS, ("exact", "float32")))
DEQUANTIZE = list(product(INTEGERS, ("float32", "float16")))


def on_generations(every, covering):
    """Parameters (generation, case): every case on v5e, a covering set elsewhere."""
    return [
        pytest.param(generation, each, id=f"{generation}-{'-'.join(map(str, each))}")
        for generation in GENERATIONS
        for each in (every if generation == "v5e" else covering)
    ]


def test_the_covering_set_has_every_pair_of_choices_and_every_dtype():
    def seen(choices, *fields):
        return {tuple(choice[field] for field in fields) for choice in choices}

    for pair in combinations(range(len(Choice._fields)), 2):
        assert seen(COVERING, *pair) == seen(CHOICES, *pair)
    assert seen(COVERING, 0, 1, 2) == seen(CHOICES, 0, 1, 2)


@pytest.mark.parametrize(("generation", "choice"), on_generations(CHOICES, COVERING))
def test_products_are_of_int8_whatever_the_dtypes(generation, choice):
    """A filter's zero point needs two products: it is multiplied with a sum of products."""
    call, elements = convolution(choice)
    found = compiled(generation, *call)
    products = [each._replace(elements=0) for each in found.products]
    if choice.groups == "depthwise":
        assert not products  # vectors of shifted products: one channel fills no matrix unit
        return
    assert products == 2 * [EXACT]
    assert max(each.elements for each in found.products) >= elements


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_a_layer_is_one_product_of_int8(generation, layer):
    problem = cases.Problem.of(layer, 1)
    x = shape(problem.x.dtype, problem.x.shape)
    found = compiled(generation, problem.call, x, problem.filter())
    products = [each._replace(elements=0) for each in found.products]
    if layer.groups > 1:
        assert not products
        return
    assert products == [EXACT]
    assert found.products[0].elements >= prod(problem.output_shape)


@pytest.mark.parametrize(("generation", "given"), on_generations(QUANTIZE, QUANTIZE))
def test_quantize(generation, given):
    dtype, output, arithmetic = given
    call = partial(
        dmlax.element_wise_quantize_linear, output_dtype=output, arithmetic=arithmetic, axis=1
    )
    scale = "float16" if dtype == "float16" else "float32"
    operands = shape(dtype, (8, 12, 40)), shape(scale, (12,)), shape(output, ())
    assert not compiled(generation, call, *operands).products


@pytest.mark.parametrize(("generation", "given"), on_generations(DEQUANTIZE, DEQUANTIZE))
def test_dequantize(generation, given):
    dtype, scale = given
    call = partial(dmlax.element_wise_dequantize_linear, axis=1)
    operands = shape(dtype, (8, 12, 40)), shape(scale, (12,)), shape(dtype, (12,))
    assert not compiled(generation, call, *operands).products


@pytest.mark.parametrize(("generation", "sought"), on_generations(NONZERO, NONZERO))
def test_nonzero(generation, sought):
    assert not compiled(generation, dmlax.nonzero_coordinates, shape(*sought)).products


@pytest.mark.parametrize("generation", GENERATIONS)
def test_nonzero_of_a_million(generation):
    compiled(generation, dmlax.nonzero_coordinates, shape("float32", (2**20,)))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_law_of_every_operator_compiles(law):
    operands = jax.tree.map(lambda x: shape(x.dtype, x.shape), law.operands)
    compiled("v5e", law.function, *operands)


def test_the_reader_sees_what_is_not_wanted():
    """The reference multiplies in int32, and a float product of another dtype shows too."""
    reference = partial(dmlax.convolution_integer, implementation="reference")
    operands = shape("uint8", (4, 4, 5, 5)), shape("int8", (4, 4, 2, 2))
    found = read(compile_for("v5e", reference, *operands)[0])
    assert EXACT not in [each._replace(elements=0) for each in found.products]
    by_float, _ = compile_for("v5e", jax.numpy.matmul, *2 * [shape("float32", (256, 256))])
    assert [each.result for each in read(by_float).products] == ["f32"]


def test_the_reader_sees_a_callback():
    def called_back(x):
        jax.debug.callback(print, x)
        return x

    found = read(compile_for("v5e", called_back, shape("float32", (8,)))[0])
    assert found.opcodes & HOST or found.custom_calls


# Calls ------------------------------------------------------------------------------------------


def convolution(choice: Choice):
    """A function and its operands, and how many elements it gives."""
    groups = GROUPS[choice.groups]
    x, w = shape(choice.input, (2, 16, 15, 14)), shape(choice.filter, (16, 16 // groups, 3, 3))
    padding = {"start_padding": (1, 1), "end_padding": (1, 0)}
    zero = {"input_zero_point": x, "filter_zero_point": w}
    zero = {name: shape(each.dtype, ()) for name, each in zero.items()}
    shared = {"group_count": groups}
    if choice.prepared:
        prepare = partial(dmlax.prepare_filter, **shared)
        w = jax.eval_shape(
            lambda w, z: prepare(w, filter_zero_point=z), w, zero.pop("filter_zero_point")
        )
    if choice.output == "int32":
        call = partial(dmlax.convolution_integer, **padding, **shared)
        return ((lambda x, w, zero: call(x, w, **zero)), x, w, zero), 2 * 16 * 15 * 13
    scales = {name: shape("float32", ()) for name in ("input_scale", "output_scale")}
    scales |= {"filter_scale": shape("float32", (16,))}
    zero |= {"output_zero_point": shape(choice.output, ())}
    call = partial(
        dmlax.quantized_linear_convolution, arithmetic=choice.arithmetic, **padding, **shared
    )
    bias = shape("int32", (16,))
    return (
        (lambda x, w, bias, rest: call(x, w, bias, **rest)),
        *(x, w, bias, zero | scales),
    ), 2 * 16 * 15 * 13


def shape(dtype, sizes) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(sizes, dtype)


def compiled(generation, function, *operands) -> Program:
    """The program, after what holds for all of them."""
    text, seconds = compile_for(generation, function, *operands)
    assert seconds < MOST_SECONDS
    found = read(text)
    assert "ENTRY" in text
    assert found.opcodes
    assert not found.dtypes & {"f64", "c64", "c128"}
    assert not found.opcodes & HOST
    assert found.custom_calls <= HARMLESS
    return found

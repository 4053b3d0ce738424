"""Exports with symbolic sizes: one program for any batch, and for any image of decidable size."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from support import NATIVE, assert_same, draw, in_turn
from support.laws import LAWS, PREPARED, ZERO, ZEROS, W, by_operator, prepared, quantize

PLATFORMS = ("cpu", "cuda", "tpu")


def export(function, sizes, dtype, *rest, constraints=(), platforms=PLATFORMS):
    """Exports function(x, *rest) for symbolic sizes of x, and reads back what it wrote."""
    shape = jax.export.symbolic_shape(sizes, constraints=constraints)
    call = jax.jit(lambda x: function(x, *rest))
    made = jax.export.export(call, platforms=platforms)(jax.ShapeDtypeStruct(shape, dtype))
    return jax.export.deserialize(made.serialize())


def sizes_of_any_batch(x):
    return ", ".join(["b", *map(str, x.shape[1:])])


WITH_A_BATCH = by_operator(law for law in LAWS if law.name != "nonzero")
PER_IMAGE = by_operator(law for law in LAWS if law.per_image)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("law", in_turn(WITH_A_BATCH, 0), ids=str)
def test_every_operator_exports_with_a_symbolic_batch(law):
    x, *rest = law.operands
    exported = export(law.function, sizes_of_any_batch(x), x.dtype, *rest)
    jax.tree.map(assert_same, exported.call(x), law.function(*law.operands))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("law", in_turn(PER_IMAGE, 1), ids=str)
def test_the_definition_takes_a_symbolic_batch(law):
    x, *rest = law.operands
    call = lambda x: law.function(x, *rest, implementation="reference")  # noqa: E731
    shape = jax.export.symbolic_shape(sizes_of_any_batch(x))
    made = jax.export.export(jax.jit(call))(jax.ShapeDtypeStruct(shape, x.dtype))
    assert str(made.out_avals[0].shape[0]) == "b"


HALVES = {"strides": (2, 2), "start_padding": (1, 1), "end_padding": (1, 1)}
IMAGES = {
    "padded": ("b, 4, h, w", {"start_padding": (1, 0), "end_padding": (0, 1)}, (), "4,h,w"),
    "strided": (
        "b, 4, h, w",
        {"strides": (2, 3), "start_padding": (1, 1)},
        (),
        "floordiv(h - 1, 2) + 1,floordiv(w - 1, 3) + 1",
    ),
    "constrained": ("b, 4, h, w", {"dilations": (3, 1)}, ("h >= 4", "w >= 2"), "h - 3,w - 1"),
    "unpadded": ("b, 4, h, w", {}, (), "h - 1,w - 1"),
    "unpadded, strided": (
        "b, 4, h, w",
        {"strides": (2, 3), "dilations": (3, 1)},
        (),
        "max(floordiv(h - 4, 2) + 1, 0),floordiv(w - 2, 3) + 1",
    ),
    "unpadded, depthwise": (
        "b, 4, h, w",
        {"group_count": 4, "dilations": (2, 4)},
        (),
        "max(h - 2, 0),max(w - 4, 0)",
    ),
    "unpadded, channels last": (
        "b, h, w, 4",
        {"dimension_numbers": ("NHWC", "OIHW", "NHWC"), "group_count": 2, "dilations": (2, 1)},
        (),
        "max(h - 2, 0),w - 1",
    ),
    "groups": ("b, 4, h, w", HALVES | {"group_count": 2}, (), "floordiv(h, 2) + 1"),
    "depthwise": ("b, 4, h, w", HALVES | {"group_count": 4}, (), "floordiv(h, 2) + 1"),
    "channels last": (
        "b, h, w, 4",
        HALVES | {"dimension_numbers": ("NHWC", "OIHW", "NHWC")},
        (),
        "floordiv(h, 2) + 1",
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", in_turn(IMAGES))
def test_a_convolution_exports_with_symbolic_images(name):
    """One program; images of other sizes give the bits of the static call."""
    text, options, constraints, sizes = IMAGES[name]
    w = W[:, : 4 // options.get("group_count", 1)]

    def convolve(x):
        return integer_of(x, w, **options)

    platforms = PLATFORMS if name == "padded" else ("cpu",)
    exported = export(convolve, text, np.uint8, constraints=constraints, platforms=platforms)
    assert sizes in str(exported.out_avals[0])
    x = draw(1, np.uint8, (2, 4, 7, 10))
    x = np.moveaxis(x, 1, -1) if text.endswith("4") else x
    assert_same(exported.call(x), convolve(x))


def integer_of(x, w, **options):
    return dmlax.convolution_integer(
        x, w, input_zero_point=ZERO, filter_zero_point=ZEROS, **options
    )


@pytest.mark.parametrize("function", [quantize, dmlax.element_wise_dequantize_linear])
def test_element_wise_operators_export_with_any_symbolic_size(function):
    x = np.float32([[1, 2], [3, -4]]) if function is quantize else draw(1, np.uint8, (2, 2))
    exported = export(lambda x: function(x, x.astype(np.float32) + 9), "n, m", x.dtype)
    assert_same(exported.call(x), function(x, x.astype(np.float32) + 9))


def test_nonzero_exports_with_every_size_symbolic():
    """The program takes more elements than one of its chunks, too."""
    exported = export(lambda x: dmlax.nonzero_coordinates(x, size=50), "a, b, c", np.int8)
    large = (np.arange(100_000) % 4999 == 7).astype(np.int8).reshape(50, 4, 500)
    for x in (large, large[:1, :, :9]):
        jax.tree.map(assert_same, exported.call(x), dmlax.nonzero_coordinates(x, size=50))


REFUSED = [
    (
        lambda x: dmlax.nonzero_coordinates(x),
        ("option", "size"),
        "nonzero_coordinates: size is 80*b, the elements of InputTensor uint8[b,4,h,20], expected "
        "a static integer: give it",
    ),
    (
        lambda x: dmlax.nonzero_coordinates(x.reshape(-1, x.shape[2], 20)[1:, 1:], size=3),
        ("sizes", "InputTensor"),
        "nonzero_coordinates: InputTensor is uint8[4*b - 1,h - 1,20], expected sizes whose product "
        "JAX can bound: constrain each symbol alone",
    ),
    (
        lambda x: dmlax.convolution_integer(x, x),
        ("sizes", "FilterTensor"),
        "convolution_integer: FilterTensor is uint8[b,4,h,20], expected static sizes",
    ),
    (
        lambda x: quantize(x.astype(jnp.int32), np.ones(3, np.float32), axis=0),
        ("sizes", "ScaleTensor"),
        "element_wise_quantize_linear: ScaleTensor is float32[3], expected one value or b, as axis "
        "0 of InputTensor int32[b,4,h,20]",
    ),
]


@pytest.mark.parametrize(("function", "where", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_decided_is_refused_with_the_remedy(function, where, message):
    message = message.replace("80*b", "80*b*h")
    with pytest.raises(dmlax.SpecError, match=f"^{re.escape(message)}") as caught:
        export(function, "b, 4, h, 20", np.uint8)
    assert (caught.value.code, caught.value.field) == where


def unpadded(x):
    """Windows of 3x3 pixels."""
    return dmlax.convolution_integer(x, W, dilations=2)


def test_an_image_smaller_than_the_window_has_no_output_as_in_lax():
    """Only the run of an export knows that it is, and `lax` exports one whose output is empty."""

    def plain(x):
        return jax.lax.conv(x.astype(jnp.int32), jnp.ones((4, 4, 3, 3), jnp.int32), (1, 1), "VALID")

    text, small = "b, 4, h, w", np.zeros((2, 4, 1, 9), np.uint8)
    ours, theirs = (export(f, text, np.uint8, platforms=("cpu",)) for f in (unpadded, plain))
    assert str(ours.out_avals[0].shape) == str(theirs.out_avals[0].shape)
    assert_same(ours.call(small), theirs.call(small))


def test_layers_of_unpadded_symbolic_images_follow_one_another():
    """The second one's image may have no pixel at all."""

    def layers(x):
        return unpadded(unpadded(x).astype(jnp.uint8))

    exported = export(layers, "b, 4, h, w", np.uint8)
    x = draw(1, np.uint8, (2, 4, 7, 6))
    assert_same(exported.call(x), layers(x))
    assert exported.call(x[:, :, :3]).shape == (2, 4, 0, 2)


@pytest.mark.parametrize("constraints", [("h <= 2",), ("w <= 2",)])
def test_a_window_that_no_image_of_the_symbols_fits_is_refused(constraints):
    message = "FilterTensor is int8.4,4,2,2., spans 3 cells at dilation 2, expected at most the"
    with pytest.raises(dmlax.SpecError, match=message):
        export(unpadded, "b, 4, h, w", np.uint8, constraints=constraints)


def test_kernels_need_static_shapes_and_explain_says_so():
    found = []

    def explained(x):
        found.append(dmlax.explain(dmlax.convolution_integer, x, PREPARED))
        found.append(dmlax.explain(dmlax.nonzero_coordinates, x, size=3))
        return x

    export(explained, "b, 4, 5, 5", np.uint8)
    for explanation, of_cpu in zip(found, ["native_cpu" if NATIVE else "xla", "xla"], strict=True):
        cpu, cuda, _ = explanation.choices
        assert (cpu.implementation, cuda.implementation) == (of_cpu, "xla")
        why = "it needs static shapes, and InputTensor is uint8[b,4,5,5]"
        assert cuda.why_not["mosaic_gpu"] == why
        assert not NATIVE or cpu.why_not.get("native_cpu", why) == why


@pytest.mark.skipif(not NATIVE, reason="no kernels here, which is its reason to refuse")
def test_a_kernel_that_is_named_refuses_symbolic_shapes():
    call = lambda x: prepared(x, PREPARED, np.float32(0.5), implementation="native_cpu")  # noqa: E731
    with pytest.raises(dmlax.UnsupportedError, match="native_cpu cannot run here: it needs static"):
        export(call, "b, 4, h, 5", np.uint8, platforms=("cpu",))


def test_two_exports_with_symbols_of_the_same_name_do_not_meet():
    """Plans are cached, and symbols of different scopes must not be compared."""
    for _ in range(2):
        export(quantize, "b, 4", np.float32, np.float32(2), platforms=("cpu",))

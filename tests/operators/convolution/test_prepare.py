"""Prepared filters: the same result, and a pytree to stack, scan, vmap, jit and save."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax._cpu import library
from support import assert_same, compilations, draw, sums_of_products
from support.cases.convolution import LAYOUTS, laid_out

SCALES = {"input_scale": 0.5, "filter_scale": 0.25, "output_scale": 16.0}
X, W = draw(1, np.uint8, (2, 4, 5, 5)), draw(2, np.int8, (4, 4, 2, 2))


def test_options_said_again_must_agree():
    prepared = dmlax.prepare_filter(W[:, :2], group_count=2, filter_zero_point=3)
    expected = sums_of_products(X, W[:, :2], 0, 3, 2)
    again = {"group_count": 2, "dimension_numbers": LAYOUTS["NCHW"]}
    assert_same(dmlax.convolution_integer(X, prepared, **again), expected)


CONTRADICTIONS = [
    ({"group_count": 4}, "GroupCount", "is 4, but the filter was prepared with 2"),
    (
        {"filter_zero_point": 3},
        "FilterZeroPointTensor",
        "is given again: the prepared filter holds it",
    ),
    (
        {"dimension_numbers": LAYOUTS["NHWC"]},
        "dimension_numbers",
        "is ('NHWC', 'HWIO', 'NHWC'), but the filter was prepared with another",
    ),
]


@pytest.mark.parametrize(("option", "field", "message"), CONTRADICTIONS, ids=str)
@pytest.mark.parametrize("quantized", [False, True])
def test_contradicting_options_are_refused(option, field, message, quantized):
    prepared = dmlax.prepare_filter(W[:, :2], group_count=2)
    convolve = dmlax.quantized_linear_convolution if quantized else dmlax.convolution_integer
    with pytest.raises(dmlax.SpecError) as caught:
        convolve(X, prepared, **(SCALES if quantized else {}), **option)
    assert (caught.value.code, caught.value.field) == ("option", field)
    assert str(caught.value) == f"{convolve.__name__}: {field} {message}"


def test_the_static_part_depends_on_shapes_and_dtypes_only():
    first, second = (dmlax.prepare_filter(draw(seed, np.int8, W.shape)) for seed in (3, 4))
    assert jax.tree.structure(first) == jax.tree.structure(second)
    assert hash(jax.tree.structure(first)) == hash(jax.tree.structure(second))
    other = dmlax.prepare_filter(W.astype(np.uint8))
    assert jax.tree.structure(other) != jax.tree.structure(first)


READING = [  # layout, filter in OIHW, groups: whether kernels that read panels would read these
    ("NHWC", (4, 4, 2, 2), 1, True),
    ("NCHW", (4, 4, 2, 2), 1, False),
    ("mixed", (4, 4, 2, 2), 1, False),
    ("NHWC", (32, 4, 2, 2), 2, True),
    ("NHWC", (30, 4, 2, 2), 2, False),
    ("NHWC", (4, 1, 2, 2), 4, False),
    ("NHWC", (4, 1, 2, 2), 1, False),
    ("NCHW", (8, 128, 3, 3), 1, True),  # whose taps repay a transposition
    ("NCHW", (8, 128, 1, 1), 1, False),
]


@pytest.mark.parametrize(("layout", "shape", "groups", "reads"), READING, ids=str)
@pytest.mark.parametrize("machine", [False, True])
def test_auto_packs_panels_where_the_machine_reads_them(
    layout, shape, groups, reads, machine, monkeypatch
):
    monkeypatch.setattr(library, "reads_panels", lambda: machine)
    order = LAYOUTS[layout]
    w = laid_out(np.zeros(shape, np.int8), "OIHW", order[1])
    options = {"group_count": groups, "dimension_numbers": order}
    prepared = dmlax.prepare_filter(w, **options, packing="auto")
    assert prepared.packing == ("panels" if reads and machine else "rows")
    assert dmlax.prepare_filter(w, **options).packing == "rows"


def stacked(count=3, packing="rows"):
    """Prepared filters on a leading axis, and what each should give."""
    filters = [draw(10 + i, np.int8, W.shape) for i in range(count)]
    prepared = [
        dmlax.prepare_filter(w, filter_zero_point=np.int8(i), packing=packing)
        for i, w in enumerate(filters, 1)
    ]
    expected = [sums_of_products(X, w, 9, i) for i, w in enumerate(filters, 1)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *prepared), np.stack(expected)


def convolve(prepared, x=X):
    return dmlax.convolution_integer(x, prepared, input_zero_point=9)


@pytest.mark.parametrize("packing", ["rows", "panels"])
def test_stacked_prepared_filters_vmap(packing):
    filters, expected = stacked(packing=packing)
    assert_same(jax.vmap(convolve)(filters), expected)


@pytest.mark.parametrize("packing", ["rows", "panels"])
def test_stacked_prepared_filters_scan(how, packing):
    filters, expected = stacked(packing=packing)
    scan = how(lambda filters: jax.lax.scan(lambda _, w: (None, convolve(w)), None, filters)[1])
    assert_same(scan(filters), expected)


def test_layers_scan_over_their_prepared_filters():
    """A network of equal layers, as one scan over stacked filters."""
    filters, _ = stacked()
    x = draw(30, np.uint8, (1, 4, 6, 6))

    def layer(x, prepared):
        y = dmlax.quantized_linear_convolution(x, prepared, end_padding=(1, 1), **SCALES)
        return y, None

    expected = x
    for i in range(3):
        expected = layer(expected, jax.tree.map(lambda leaf, i=i: leaf[i], filters))[0]
    assert len(np.unique(expected)) > 10
    assert_same(jax.jit(lambda x, w: jax.lax.scan(layer, x, w)[0])(x, filters), expected)


def test_prepared_filters_are_made_under_vmap():
    filters = np.stack([draw(10 + i, np.int8, W.shape) for i in range(3)])
    zero = np.arange(1, 4, dtype=np.int8)
    prepared = jax.vmap(lambda w, z: dmlax.prepare_filter(w, filter_zero_point=z))(filters, zero)
    _, expected = stacked()
    assert_same(jax.vmap(convolve)(prepared), expected)


def test_the_leaves_have_names_and_a_tree_of_shapes_is_allowed():
    prepared = dmlax.prepare_filter(W, filter_zero_point=np.int8(5))
    paths = [
        jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(prepared)
    ]
    assert paths == [".packed", ".sums", ".zero_point"]
    shapes = jax.eval_shape(lambda: prepared)
    assert isinstance(shapes, dmlax.PreparedFilter)
    assert jax.eval_shape(convolve, shapes).shape == (2, 4, 4, 4)


def test_a_prepared_filter_says_what_it_is():
    prepared = dmlax.prepare_filter(W[:, :2], group_count=2, dimension_numbers=LAYOUTS["NCHW"])
    assert repr(prepared) == "PreparedFilter(int8[4,2,2,2] OIHW, group_count 2)"
    narrow = dmlax.prepare_filter(
        np.ones((3, 2, 4), np.uint8), dimension_numbers=("NWC", "WIO", "NWC")
    )
    assert repr(narrow) == "PreparedFilter(uint8[3,2,4] WIO, group_count 1)"


def test_explain_says_that_the_filter_is_prepared():
    explanation = dmlax.explain(dmlax.convolution_integer, X, dmlax.prepare_filter(W))
    assert "int8[4,4,2,2] OIHW, group_count 1 prepared -> int32[2,4,4,4]" in str(explanation)


def test_filters_on_the_host_are_packed_without_compiling():
    filters = [draw(i, np.int8, (7 + i, 5, 3, 2)) for i in range(5)]
    with compilations() as programs:
        prepared = [dmlax.prepare_filter(w, filter_zero_point=np.int8(3)) for w in filters]
        prepared += [dmlax.prepare_filter(jax.device_put(w)) for w in filters]
    assert not programs
    for one, w in zip(prepared, filters * 2, strict=True):
        assert_same(one.unpack(), w)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_host_packs_the_bits_that_jax_packs(layout, dtype):
    order = LAYOUTS[layout]
    w = laid_out(draw(5, dtype, W.shape), "OIHW", order[1])
    prepare = functools.partial(
        dmlax.prepare_filter,
        filter_zero_point=np.array([[0], [1], [2], [3]], dtype),
        dimension_numbers=order,
    )
    for packing in ("auto", "panels", "rows"):
        packed = functools.partial(prepare, packing=packing)
        traced = jax.jit(packed)(w)
        assert jax.tree.structure(traced) == jax.tree.structure(packed(w))
        for given in (w, jax.device_put(w), jax.device_put(w, jax.devices()[2])):
            jax.tree.map(assert_same, packed(given), traced)
        assert_same(traced.unpack(), w)


def test_a_filter_stays_on_the_device_that_it_was_put_on():
    device = jax.devices()[2]
    prepared = dmlax.prepare_filter(jax.device_put(W, device))
    assert {leaf.device for leaf in jax.tree.leaves(prepared)} == {device}


def test_the_arrays_of_a_prepared_filter_are_its_own():
    w = draw(6, np.int8, (4, 4, 1, 1))  # packed as it lies
    zero = np.array([1, 2, 3, 4], np.int8)
    prepared = dmlax.prepare_filter(w, filter_zero_point=zero)
    expected = jax.tree.map(np.array, prepared)
    w += 1
    zero += 1
    jax.tree.map(assert_same, prepared, expected)


ZEROS = [0, np.int8(0), np.zeros(4, np.int8), jnp.zeros((), jnp.int8), jnp.zeros(4, jnp.int8)]


@pytest.mark.parametrize("zero", ZEROS, ids=repr)
def test_a_constant_zero_point_of_0_is_dropped(zero):
    prepared = dmlax.prepare_filter(W, filter_zero_point=zero)
    assert prepared.zero_point is None
    assert prepared == dmlax.prepare_filter(W)


def test_a_traced_zero_point_is_kept():
    prepared = jax.jit(lambda w, z: dmlax.prepare_filter(w, filter_zero_point=z))(W, np.int8(0))
    assert_same(prepared.zero_point, np.int8(0))
    assert_same(convolve(prepared), sums_of_products(X, W, 9))


WRONG_ZEROS = [
    (np.int32(0), "data_type", "is int32[], expected int8"),
    (np.zeros(3, np.int8), "sizes", "is int8[3], expected one value or 4, one per output channel"),
]


@pytest.mark.parametrize(("zero", "code", "message"), WRONG_ZEROS, ids=repr)
def test_a_zero_point_of_0_is_checked_before_it_is_dropped(zero, code, message):
    for call in (
        lambda: dmlax.prepare_filter(W, filter_zero_point=zero),
        lambda: dmlax.convolution_integer(X, W, filter_zero_point=zero),
    ):
        with pytest.raises(dmlax.SpecError, match=re.escape(message)) as caught:
            call()
        assert (caught.value.code, caught.value.field) == (code, "FilterZeroPointTensor")


def test_a_constant_zero_point_of_0_costs_a_convolution_nothing():
    def lowered(zero):
        call = functools.partial(dmlax.convolution_integer, filter_zero_point=zero)
        return jax.jit(functools.partial(call, implementation="xla")).lower(X, W).as_text()

    assert lowered(0) == lowered(np.zeros(4, np.int8)) == lowered(None) != lowered(1)


def test_panels_of_other_sizes_are_refused():
    prepared = dmlax.prepare_filter(W, packing="panels")
    changed = jax.tree.map(lambda x: x[:, :512] if x.ndim == 2 else x, prepared)
    with pytest.raises(dmlax.SpecError) as caught:
        dmlax.convolution_integer(X, changed)
    assert str(caught.value) == (
        "convolution_integer: FilterTensor is prepared, its packed is int8[1,512], expected "
        "int8[1,4096] for int8[4,4,2,2] OIHW, group_count 1"
    )


FOR = "for int8[4,4,2,2] OIHW, group_count 1"
MAP = "; map over stacked filters with jax.vmap or lax.scan"
PACKED, ZERO_POINT = f"expected int8[4,16] {FOR}", f"expected int8[4] or int8[] {FOR}"
TREES = {  # a change of the leaves, and the code and message of the refusal
    "stacked": (
        lambda x: jnp.stack([x, x]),
        "sizes",
        f"packed is int8[2,4,16], {PACKED}{MAP}",
    ),
    "transposed": (lambda x: x.T, "sizes", f"packed is int8[16,4], {PACKED}"),
    "cast": (
        lambda x: x.astype(jnp.float32),
        "data_type",
        f"packed is float32[4,16], {PACKED}",
    ),
    "NumPy's default integers": (
        lambda x: np.asarray(x, np.int64),
        "data_type",
        f"packed is int64[4,16], {PACKED}",
    ),
    "sums cast": (
        lambda x: x.astype(jnp.int16) if x.dtype == jnp.int32 else x,
        "data_type",
        f"sums is int16[4], expected int32[4] {FOR}",
    ),
    "zero points of another dtype": (
        lambda x: x.astype(jnp.uint8) if x.shape == () else x,
        "data_type",
        f"zero_point is uint8[], {ZERO_POINT}",
    ),
    "too many zero points": (
        lambda x: jnp.stack([x] * 3) if x.shape == () else x,
        "sizes",
        f"zero_point is int8[3], {ZERO_POINT}{MAP}",
    ),
}


@pytest.mark.parametrize("implementation", ["auto", "reference"])
@pytest.mark.parametrize("name", TREES)
def test_changed_leaves_are_refused_eagerly_and_traced(name, implementation):
    change, code, message = TREES[name]
    changed = jax.tree.map(change, dmlax.prepare_filter(W, filter_zero_point=np.int8(5)))
    call = lambda w: dmlax.convolution_integer(X, w, implementation=implementation)  # noqa: E731
    for way in (call, jax.jit(call), lambda w: jax.eval_shape(call, w)):
        if "NumPy" in name and way is not call:
            continue  # JAX narrows what it traces
        with pytest.raises(dmlax.SpecError) as caught:
            way(changed)
        assert (caught.value.code, caught.value.field) == (code, "FilterTensor")
        text = f"convolution_integer: FilterTensor is prepared, its {message}"
        assert str(caught.value) == text


def test_a_leaf_that_is_no_array_is_refused():
    leaves, structure = jax.tree.flatten(dmlax.prepare_filter(W))
    named = jax.tree.unflatten(structure, [None, "sums"][: len(leaves)])
    with pytest.raises(dmlax.SpecError, match=r"its packed is None|is 'sums', expected"):
        dmlax.convolution_integer(X, named)

"""One table of operators by laws: what JAX does to a function changes no bit of its result."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import dmlax
from dmlax._core import dispatch
from dmlax._operators.registry import OPERATORS
from support import NATIVE, assert_same, coordinates, draw, in_turn, padded_rows
from support.laws import (
    BIAS,
    FLOATS,
    LAWS,
    PREPARED,
    SCALES,
    SPARSE,
    ZERO,
    ZEROS,
    W,
    X,
    by_operator,
    dequantize,
    integer,
    is_variation,
    prepared,
    quantize,
    quantized,
    variations_in_turn,
)

every_law = pytest.mark.parametrize("law", variations_in_turn(LAWS), ids=str)
operators_in_turn = [
    pytest.mark.parametrize("law", in_turn(by_operator(LAWS), turn), ids=str) for turn in (0, 1)
]


@functools.cache
def plain(index):
    """The eager result."""
    law = LAWS[index]
    return jax.tree.map(np.asarray, law.function(*law.operands))


def result(law):
    return plain(LAWS.index(law))


def assert_tree(actual, expected):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    jax.tree.map(assert_same, actual, expected)


@pytest.fixture
def calls(monkeypatch):
    """(operator, plan) of all calls made."""
    made = []
    call = dispatch.Operator.call

    def spy(operator, plan, operands, implementation="auto"):
        made.append((operator, plan))
        return call(operator, plan, operands, implementation)

    monkeypatch.setattr(dispatch.Operator, "call", spy)
    return made


def test_every_operator_is_in_the_table(calls):
    for law in LAWS:
        if not is_variation(law):
            eval_shape(law)
    assert {operator for operator, _ in calls} == {row.operator for row in OPERATORS}


def eval_shape(law):
    """The shapes of the result; traced anew, since JAX remembers functions that it traced."""
    return jax.eval_shape(lambda *operands: law.function(*operands), *law.operands)


def test_results_are_worth_comparing():
    for law in LAWS:
        leaves = jax.tree.leaves(result(law))
        assert max(len(np.unique(leaf)) for leaf in leaves) > 4, law


@every_law
def test_jit_equals_eager(law):
    assert_tree(jax.jit(law.function)(*law.operands), result(law))


@operators_in_turn[0]
def test_the_reference_equals_auto(law):
    assert_tree(law.function(*law.operands, implementation="reference"), result(law))


@every_law
def test_a_call_is_explained(law):
    explained = dmlax.explain(law.function, *law.operands)
    (explanation,) = getattr(explained, "calls", (explained,))
    row = next(row for row in OPERATORS if row.name == explanation.operator)
    assert [choice.platform for choice in explanation.choices] == list(dispatch.PLATFORMS)
    for choice in explanation.choices:
        assert choice.implementation in row.implementations(choice.platform)
        named = {choice.implementation, *choice.why_not}
        assert named == {lowering.name for lowering in row.operator.lowerings}


_FLIP = jax.jit(jnp.transpose)  # jitted, so that XLA folds it


def held(x):
    """A constant of the program, which lies transposed in memory if it has several axes."""
    return _FLIP(np.array(np.asarray(x).T)) if np.ndim(x) > 1 else x


def with_constants(law, implementation, is_constant):
    """The result of a program that holds the operands of some places."""
    kept = dict(enumerate(law.operands))
    passed = {place: kept.pop(place) for place in tuple(kept) if not is_constant(place)}

    @jax.jit
    def program(passed):
        operands = jax.tree.map(held, kept) | passed
        return law.function(
            *(operands[place] for place in sorted(operands)), implementation=implementation
        )

    return program(passed)


def skip_without_lowering(law, implementation):
    explained = dmlax.explain(law.function, *law.operands)
    (explanation,) = getattr(explained, "calls", (explained,))
    choice = explanation.choices[0]
    if implementation not in {choice.implementation, *choice.why_not}:
        pytest.skip(f"{explanation.operator} has no {implementation}")


every_kernel = pytest.mark.parametrize("implementation", [*NATIVE, "xla"])


@pytest.mark.one_in(2)
@every_kernel
@pytest.mark.parametrize("law", by_operator(LAWS), ids=str)
def test_constants_equal_arguments(law, implementation):
    skip_without_lowering(law, implementation)
    assert_tree(with_constants(law, implementation, lambda place: True), result(law))
    assert_tree(with_constants(law, implementation, lambda place: place != 0), result(law))


@pytest.mark.slow
@every_kernel
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_any_operand_may_be_the_only_constant_or_argument(law, implementation):
    skip_without_lowering(law, implementation)
    for one in range(len(law.operands)):
        assert_tree(with_constants(law, implementation, one.__eq__), result(law))
        assert_tree(with_constants(law, implementation, one.__ne__), result(law))


def rolled(operands, count=3):
    """The operands, and others like them, on a new leading axis of every array."""
    variants = [
        jax.tree.map(lambda x, i=i: np.roll(np.asarray(x), i).reshape(np.shape(x)), operands)
        for i in range(count)
    ]
    return jax.tree.map(lambda *xs: np.stack(xs), *variants)


def loop(function, operands, count=3):
    one = [function(*jax.tree.map(lambda x, i=i: x[i], operands)) for i in range(count)]
    return jax.tree.map(lambda *xs: np.stack(xs), *one)


@every_law
def test_vmap_over_every_argument_equals_a_loop(law):
    """Scales, zero points and filters, prepared ones too, are batched with the input."""
    operands = rolled(law.operands)
    assert_tree(jax.vmap(law.function)(*operands), loop(law.function, operands))


@every_law
def test_vmap_over_the_first_argument_equals_a_loop(law):
    first, *rest = law.operands
    function = lambda x: law.function(x, *rest)  # noqa: E731
    operands = rolled((first,))
    assert_tree(jax.jit(jax.vmap(function))(*operands), loop(function, operands))


@operators_in_turn[0]
def test_vmap_over_all_but_the_first_argument_equals_a_loop(law):
    first, *rest = law.operands
    if not rest:
        rest, first = [first], None
    function = lambda *rest: law.function(*(x for x in (first, *rest) if x is not None))  # noqa: E731
    operands = rolled(tuple(rest))
    assert_tree(jax.vmap(function)(*operands), loop(function, operands))


def test_vmap_nests_and_takes_any_axis():
    xs = rolled(rolled((X,)), 2)[0]  # (2, 3, ...)
    function = lambda x: integer(x, W, ZERO, ZEROS)  # noqa: E731
    nested = jax.vmap(jax.vmap(function, in_axes=-1, out_axes=1))(np.moveaxis(xs, 1, -1))
    for i in range(2):
        for j in range(3):
            assert_same(nested[i, :, j], function(xs[i, j]))


@every_law
def test_eval_shape_is_the_plans_output(law, calls):
    shapes = jax.tree.leaves(eval_shape(law))
    ((_, plan),) = calls
    wanted = plan.output if isinstance(plan.output[0], tuple) else (plan.output,)
    assert [(shape.dtype, shape.shape) for shape in shapes] == [tuple(aval) for aval in wanted]
    found = [(leaf.dtype, leaf.shape) for leaf in jax.tree.leaves(result(law))]
    assert found == [tuple(aval) for aval in wanted]


@every_law
def test_equal_plans_trace_once(law, monkeypatch):
    """Eager, jitted, and with other values: the lowering is traced for the first alone."""
    traced = []
    call = dispatch.Operator.call
    counted = functools.cache(lambda operator: counting(operator, traced))
    spy = lambda operator, *rest: call(counted(operator), *rest)  # noqa: E731
    monkeypatch.setattr(dispatch.Operator, "call", spy)
    law.function(*law.operands)
    other = jax.tree.map(lambda x: np.roll(x, 1), law.operands)
    law.function(*other)
    jax.jit(lambda *operands: law.function(*operands)).lower(*law.operands)
    jax.jit(lambda *operands: law.function(*operands)).lower(*other)
    eval_shape(law)
    assert len(traced) == 1


def counting(operator, traced):
    """The operator, its lowerings noting each trace."""

    def noted(lowering):
        def run(plan, operands):
            traced.append(plan)
            return lowering.run(plan, operands)

        return dataclasses.replace(lowering, run=run)

    return dataclasses.replace(operator, lowerings=tuple(map(noted, operator.lowerings)))


@every_law
def test_operands_are_left_alone(law):
    operands = jax.tree.map(jnp.array, law.operands)
    law.function(*operands)
    jax.jit(law.function)(*operands)
    assert_tree(operands, jax.tree.map(np.asarray, law.operands))


@every_law
def test_operands_have_any_order_of_bytes(law):
    """The law holds also after a call with the machine's order, whose program is kept."""
    swap = lambda x: np.asarray(x).astype(np.asarray(x).dtype.newbyteorder(">"))  # noqa: E731
    wanted = law.function(*law.operands)
    assert_tree(law.function(*jax.tree.map(swap, law.operands)), wanted)


@every_law
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_donation_is_safe(law):
    operands = jax.tree.map(jnp.array, law.operands)
    donated = jax.jit(law.function, donate_argnums=tuple(range(len(operands))))
    assert_tree(donated(*operands), result(law))


def test_a_donated_buffer_is_reused():
    """Same shape and size in and out: the output takes the input's place."""
    x = jnp.array(FLOATS.astype(np.int32))
    quantized_in_place = jax.jit(lambda x: quantize(x, 1.7).astype(jnp.int32), donate_argnums=0)
    expected = np.asarray(quantize(FLOATS.astype(np.int32), 1.7)).astype(np.int32)
    assert_same(quantized_in_place(x), expected)
    assert x.is_deleted()


# --- devices --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mesh():
    assert jax.device_count() == 4
    return jax.make_mesh((4,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,))


BATCH = PartitionSpec("batch")
EVERYWHERE = PartitionSpec()


@operators_in_turn[1]
def test_a_batch_over_four_devices_gives_the_unsharded_bits(law, mesh):
    first, *rest = law.operands
    first = jax.device_put(first, NamedSharding(mesh, BATCH))
    rest = jax.device_put(rest, NamedSharding(mesh, EVERYWHERE))
    assert_tree(jax.jit(law.function)(first, *rest), result(law))
    assert len(first.sharding.device_set) == 4


@pytest.mark.one_in(2)
@operators_in_turn[0]
def test_a_batch_over_explicit_mesh_axes_gives_the_unsharded_bits(law):
    """Shapes carry shardings, eagerly and under jit, where a mesh's axes are explicit."""
    mesh = jax.make_mesh((4,), ("batch",), axis_types=(jax.sharding.AxisType.Explicit,))
    first, *rest = law.operands
    first = jax.device_put(first, NamedSharding(mesh, BATCH))
    rest = jax.device_put(rest, NamedSharding(mesh, EVERYWHERE))
    with jax.set_mesh(mesh):
        for call in (law.function, jax.jit(lambda *operands: law.function(*operands))):
            found = call(first, *rest)
            assert_tree(found, result(law))
            if law.per_image:
                assert found.sharding.spec[0] == "batch"


PER_IMAGE = by_operator(law for law in LAWS if law.per_image)
images_in_turn = [
    pytest.mark.parametrize("law", in_turn(PER_IMAGE, turn), ids=str) for turn in (0, 1)
]


@images_in_turn[0]
def test_shard_map_over_the_batch_gives_the_unsharded_bits(law, mesh):
    specs = (BATCH, *(EVERYWHERE for _ in law.operands[1:]))
    mapped = jax.shard_map(law.function, mesh=mesh, in_specs=specs, out_specs=BATCH)
    assert_tree(jax.jit(mapped)(*law.operands), result(law))


@images_in_turn[1]
def test_shard_map_takes_operands_that_differ_between_devices(law, mesh):
    """Loops inside a lowering must carry what varies over the mesh."""
    operands = rolled(law.operands, 4)

    def local(operands):
        one = jax.tree.map(lambda x: x[0], operands)
        return law.function(*one)[None]

    mapped = jax.shard_map(local, mesh=mesh, in_specs=BATCH, out_specs=BATCH)
    assert_tree(jax.jit(mapped)(operands), loop(law.function, operands, 4))


SHARDED = [(4,), (8, 5), (4, 3, 11), (12, 32), (4, 0), (64, 1)]
SIZED = [("auto", None), ("auto", 7), ("auto", 500), ("reference", 7)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("shape", "implementation", "size"),
    in_turn((shape, *sized) for shape in SHARDED for sized in SIZED),
    ids=str,
)
def test_nonzero_over_a_mesh_axis_is_the_unsharded_call(shape, size, implementation, mesh):
    """A slice is seldom a whole number of 32-bit words; the rows are the same on every device."""
    x = np.where(draw(7, np.uint8, shape) < 100, draw(8, np.uint16, shape), 0)

    def local(x):
        return dmlax.nonzero_coordinates(
            x, size=size, fill_value=5, axis_name="batch", implementation=implementation
        )

    check = implementation == "auto"  # plain all_gather is not known to be replicated
    mapped = jax.shard_map(local, mesh=mesh, in_specs=BATCH, out_specs=EVERYWHERE, check_vma=check)
    count, rows = jax.jit(mapped)(x)
    expected = coordinates(x)
    assert_same(count, np.uint32(len(expected)))
    assert_same(rows, padded_rows(expected, x.size if size is None else size, 5))


def test_nonzero_over_a_mesh_axis_keeps_leading_axes_of_the_whole_input(mesh):
    x = np.ones((4, 3), np.uint8)
    local = functools.partial(dmlax.nonzero_coordinates, axis_name="batch", coordinate_rank=2)
    mapped = jax.shard_map(local, mesh=mesh, in_specs=BATCH, out_specs=EVERYWHERE)
    assert mapped(x).coordinates.tolist() == np.argwhere(x).tolist()


def test_nonzero_over_an_axis_inside_vmap_and_over_two_mesh_axes():
    two = jax.make_mesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    x = (draw(9, np.uint8, (4, 33)) < 50).astype(np.int8)
    local = functools.partial(dmlax.nonzero_coordinates, axis_name=("a", "b"))
    mapped = jax.shard_map(
        local, mesh=two, in_specs=PartitionSpec(("a", "b")), out_specs=EVERYWHERE
    )
    count, rows = mapped(x)
    assert count == len(coordinates(x))
    assert_same(rows, padded_rows(coordinates(x), x.size))


# --- export and ahead of time ---------------------------------------------------------


@pytest.mark.one_in(2)
@operators_in_turn[1]
def test_a_call_exports_for_three_platforms_at_once_and_reloads(law):
    export = jax.export.export(jax.jit(law.function), platforms=("cpu", "cuda", "tpu"))
    operands = jax.tree.map(jnp.asarray, law.operands)
    blob = export(*operands).serialize()
    reloaded = jax.export.deserialize(blob)
    assert reloaded.platforms == ("cpu", "cuda", "tpu")
    assert "custom_call @dmlax_" not in reloaded.mlir_module()
    assert_tree(reloaded.call(*operands), result(law))


@operators_in_turn[0]
def test_a_call_compiles_ahead_of_time(law):
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), x.dtype), law.operands)
    compiled = jax.jit(law.function).lower(*shapes).compile()
    assert_tree(compiled(*jax.tree.map(jnp.asarray, law.operands)), result(law))


# --- inside other transformations ------------------------------------------------------


@operators_in_turn[1]
def test_a_call_works_in_a_scan(law):
    operands = rolled(law.operands)
    scanned = jax.lax.scan(lambda _, xs: (None, law.function(*xs)), None, operands)[1]
    assert_tree(scanned, loop(law.function, operands))


@operators_in_turn[0]
def test_a_call_works_in_a_cond_and_a_while_loop(law):
    @jax.jit
    def chosen(flag, *operands):
        nothing = lambda *operands: jax.tree.map(jnp.zeros_like, shapes)  # noqa: E731
        return jax.lax.cond(flag, law.function, nothing, *operands)

    shapes = jax.eval_shape(law.function, *law.operands)
    assert_tree(chosen(True, *law.operands), result(law))
    zeros = jax.tree.map(np.zeros_like, result(law))
    assert_tree(chosen(False, *law.operands), zeros)
    looped = jax.lax.fori_loop(0, 2, lambda _, y: law.function(*law.operands), zeros)
    assert_tree(looped, result(law))


@operators_in_turn[1]
def test_a_call_works_where_jax_has_64_bit_types(law):
    with jax.enable_x64(True):
        assert_tree(law.function(*law.operands), result(law))
        assert_tree(jax.jit(law.function)(*law.operands), result(law))


@operators_in_turn[0]
def test_checkpointing_changes_nothing(law):
    assert_tree(jax.checkpoint(law.function)(*law.operands), result(law))


# --- derivatives ----------------------------------------------------------------------


def models():
    """A scalar of float parameters through each operator; `linear` ones have that derivative."""

    def nonzero(p):
        count, rows = dmlax.nonzero_coordinates(p * SPARSE.astype(np.float32), size=7)
        return (p * rows.astype(jnp.float32)).sum() + count.astype(jnp.float32)

    def integers(p):
        q = quantize(FLOATS[:, :, :, None], p)
        return p * integer(q, W[:, :, :, :1], None, None).astype(jnp.float32).sum()

    def through(p):
        y = quantized(X, W, BIAS, p, SCALES[1], SCALES[2] * p, ZERO, ZEROS, np.int8(3))
        return dequantize(y, p, np.int8(3)).sum()

    def through_prepared(p):
        return dequantize(prepared(X, PREPARED, p), p).sum()

    def quantizing(p):
        return (quantize(p * FLOATS, p).astype(jnp.float32) * p).sum()

    def dequantizing(p):
        return dequantize(W, p * SCALES[1], ZEROS, axis=0).sum()

    return [nonzero, integers, through, through_prepared, quantizing, dequantizing]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("model", in_turn(models()), ids=lambda model: model.__name__)
def test_a_derivative_sees_an_integer_output_as_a_constant(model, how):
    """The derivative is value / p where each model is linear in p but for integers."""
    p = np.float32(0.75)
    value, slope = how(jax.value_and_grad(model))(p)
    count = np.float32(np.count_nonzero(SPARSE) if model.__name__ == "nonzero" else 0)
    np.testing.assert_allclose(slope, (value - count) / p, rtol=1e-5)
    assert np.abs(slope) > 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("model", in_turn(models(), 1), ids=lambda model: model.__name__)
def test_derivatives_vmap_and_jit_and_go_forward(model):
    points = np.float32([0.5, 0.75, 1.5])
    slopes = [jax.grad(model)(p) for p in points]
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(model)))(points), slopes, rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(jax.jacfwd(model))(points), slopes, rtol=1e-5)


STEPS = [
    ("one scale", (), None, ()),
    ("a scale a channel", (4,), 1, ()),
    ("broadcast", (1, 5, 1), None, (4, 1, 1)),
    ("whole", X.shape, None, X.shape),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "shape", "axis", "zero"), in_turn(STEPS), ids=[row[0] for row in STEPS]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_dequantize_has_the_right_derivative_in_its_scale(name, shape, axis, zero, dtype, how):
    """d((x - z) s) / ds = x - z, summed over what one scale is spread over."""
    zero = draw(20, np.uint8, zero)
    weights = draw(21, np.int8, X.shape).astype(dtype) / dtype(128)
    scale = np.full(shape, 0.25, dtype)

    def loss(scale):
        return (dequantize(X, scale, zero, axis=axis) * weights).sum(dtype=jnp.float32)

    steps = (X.astype(np.float64) - zero) * weights
    if axis is not None:
        expected = steps.sum(axis=tuple(i for i in range(4) if i != axis))
    else:
        padded = (1,) * (4 - len(shape)) + shape
        summed = tuple(i for i in range(4) if padded[i] == 1)
        expected = steps.sum(axis=summed, keepdims=True).reshape(shape)
    got = how(jax.grad(loss))(scale)
    assert (got.dtype, got.shape) == (dtype, shape)
    rounding = 2**-11 if dtype == np.float16 else 1e-5
    np.testing.assert_allclose(got, expected, rtol=rounding, atol=1e-3)


def test_dequantize_is_linear_in_its_scale_and_has_no_second_derivative():
    function = lambda s: dequantize(X, s, ZERO).sum()  # noqa: E731
    step = np.float32(2.0**-4)
    difference = (function(0.25 + step) - function(0.25 - step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(function)(np.float32(0.25)), difference, rtol=1e-6)
    assert jax.grad(jax.grad(function))(np.float32(0.25)) == 0


def test_dequantize_takes_no_derivative_in_its_integers():
    (tangent, zero) = jax.grad(
        lambda x, z: dequantize(x, 0.5, z).sum(), argnums=(0, 1), allow_int=True
    )(X, ZERO)
    assert tangent.dtype == zero.dtype == jax.dtypes.float0


@every_law
def test_a_jvp_of_an_integer_output_is_a_zero(law):
    def direction(x):
        floating = np.issubdtype(x.dtype, np.floating)
        return np.ones(x.shape, x.dtype if floating else jax.dtypes.float0)

    directions = jax.tree.map(direction, law.operands)
    outputs, tangents = jax.jvp(law.function, law.operands, directions)
    assert_tree(outputs, result(law))
    for output, tangent in zip(jax.tree.leaves(outputs), jax.tree.leaves(tangents), strict=True):
        integral = jnp.issubdtype(output.dtype, jnp.integer)
        assert tangent.dtype == (jax.dtypes.float0 if integral else output.dtype)
        assert tangent.shape == output.shape


# --- pytrees --------------------------------------------------------------------------


def test_results_are_named_tuples_and_pytrees():
    found = dmlax.nonzero_coordinates(SPARSE)
    assert isinstance(found, dmlax.NonzeroCoordinates)
    assert found._fields == ("count", "coordinates")
    mapped = jax.tree.map(lambda leaf: leaf + leaf, found)
    assert isinstance(mapped, dmlax.NonzeroCoordinates)
    assert mapped.count == 2 * found.count
    assert isinstance(jax.jit(dmlax.nonzero_coordinates)(SPARSE), dmlax.NonzeroCoordinates)

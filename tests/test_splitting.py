"""Every operator over a mesh: the same bits, and each device runs the operator's kernel."""

import random
import re

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import dmlax
from dmlax._fused.rows import call as rows
from support import NATIVE, assert_same, draw, in_turn
from support.laws import (
    FLOATS,
    LAWS,
    ROW_ZEROS,
    ROWS,
    ZERO,
    W,
    X,
    integer,
    product,
    variations_in_turn,
)

MESHES = [((2,), "Auto"), ((4,), "Explicit"), ((2, 2), "Auto"), ((2, 2), "Explicit")]
REDUCED = "dynamic quantize"  # XLA reduces its range over the devices
COLLECTIVE = r"\b(all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)\b"
SPLIT = PartitionSpec("a")
MANY = np.stack([X, X[::-1], X + 3, X * 5])


def mesh_of(shape, kind):
    devices = jax.devices()[: np.prod(shape)]
    return jax.make_mesh(
        shape, ("a", "b")[: len(shape)], (AxisType[kind],) * len(shape), devices=devices
    )


def random_spec(generator, mesh, shape):
    """Splits some axes that the mesh divides evenly."""
    left, spec = list(mesh.axis_names), []
    generator.shuffle(left)
    for size in shape:
        fits = [name for name in left if size % mesh.shape[name] == 0]
        spec.append(fits[0] if fits and generator.random() < 0.6 else None)
        left = [name for name in left if name != spec[-1]]
    return PartitionSpec(*spec)


def put(mesh, operands, spec):
    """Places every array of a pytree, split as `spec` says of its shape."""
    return jax.tree.map(
        lambda x: jax.device_put(x, NamedSharding(mesh, spec(np.shape(x)))), operands
    )


def compiled(function, *operands):
    """The program of all devices, its text, and whether it must have a kernel in it."""
    program = jax.jit(lambda *operands: function(*operands)).lower(*operands).compile()
    text = program.as_text()
    assert "num_partitions=" in text
    return program, text


def assert_tree(actual, expected):
    jax.tree.map(assert_same, actual, expected)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("shape", "kind"), in_turn(MESHES), ids=str)
@pytest.mark.parametrize("law", variations_in_turn(LAWS), ids=str)
def test_random_shardings_give_the_same_bits_by_the_kernel(law, shape, kind):
    mesh, generator = mesh_of(shape, kind), random.Random(f"{law} {shape} {kind}")
    placed = put(mesh, law.operands, lambda sizes: random_spec(generator, mesh, sizes))
    program, text = compiled(law.function, *placed)
    assert_tree(program(*placed), law.function(*law.operands))
    if NATIVE and not law.name.startswith(REDUCED):
        assert 'custom_call_target="dmlax_' in text


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_an_operator_runs_inside_the_mesh_that_is_set(kind):
    mesh = mesh_of((4,), kind)
    (x,) = put(mesh, (X,), lambda _: SPLIT)
    with jax.set_mesh(mesh):
        assert_same(jax.jit(lambda x: integer(x, W, ZERO, None))(x), integer(X, W, ZERO, None))


def test_shardings_of_the_program_alone_split_it():
    """The types of its arguments name no mesh."""
    sharding = NamedSharding(mesh_of((4,), "Auto"), SPLIT)
    call = jax.jit(lambda x: integer(x, W, ZERO, None), in_shardings=sharding)
    found = call(X)
    assert found.sharding.spec[0] == "a"
    assert_same(found, integer(X, W, ZERO, None))


TRANSFORMED = {
    "vmap": jax.vmap(lambda x: integer(x, W, ZERO, None)),
    "vmap over the second axis": jax.vmap(
        lambda x: integer(x, W, ZERO, None), in_axes=1, out_axes=1
    ),
    "scan": lambda xs: jax.lax.scan(lambda _, x: (None, integer(x, W, ZERO, None)), None, xs)[1],
    "remat": jax.checkpoint(jax.vmap(lambda x: integer(x, W, ZERO, None))),
}


@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformed_calls_run_the_kernel(name, kind):
    (x,) = put(mesh_of((2, 2), kind), (MANY,), lambda _: PartitionSpec(None, "a"))
    program, text = compiled(TRANSFORMED[name], x)
    assert_same(program(x), TRANSFORMED[name](MANY))
    assert not NATIVE or "dmlax_convolution_v1" in text
    assert not NATIVE or not re.search(COLLECTIVE, text)


def test_axes_that_a_shard_leaves_to_the_compiler_are_split():
    mesh = mesh_of((2, 2), "Auto")
    local = jax.shard_map(
        lambda x, w: integer(x, w, ZERO, None),
        mesh=mesh,
        in_specs=(SPLIT, PartitionSpec()),
        out_specs=SPLIT,
        axis_names={"a"},
    )
    placed = put(mesh, (X,), lambda _: SPLIT) + put(mesh, (W,), lambda _: PartitionSpec("b"))
    program, text = compiled(local, *placed)
    assert_same(program(*placed), integer(X, W, ZERO, None))
    assert not NATIVE or "dmlax_convolution_v1" in text
    assert not re.search(COLLECTIVE, text)


@pytest.mark.parametrize(("images", "channels"), in_turn([(7, 4), (3, 6), (5, 7)]))
def test_sizes_that_the_devices_do_not_divide(images, channels):
    mesh = mesh_of((4,), "Auto")
    x = draw(3, np.uint8, (images, 4, 5, 5))
    w = draw(4, np.int8, (channels, 4, 2, 2))

    def call(x, w):
        sharding = NamedSharding(mesh, SPLIT)
        x, w = (jax.lax.with_sharding_constraint(array, sharding) for array in (x, w))
        return integer(x, w, ZERO, None)

    program, text = compiled(call, x, w)
    assert_same(program(x, w), integer(x, w, ZERO, None))
    assert not NATIVE or "dmlax_convolution_v1" in text


@pytest.mark.parametrize("channels", [128, 256, 192, 100])
def test_panels_are_split_whole(channels):
    """3 panels on 4 devices, and a panel that is not full, stay whole."""
    mesh, w = mesh_of((4,), "Auto"), draw(4, np.int8, (channels, 4, 2, 2))
    filter = dmlax.prepare_filter(w, packing="panels")
    split = lambda sizes: SPLIT if sizes[0] % 4 == 0 else PartitionSpec()  # noqa: E731
    placed = put(mesh, (filter,), split)
    program, text = compiled(lambda filter: integer(X, filter, ZERO, None), *placed)
    assert_same(program(*placed), integer(X, w, ZERO, None))
    assert not NATIVE or bool(re.search(COLLECTIVE, text)) == (channels != 256)


def test_panels_of_a_matrix_are_split():
    mesh, b = mesh_of((4,), "Auto"), draw(4, np.int8, (5, 256))
    placed = put(mesh, (dmlax.prepare_matrix(b, packing="panels"),), lambda _: SPLIT)
    program, text = compiled(lambda b: product(ROWS, b, ROW_ZEROS), *placed)
    assert_same(program(*placed), product(ROWS, b, ROW_ZEROS))
    assert not re.search(COLLECTIVE, text)


@pytest.mark.parametrize("spec", [PartitionSpec("a", "b"), PartitionSpec(None, "a", "b")], ids=str)
@pytest.mark.parametrize("function", [rows.softmax, lambda x: rows.normalize(x, x[0, 0], None, 1)])
def test_rows_of_a_model_are_split(function, spec):
    x = FLOATS / 100
    (placed,) = put(mesh_of((2, 2), "Auto"), (x,), lambda _: spec)
    program, text = compiled(function, placed)
    assert_same(program(placed), jax.jit(function)(x))
    assert not NATIVE or "dmlax_" in text


def test_an_export_has_no_kernel():
    (x,) = put(mesh_of((4,), "Auto"), (X,), lambda _: SPLIT)
    exported = jax.export.export(jax.jit(lambda x: integer(x, W, ZERO, None)))(x)
    assert "custom_call @CustomSPMDPartitioning" not in exported.mlir_module()
    assert_same(exported.call(x), integer(X, W, ZERO, None))

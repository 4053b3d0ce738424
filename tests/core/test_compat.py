"""The functions between the operators and the parts of JAX that change, one by one."""

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import dmlax
from dmlax._core import choice, compat, splitting

pytestmark = pytest.mark.oldest

SPLIT, WHOLE = PartitionSpec("d"), PartitionSpec()
X = np.arange(24, dtype=np.float32).reshape(8, 3)


def mesh_of(kind):
    return jax.make_mesh((4,), ("d",), axis_types=(kind,))


# --- what an array is -----------------------------------------------------------------


def test_python_numbers_are_weakly_typed():
    assert compat.is_weak(jnp.asarray(1.0)) is True
    assert compat.is_weak(jnp.float32(1)) is False


@pytest.mark.parametrize(("given", "found"), [("int64", "int32"), ("float16", "float16")])
def test_wide_dtypes_narrow_without_x64(given, found):
    assert compat.canonical_dtype(np.dtype(given)) == found


def test_a_dtype_that_numpy_has_not_is_object():
    assert compat.canonical_dtype(jax.random.key(0).dtype) == np.dtype(object)


def test_axes_have_as_many_devices_as_their_mesh_or_map():
    assert jax.vmap(lambda _: compat.axis_size("rows"), axis_name="rows")(X).tolist() == [8] * 8


# --- meshes with explicit axes --------------------------------------------------------


def squared(operands):
    """Without a sharding for the reshape, which an explicit mesh would ask for."""
    return {"y": (operands["x"].reshape(-1) ** 2).reshape(operands["x"].shape)}


def test_a_function_outside_of_explicit_axes_is_split_as_asked():
    mesh, asked = mesh_of(AxisType.Explicit), []

    def partitions(operands):
        asked.append(splitting.partition(operands["x"]))
        return {"y": asked[0]}

    operands = {
        "whole": jax.device_put(X, NamedSharding(mesh, WHOLE)),
        "x": jax.device_put(X, NamedSharding(mesh, SPLIT)),
    }
    with jax.set_mesh(mesh):
        found = splitting.outside_explicit_mesh(squared, partitions, operands)["y"]
    assert asked == [("d", None)]
    assert found.sharding.spec == PartitionSpec("d", None)
    np.testing.assert_array_equal(found, X**2)


@pytest.mark.parametrize("kind", [None, AxisType.Auto, AxisType.Explicit])
def test_where_no_explicit_axis_splits_an_operand_the_function_is_called(kind):
    x, spec = jnp.asarray(X), WHOLE if kind is AxisType.Explicit else SPLIT
    if kind:
        x = jax.device_put(x, NamedSharding(mesh_of(kind), spec))
    given = {"x": x}
    assert splitting.outside_explicit_mesh(lambda operands: operands, None, given) is given


# --- refusals -------------------------------------------------------------------------

REFUSALS = (("tpu", "not on a tpu"), ("cpu", "not on a cpu"))


def test_a_platform_is_refused_when_a_program_is_lowered_for_it():
    refused = jax.jit(lambda x: compat.refuse(x, REFUSALS) + 1)
    with pytest.raises(dmlax.UnsupportedError, match="not on a cpu"):
        refused(X)
    trace = refused.trace(X)
    for platforms in (("tpu",), ("cuda", "tpu")):
        with pytest.raises(dmlax.UnsupportedError, match="not on a tpu"):
            trace.lower(lowering_platforms=platforms)
    assert "stablehlo.add" in trace.lower(lowering_platforms=("cuda",)).as_text()


def test_what_is_not_refused_is_as_it_was():
    elsewhere = functools.partial(compat.refuse, refusals=REFUSALS[:1])
    for axis in (0, 1):
        found = jax.jit(jax.vmap(elsewhere, in_axes=axis, out_axes=axis))(X)
        np.testing.assert_array_equal(found, X)
    assert elsewhere(jnp.asarray(X)).shape == X.shape
    assert compat.refuse(X, ()) is X


# --- alternatives ---------------------------------------------------------------------


def chosen(x, alone=("cpu",), partitioned=True, more=None):
    """1 where the default runs, 2 where its platform's, 3 where the partitioned one does."""

    def gives(value):
        def function(operands):
            shape = operands["x"].shape
            return {
                "which": jnp.full(shape, value, jnp.int32),
                "sum": operands["x"] + operands.get("more", 0),
            }

        return function

    operands = {"x": x} if more is None else {"x": x, "more": more}
    outputs = {
        "which": jax.ShapeDtypeStruct(x.shape, jnp.int32),
        "sum": jax.ShapeDtypeStruct(x.shape, x.dtype),
    }
    functions = choice.Alternatives(
        gives(1), tuple((name, gives(2)) for name in alone), gives(3) if partitioned else None
    )
    return choice.choose(functions, outputs, operands)


def which(found):
    (value,) = np.unique(found["which"])
    return value


@pytest.mark.parametrize(("alone", "value"), [(("cpu",), 2), (("tpu", "cpu"), 2), (("cuda",), 1)])
def test_one_device_runs_what_its_platform_has_alone(alone, value):
    found = jax.jit(functools.partial(chosen, alone=alone))(X)
    assert which(found) == value
    assert (found["sum"].dtype, found["sum"].weak_type) == (X.dtype, False)
    np.testing.assert_array_equal(found["sum"], X)


def test_where_nothing_is_lowered_the_default_runs():
    assert which(chosen(jnp.asarray(X))) == 1


@pytest.mark.parametrize("platforms", [("cpu", "cuda"), ("tpu",)])
def test_several_platforms_or_another_get_the_default(platforms):
    text = jax.jit(chosen).trace(X).lower(lowering_platforms=platforms).as_text()
    assert "dense<1>" in text
    assert "dense<2>" not in text


def test_an_exported_program_has_the_default():
    exported = jax.export.export(jax.jit(chosen), platforms=["cpu"])(X)
    assert which(exported.call(X)) == 1


@pytest.mark.parametrize(("partitioned", "value"), [(True, 3), (False, 1)])
def test_a_program_that_is_split_has_one_of_its_own(partitioned, value):
    x = jax.device_put(X, NamedSharding(mesh_of(AxisType.Auto), SPLIT))
    found = jax.jit(functools.partial(chosen, partitioned=partitioned))(x)
    assert which(found) == value
    np.testing.assert_array_equal(found["sum"], X)


@pytest.mark.parametrize("checked", [True, False])
def test_a_shard_is_a_program_of_its_own(checked):
    """One operand is the same on every device, the other and so the outputs are not."""
    varying = []

    def local(x, more):
        found = chosen(x, more=more)
        varying.append(choice._varying(found["sum"]))
        return found

    mapped = jax.shard_map(
        local,
        mesh=mesh_of(AxisType.Auto),
        in_specs=(SPLIT, WHOLE),
        out_specs=SPLIT,
        check_vma=checked,
    )
    found = jax.jit(mapped)(X, X[:2])
    assert which(found) == 2
    assert all(axes == ({"d"} if checked else set()) for axes in varying)
    np.testing.assert_array_equal(found["sum"], X + np.tile(X[:2], (4, 1)))


def test_axes_that_the_compiler_splits_beside_a_shard_are_split():
    """Only one of two mesh axes is spelt out."""
    mesh = jax.make_mesh((2, 2), ("d", "e"), axis_types=(AxisType.Auto,) * 2)
    mapped = jax.shard_map(chosen, mesh=mesh, in_specs=SPLIT, out_specs=SPLIT, axis_names={"d"})
    assert which(jax.jit(mapped)(X)) == 3


@pytest.mark.parametrize("axes", [(0, None), (1, 1), (None, 0)])
def test_a_map_is_one_program(axes):
    x, more = (jnp.asarray(X[0] if axis is None else X) for axis in axes)
    given = zip((x, more), axes, strict=True)
    mapped = jax.vmap(lambda x, more: chosen(x, more=more), in_axes=axes)
    rows = [each if axis is None else np.moveaxis(each, axis, 0) for each, axis in given]
    for call, value in ((mapped, 1), (jax.jit(mapped), 2)):
        found = call(x, more)
        assert which(found) == value
        np.testing.assert_array_equal(found["sum"], rows[0] + rows[1])


# --- a function for each platform -----------------------------------------------------


def by_platform(x, traced):
    """1 where the default runs, 2 on a CPU, 3 on a TPU; lists what is traced."""

    def gives(value):
        def function(x):
            traced.append(value)
            return x + value

        return function

    outputs = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return choice.by_platform(x, outputs, gives(1), {"cpu": gives(2), "tpu": gives(3)})


@pytest.mark.parametrize(("platform", "value"), [("cpu", 2), ("tpu", 3), ("cuda", 1)])
def test_where_the_platform_is_known_only_its_function_is_traced(platform, value):
    traced = []
    program = jax.jit(lambda x: by_platform(x, traced)).trace(X)
    program.lower(lowering_platforms=(platform,))
    assert traced == [value]


def test_a_program_for_several_platforms_has_the_function_of_each():
    traced = []
    several = jax.jit(lambda x: by_platform(x, traced))
    exported = jax.export.export(several, platforms=["cpu", "cuda", "tpu"])(X)
    assert sorted(set(traced)) == [1, 2, 3]
    np.testing.assert_array_equal(exported.call(X), X + 2)


def test_a_platforms_function_runs_eager_mapped_and_split():
    x = jax.device_put(X, NamedSharding(mesh_of(AxisType.Auto), SPLIT))
    for call in (lambda x: by_platform(x, []), jax.vmap(lambda x: by_platform(x, []))):
        for function, given in ((call, jnp.asarray(X)), (jax.jit(call), X), (jax.jit(call), x)):
            np.testing.assert_array_equal(function(given), X + 2)


# --- a flag with which a GPU's products are wrong -------------------------------------


def lower_product(platform, depth):
    x, w = jnp.ones((2, depth), jnp.int8), jnp.ones((depth, 3), jnp.int8)
    product = jax.jit(lambda x: dmlax.matrix_multiply_integer(x, w, implementation="xla"))
    product.trace(x).lower(lowering_platforms=(platform,))


def test_products_on_a_gpu_without_autotuning_warn_once(monkeypatch):
    jax.clear_caches()
    compat.warn_without_autotuning.cache_clear()
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_autotune_level=0")
    lower_product("cpu", 23)
    with pytest.warns(RuntimeWarning, match="int8 matrices wrongly on a GPU: leave it out"):
        lower_product("cuda", 24)
    lower_product("cuda", 25)  # a second warning would be an error
    compat.warn_without_autotuning.cache_clear()


# --- a JAX without its private parts --------------------------------------------------

WITHOUT_PRIVATE_PARTS = """
import importlib, sys, types, warnings
import jax, jax.extend, jax.experimental.custom_partitioning
from jax.experimental import multihost_utils  # they import what is hidden below


def hide(module, *names):  # later imports do not see them; JAX's own modules do
    kept = {k: v for k, v in vars(importlib.import_module(module)).items() if k not in names}
    sys.modules[module] = types.ModuleType(module)
    vars(sys.modules[module]).update(kept)


hide("jax._src.array", "ArrayImpl")
hide("jax._src.source_info_util", "user_frames")
hide("jax._src.sharding_impls", "GSPMDSharding", "ShardingContext", "SPMDAxisContext")
hide("jax._src.lib", "xla_client")
hide("jax.experimental.custom_partitioning", "custom_partitioning")

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import dmlax, dmlax.directml, dmlax.onnx, dmlax.training
    import jax.numpy as jnp
    import numpy as np

    x, w = jnp.arange(32, dtype=jnp.uint8).reshape(8, 4), jnp.ones((4, 2), jnp.int8)
    scales = dict(a_scale=0.5, b_scale=0.5, output_scale=1.0)
    product = lambda x: dmlax.quantized_linear_matrix_multiply(x, w, **scales)
    once = product(x)
    assert (jax.jit(product)(x) == once).all() and product(np.asarray(x)).shape == (8, 2)
    before = [str(w.message) for w in caught]
    assert len(before) == 1 and "ArrayImpl" in before[0], before
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    split = jax.device_put(x, rows)
    assert (jax.jit(product)(split) == once).all()
    print(dmlax.explain(product, split))
    warned = {str(w.message) for w in caught}
    assert all(f"JAX {jax.__version__} has no" in text for text in warned), warned
"""


def test_without_jaxs_private_parts_everything_works_but_kernels_on_parts():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    program = [sys.executable, "-c", WITHOUT_PRIVATE_PARTS]
    found = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "lacks a class by which kernels run on parts" in found.stdout
    assert "2 devices: each runs xla and no kernel on its part" in found.stdout

"""Exports with kernels: the bits of the function, static or with a symbolic batch, or a refusal."""

import dataclasses
import types

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import dmlax
from dmlax._core import compat
from dmlax._cpu import library
from dmlax._cuda import capability
from support import assert_same, needs_kernels
from support.laws import LAWS, TABLE, W, X, integer, variations_in_turn


def lookup(x):
    return dmlax.quantized_lookup(x, TABLE)


def reloaded(function, *operands):
    return dmlax.deserialize(dmlax.export(function, platform="cpu")(*operands).serialize())


def needing(name):
    """An export that says that it needs something."""
    check = jax.export.DisabledSafetyCheck.custom_call(name)
    exported = jax.export.export(jax.jit(lookup))(X)
    return dataclasses.replace(exported, disabled_safety_checks=(check,)).serialize()


@needs_kernels
@pytest.mark.parametrize("law", variations_in_turn(LAWS), ids=str)
def test_an_export_calls_the_kernels_and_gives_the_same_bits(law):
    exported = reloaded(law.function, *law.operands)
    jax.tree.map(assert_same, exported.call(*law.operands), law.function(*law.operands))
    names = [check.is_custom_call() for check in exported.disabled_safety_checks]
    assert names
    assert set(names) <= set(library.TARGETS)
    assert str(dmlax.explain(exported)).startswith(f"export for cpu: it calls {names[0][:6]}")


@needs_kernels
@pytest.mark.parametrize("law", variations_in_turn([law for law in LAWS if law.per_image]), ids=str)
def test_a_kernel_takes_a_symbolic_batch(law):
    x, *rest = law.operands
    shape = jax.export.symbolic_shape(f"b, {', '.join(map(str, x.shape[1:]))}")
    call = lambda x: law.function(x, *rest)  # noqa: E731
    exported = reloaded(call, jax.ShapeDtypeStruct(shape, x.dtype))
    has_kernel = "dmlax_" in str(exported.disabled_safety_checks)
    assert has_kernel or law.name.startswith("nonzero")
    for batch in (x, x[:1], np.concatenate([x] * 3)):
        jax.tree.map(assert_same, exported.call(batch), call(batch))


@needs_kernels
def test_a_portable_export_of_the_same_function_keeps_no_kernel():
    function = jax.jit(lambda x: integer(x, W, np.uint8(3), None))
    reloaded(function, X)
    portable = jax.export.export(function)(X)
    assert str(dmlax.explain(portable)) == "export for cpu: it calls xla and no kernel"


@needs_kernels
def test_a_program_of_a_mesh_exports_without_the_callbacks_of_this_process():
    mesh = jax.make_mesh((4,), ("a",), (jax.sharding.AxisType.Auto,), devices=jax.devices()[:4])
    x = jax.device_put(X, NamedSharding(mesh, PartitionSpec("a")))
    exported = reloaded(lookup, x)
    assert "dmlax_lookup_v1" not in exported.mlir_module()
    assert_same(exported.call(x), lookup(X))


@needs_kernels
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "dmlax_lookup_v0",
            "deserialize: the program calls dmlax_lookup_v0, which this version of dmlax does not "
            "have: export the function again",
        ),
        ("another_library", None),
    ],
)
def test_a_kernel_of_another_version_is_refused_when_loaded(name, message):
    if message is None:
        assert_same(dmlax.deserialize(needing(name)).call(X), lookup(X))
        return
    with pytest.raises(dmlax.UnsupportedError) as refusal:
        dmlax.deserialize(needing(name))
    assert str(refusal.value) == message


def test_an_export_without_its_library_is_refused_when_loaded(monkeypatch):
    data = needing("dmlax_lookup_v1")
    monkeypatch.setattr(library, "_loaded", lambda: ("", "no C++ compiler was found"))
    with pytest.raises(dmlax.UnsupportedError) as refusal:
        dmlax.deserialize(data)
    assert str(refusal.value) == (
        "deserialize: the program calls dmlax_lookup_v1, which is absent: no C++ compiler was found"
    )
    with pytest.raises(
        dmlax.UnsupportedError, match=r"no kernel can be exported for cpu: no C\+\+"
    ):
        dmlax.export(lookup, platform="cpu")


def test_an_export_for_another_gpu_is_refused_when_loaded(monkeypatch):
    data = needing("dmlax needs a GPU of compute capability 9.0")
    dmlax.deserialize(data)  # without a GPU JAX refuses the call
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(capability, "why_not", lambda platform: "no GPU of capability 9.0")
    with pytest.raises(dmlax.UnsupportedError) as refusal:
        dmlax.deserialize(data)
    assert str(refusal.value) == (
        "deserialize: the program's kernels cannot run here: no GPU of capability 9.0"
    )


@pytest.mark.parametrize("version", ["9.0", "8.6"])
def test_a_gpu_of_the_same_capability_loads_its_export(monkeypatch, version):
    data = needing("dmlax needs a GPU of compute capability 9.0")
    gpu = types.SimpleNamespace(compute_capability=version, core_count=132)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(capability, "_attached_gpu", lambda: gpu)
    monkeypatch.setattr(jax, "__version_info__", (0, 11, 0))
    monkeypatch.setattr(compat, "load_gpu_runtime", lambda: None)
    if version == "9.0":
        assert dmlax.deserialize(data).platforms == ("cpu",)
        return
    with pytest.raises(dmlax.UnsupportedError) as refusal:
        dmlax.deserialize(data)
    assert str(refusal.value) == (
        "deserialize: the program's kernels cannot run here: "
        "they are for compute capability 9.0, not 8.6"
    )


def test_platforms_without_kernels_are_refused():
    with pytest.raises(dmlax.SpecError) as refusal:
        dmlax.export(lookup, platform="tpu")
    assert (refusal.value.code, refusal.value.field) == ("option", "platform")
    with pytest.raises(dmlax.UnsupportedError, match="no kernel can be exported for cuda: "):
        dmlax.export(lookup, platform="cuda")


@pytest.mark.parametrize("data", [b"", b"junk" * 10, bytes(100)])
def test_other_bytes_are_refused_when_loaded(data):
    with pytest.raises(dmlax.SpecError) as refusal:
        dmlax.deserialize(data)
    assert str(refusal.value).startswith(
        f"deserialize: data has {len(data)} bytes that are no export: "
    )
    assert (refusal.value.code, refusal.value.field) == ("option", "data")

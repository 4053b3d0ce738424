"""Capability check of the GPU kernels: each thing that they need is named when it is missing."""

import importlib.util
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax._cuda import capability

OTHER = "it is for NVIDIA GPUs of compute capability 8.0 or newer"
NAMED = "nonzero: mosaic_gpu cannot run here"


@pytest.fixture
def machine(monkeypatch):
    """Has all that is needed; what a test changes is asked again."""
    found = [SimpleNamespace(compute_capability="9.0", core_count=78)]

    def devices(platform=None):
        assert platform == "cuda"
        if not found:
            raise RuntimeError("Unknown backend cuda")
        return found

    with monkeypatch.context() as changed:
        changed.setattr(jax, "devices", devices)
        changed.setattr(jax, "__version_info__", (0, 11, 0))
        changed.setattr(importlib.util, "find_spec", lambda name: name == "absl" or None)
        capability._attached_gpu.cache_clear()
        yield SimpleNamespace(gpus=found, change=changed.setattr)
    capability._attached_gpu.cache_clear()


def test_nothing_is_missing(machine):
    assert capability.why_not("cuda") is None


@pytest.mark.parametrize("platform", ["cpu", "tpu", "rocm"])
def test_other_platforms_are_not_meant(machine, platform):
    assert capability.why_not(platform) == OTHER


@pytest.mark.parametrize("version", [(0, 10, 9), (0, 11, 0), (0, 12, 1), (1, 0, 0)])
def test_an_older_jax_lacks_what_they_are_written_with(machine, version):
    machine.change(jax, "__version_info__", version)
    why = f"it needs JAX 0.11 or newer, and this is {jax.__version__}"
    assert capability.why_not("cuda") == (why if version < (0, 11) else None)


def test_pallas_needs_absl(machine):
    machine.change(importlib.util, "find_spec", lambda name: None)
    assert capability.why_not("cuda") == "Pallas needs the package absl-py"


@pytest.fixture
def attach(machine, monkeypatch):
    """Attaches a GPU of a compute capability; the environment may restrict it."""

    def attach(version, restricted_to=""):
        machine.gpus[:] = [SimpleNamespace(compute_capability=version, core_count=78)]
        monkeypatch.setenv("DMLAX_CUDA_ISA", restricted_to)
        capability._attached_gpu.cache_clear()

    return attach


def test_without_a_gpu_nothing_runs(machine):
    machine.gpus.clear()
    assert capability.why_not("cuda") == "no NVIDIA GPU is attached"
    assert capability.multiprocessors() == 132


@pytest.mark.parametrize("version", ["7.5", "8.7", "9.1", "11.0"])
def test_an_unknown_capability_is_named(attach, version):
    attach(version)
    assert capability.why_not("cuda") == (
        f"the GPU has compute capability {version}, not 8.0, 8.6, 8.9, 9.0, 10.0 or 12.0"
    )
    assert capability.multiprocessors() == 132


@pytest.mark.parametrize("version", capability.CAPABILITIES)
def test_kernels_are_for_the_gpu_or_for_an_older_one_that_the_environment_names(attach, version):
    attach(version)
    gpu = capability.CAPABILITIES[version]
    assert capability.why_not("cuda") is None
    assert capability.chosen() == gpu
    for other in capability.CAPABILITIES.values():
        attach(version, other.name)
        has = other == gpu or (other.version < gpu.version and not other.wgmma)
        names = ", ".join(capability.choices())
        why = f"DMLAX_CUDA_ISA names none of what this GPU has: {names}"
        assert capability.why_not("cuda") == (None if has else why)
        assert capability.chosen() == (other if has else gpu)
        assert (other.name in names) == has


def test_only_hopper_multiplies_by_warpgroups_and_was_run():
    assert [str(row) for row in capability.CAPABILITIES.values() if row.wgmma] == ["9.0"]
    assert [str(row) for row in capability.CAPABILITIES.values() if row.was_run] == ["9.0"]


def test_the_first_gpu_counts(machine):
    machine.gpus.append(SimpleNamespace(compute_capability="8.0", core_count=108))
    assert capability.attached().version == (9, 0)


def test_an_attached_gpu_says_how_many_multiprocessors_it_has(machine):
    assert capability.multiprocessors() == 78
    machine.gpus.clear()
    assert capability.multiprocessors() == 78  # asked once


def test_a_plan_is_refused_before_anything_is_traced():
    with pytest.raises(dmlax.UnsupportedError) as caught:
        capability.refuse_elsewhere("nonzero", None, lambda platform: f"{platform} is slow")
    assert str(caught.value) == f"{NAMED}: cuda is slow"


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
def test_another_platform_is_refused_when_lowered_for_it(platform):
    slow = {"cpu": "cpu is slow", "tpu": "tpu is slow"}.get
    refused = jax.jit(lambda x: capability.refuse_elsewhere("nonzero", x, slow) + 1)
    trace = refused.trace(jnp.zeros(3))
    with pytest.raises(dmlax.UnsupportedError, match=f"{NAMED}: {platform} is slow"):
        trace.lower(lowering_platforms=(platform,))
    assert "stablehlo.add" in trace.lower(lowering_platforms=("cuda",)).as_text()


def test_what_runs_is_given_on():
    x = jnp.arange(3)
    given = capability.refuse_elsewhere("nonzero", x, {"cpu": "no", "tpu": "no"}.get)
    np.testing.assert_array_equal(given, x)

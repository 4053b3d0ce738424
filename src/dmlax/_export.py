"""Exports of one platform's programs with their kernels, and their loading."""

import dataclasses
import struct
from collections.abc import Callable, Iterator
from typing import Any, Literal

import jax
import jax.export

from dmlax._core import compat
from dmlax._core.arguments import Rules
from dmlax._cpu import library
from dmlax._cuda import capability
from dmlax.errors import UnsupportedError

_GPU = "dmlax needs a GPU of compute capability "  # a note among the disabled checks
_MOSAIC = b"mosaic_gpu_v2"  # the call of all GPU kernels
_PLATFORMS = ("cpu", "cuda")


def export(
    function: Callable[..., Any], /, *, platform: Literal["cpu", "cuda"]
) -> Callable[..., jax.export.Exported]:
    """Exports a function for one platform with the kernels that it runs there.

    `jax.export.export` gives a portable program, whose operators are `xla`. This one is as fast as
    the function, and runs where `dmlax` is installed: `dmlax.deserialize` loads it and checks that.

    Args:
      function: of arrays and pytrees of them, jitted or not.
      platform: `"cpu"`, with the kernels of any instruction set, or `"cuda"`, with those of the
        attached GPU. On a CPU the kernels take a symbolic batch; on a GPU `xla` does.

    Returns:
      A function that takes the arrays, or `jax.ShapeDtypeStruct`s of them, and returns a
      `jax.export.Exported`.

    Raises:
      SpecError: the platform has no kernels (code `option`).
      UnsupportedError: its kernels cannot run here, so that nothing could be exported.

    Example:
      >>> import dmlax, jax, jax.numpy as jnp
      >>> table = jnp.arange(256, dtype=jnp.uint8)[::-1]
      >>> def negate(x):
      ...     return dmlax.quantized_lookup(x, table)
      >>> x = jax.ShapeDtypeStruct((4,), jnp.uint8)
      >>> data = dmlax.export(negate, platform="cpu")(x).serialize()
      >>> dmlax.deserialize(data).call(jnp.array([0, 1, 2, 255], jnp.uint8))
      Array([255, 254, 253,   0], dtype=uint8)
    """
    Rules("export").expect_choice("platform", platform, _PLATFORMS)
    if why := _why_not(platform):
        raise UnsupportedError(f"export: no kernel can be exported for {platform}: {why}")

    def export_call(*args: Any, **kwargs: Any) -> jax.export.Exported:
        exported = compat.export_kernels(function, platform, *args, **kwargs)
        return dataclasses.replace(exported, disabled_safety_checks=tuple(_needs(exported)))

    return export_call


def deserialize(data: bytes | bytearray) -> jax.export.Exported:
    """Loads a serialized export, and checks that its kernels can run here.

    Args:
      data: as `jax.export.Exported.serialize` returns.

    Raises:
      SpecError: the data are no export (code `option`).
      UnsupportedError: a kernel is missing or of another version, or the attached GPU has another
        compute capability.

    Example:
      >>> import dmlax, jax, jax.numpy as jnp
      >>> exported = jax.export.export(jax.jit(lambda x: x + 1))(jnp.int32(0))
      >>> int(dmlax.deserialize(exported.serialize()).call(jnp.int32(2)))
      3
    """
    try:
        exported = jax.export.deserialize(bytearray(data))
    # The reader of flat buffers raises these.
    except (AttributeError, ValueError, struct.error) as error:
        rules = Rules("deserialize")
        rules.fail("option", "data", f"has {len(data)} bytes that are no export: {error}")
    for check in exported.disabled_safety_checks:
        _expect(check.is_custom_call() or "")
    return exported


def _why_not(platform: str) -> str | None:
    return library.why_not("cpu") if platform == "cpu" else capability.why_not("cuda")


def _needs(exported: jax.export.Exported) -> Iterator[jax.export.DisabledSafetyCheck]:
    """The kernels that a program calls, as the checks that JAX leaves out and keeps in the file."""
    module = exported.mlir_module_serialized
    yield from (
        check
        for check in exported.disabled_safety_checks
        if (check.is_custom_call() or "").encode() in module
    )
    if _MOSAIC in module:
        yield jax.export.DisabledSafetyCheck.custom_call(f"{_GPU}{capability.attached()}")


def _expect(need: str) -> None:
    """Refuses a program that needs another kernel or another GPU."""
    if need.startswith("dmlax_"):
        if why := library.why_not("cpu"):
            raise UnsupportedError(f"deserialize: the program calls {need}, which is absent: {why}")
        if need not in library.TARGETS:
            raise UnsupportedError(
                f"deserialize: the program calls {need}, which this version of dmlax "
                "does not have: export the function again"
            )
    if need.startswith(_GPU) and jax.default_backend() == "gpu":
        why, wanted = capability.why_not("cuda"), need.removeprefix(_GPU)
        if why is None and wanted != str(capability.attached()):
            why = f"they are for compute capability {wanted}, not {capability.attached()}"
        if why:
            raise UnsupportedError(f"deserialize: the program's kernels cannot run here: {why}")
        compat.load_gpu_runtime()

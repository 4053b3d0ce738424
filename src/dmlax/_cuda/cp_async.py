"""Asynchronous copies from global to shared memory: PTX's `cp.async`."""

from dmlax._cuda import ir
from dmlax._cuda.capability import CHUNK
from dmlax._cuda.ir import Value


def copy(
    to: Value,
    source: Value,
    size: int,
    wanted: Value | None = None,
    *,
    cached: bool = False,
    offsets: tuple[int, int] = (0, 0),
) -> None:
    """Begins to copy `size` bytes; only the first `wanted` of them are read, zeros follow.

    Both addresses have constant offsets. The L1 cache keeps what is `cached`; only whole chunks can
    go past it.
    """
    caches = "ca" if cached or size < CHUNK else "cg"
    target, start = (f"[${i}+{x}]" if x else f"[${i}]" for i, x in enumerate(offsets))
    text = f"cp.async.{caches}.shared.global {target}, {start}, {size}"
    if wanted is None:
        ir.ptx_effect(f"{text};", to, source)
    else:
        ir.ptx_effect(f"{text}, $2;", to, source, wanted)


def commit_group() -> None:
    """Makes a commit group of the copies begun since the last one."""
    ir.ptx_effect("cp.async.commit_group;")


def wait_group(pending: int) -> None:
    """Waits for this thread's commit groups, but the last `pending` ones."""
    ir.ptx_effect(f"cp.async.wait_group {pending};")

"""A CUDA thread's copies from global to shared memory, which go on while it does other things."""

from dmlax._core import lanes
from dmlax._core.lanes import Value
from dmlax._core.mosaic_gpu import CHUNK


def begin(
    to: Value, source: Value, size: int, wanted: Value | None = None, *, cached: bool = False
) -> None:
    """Begins to copy bytes; only the first `wanted` of them are read, zeros follow.

    What is not `cached` goes past the first cache, as only chunks can.
    """
    caches = "ca" if cached or size < CHUNK else "cg"
    text = f"cp.async.{caches}.shared.global [$0], [$1], {size}"
    if wanted is None:
        lanes.effect(f"{text};", to, source)
    else:
        lanes.effect(f"{text}, $2;", to, source, wanted)


def end_of_group() -> None:
    """The copies begun since the last one are a group."""
    lanes.effect("cp.async.commit_group;")


def await_groups(later: int) -> None:
    """Waits for this thread's groups, but the last ones."""
    lanes.effect(f"cp.async.wait_group {later};")

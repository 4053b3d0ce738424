"""Programs compiled for absent TPUs, by libtpu's compiler on this CPU."""

import os
import time
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import jax

GENERATIONS = {
    "v4": "v4:2x2x1",
    "v5e": "v5e:2x2",
    "v5p": "v5p:2x2x1",
    "v6e": "v6e:2x2",
    "TPU7x": "TPU7x:2x2x1",
}
# Without these variables libtpu looks for a TPU here before it compiles for another machine.
_ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # the lock guards chips, and there are none
}


def compile_for(
    generation: str, function: Callable[..., object], *operands: Any
) -> tuple[str, float]:
    """Return the optimised HLO for one chip, and the CPU seconds of all the compiler's threads."""
    sharding = _sharding(generation)
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), operands
    )
    start = time.process_time()
    compiled = jax.jit(function).lower(*shapes).compile()
    return str(compiled.as_text()), time.process_time() - start


@cache
def _sharding(generation: str) -> jax.sharding.SingleDeviceSharding:
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    topologies = import_module("jax.experimental.topologies")
    chips = topologies.get_topology_desc(platform="tpu", topology_name=GENERATIONS[generation])
    return jax.sharding.SingleDeviceSharding(chips.devices[0])

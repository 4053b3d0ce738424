"""Loads a `.tflite` file, calls it twice, and compares it with LiteRT in two resolvers."""

import functools
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from ai_edge_litert.interpreter import Interpreter

import dmlax.litert
from dmlax.errors import UnsupportedError
from dmlax.litert.model import Model
from dmlax.litert.peer import Peer
from dmlax.litert.read import NEXT
from dmlax.onnx.differences import difference_of
from tools.litert.compare import BOUND, relative
from tools.wild.files import Entry
from tools.wild.judge import draw, milliseconds

_CALLS = 2
_WHOLE = (np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.int16))  # drawn of the whole range


def judge(entry: Entry, path: Path, *, fast: bool) -> dict[str, Any]:
    """Returns the facts of a row of the table."""
    data = dmlax.litert.read_source(path, entry.load.get("member"))
    data = data[slice(*entry.part)] if entry.part else data
    shapes = entry.load.get("input_shapes")
    found: dict[str, Any] = {"loads": False, "difference": 0.0, "integers": 0, "notes": []}
    names: list[str] | None = None
    if entry.custom:  # LiteRT lacks them, too: what needs none of them is compared
        try:
            dmlax.litert.load(data)
        except UnsupportedError as error:
            found["notes"] += [f"{x} is not named" for x in entry.custom if x not in str(error)]
        else:
            found["notes"] += ["it loads without its operators"]
        names = Peer(data, "xnnpack", entry.custom).names
    theirs: dict[tuple[str, int, str], np.ndarray] = {}
    for resolver in ("reference", "xnnpack"):
        start = time.perf_counter()
        try:
            loaded = dmlax.litert.load(
                data, arithmetic=resolver, outputs=names, input_shapes=shapes
            )
        except Exception as error:
            return found | {"error": f"{type(error).__name__}: {error}"}
        found |= {"loads": True, "load_s": time.perf_counter() - start}
        peer = Peer(data, resolver, entry.custom, shapes)
        _compare(entry, loaded, peer, resolver, theirs, found)
    floats = [name for name in loaded._file.outputs if ("xnnpack", 0, name) in theirs]
    pairs = [
        [theirs[x, i, name] for x in ("reference", "xnnpack")] for name in floats for i in (0, 1)
    ]
    found["yardstick"] = max((relative(difference_of("", "", *x)) for x in pairs), default=None)
    found["quantized"] = _quantization(loaded)
    found["agrees"] = not found["notes"]
    inputs = _inputs(entry, loaded, np.random.default_rng(0))
    start = time.perf_counter()
    jax.block_until_ready(loaded(inputs))
    found["first_s"] = time.perf_counter() - start
    if not fast and not entry.custom:
        runtime = Interpreter(model_content=data, num_threads=2)
        for detail, x in zip(runtime.get_input_details(), inputs.values(), strict=True):
            runtime.resize_tensor_input(detail["index"], x.shape)
        runtime.allocate_tensors()
        for detail, x in zip(runtime.get_input_details(), inputs.values(), strict=True):
            runtime.set_tensor(detail["index"], x)
        found["ms"] = milliseconds(lambda: jax.block_until_ready(loaded(inputs)))
        found["peer_ms"] = milliseconds(runtime.invoke)
    return found


def _compare(
    entry: Entry,
    loaded: Model,
    peer: Peer,
    resolver: str,
    theirs: dict[tuple[str, int, str], np.ndarray],
    found: dict[str, Any],
) -> None:
    """Compares all tensors that LiteRT computes: integers with ==, floats of outputs by a bound."""
    rng, state = np.random.default_rng(0), loaded.init_state()
    names = [name for name in peer.names if name in loaded.tensors()]
    following = {name: name + NEXT for name in state}
    every = jax.jit(functools.partial(loaded.apply, outputs=[*names, *following.values()]))
    for call in range(_CALLS):
        inputs = _inputs(entry, loaded, rng)
        wanted = peer.run(inputs)
        ours = every(loaded.params, {**inputs, **state})
        state = {name: ours[x] for name, x in following.items()}
        for name in names:
            theirs[resolver, call, name] = wanted[name]
            gap = difference_of(name, resolver, ours[name], wanted[name])
            if wanted[name].dtype != ours[name].dtype:
                found["notes"].append(f"{name} is {ours[name].dtype}, not {wanted[name].dtype}")
            if gap.relative is None:
                found["integers"] += gap.size
                found["notes"] += [str(gap)] if gap.different else []
            elif entry.custom or name in loaded._file.outputs:
                found["difference"] = max(found["difference"], share := relative(gap))
                is_wrong = not share <= (entry.bound or BOUND)
                found["notes"] += [f"{gap}, relatively {share:.1e}"] if is_wrong else []


def _inputs(entry: Entry, loaded: Model, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draws inputs by name."""
    inputs = {}
    for name, x in loaded.inputs.items():
        whole = (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max) if x.dtype in _WHOLE else None
        inputs[name] = draw(x.dtype, x.shape, entry.ranges.get(name, whole), rng)
    return inputs


def _quantization(loaded: Model) -> str:
    """Returns "yes" for a file that computes bytes, "weights" for one that casts its weights."""
    dtypes = {x.dtype.name for x in loaded._file.types.values()}
    computed = {
        x.dtype.name for name in loaded.tensors() for x in [loaded._file.types.get(name)] if x
    }
    return "yes" if "int8" in computed else "weights" if dtypes & {"int8", "float16"} else "no"

"""Compares dmlax with ONNX Runtime at two levels, and with what the file says in rationals."""

import traceback
from typing import Any

import jax
import numpy as np
import onnx

import dmlax.onnx
from differential.graphs import draw
from differential.rationals import Real, Steps, evaluate
from dmlax.onnx import peer

OURS = ("float32", "exact")


def check_all(seeds: range) -> list[tuple[int, str, str]]:
    """Judges some graphs; the process keeps no program of them."""
    found = [(seed, *check(seed)) for seed in seeds]
    jax.clear_caches()
    return found


def check(seed: int) -> tuple[str, str]:
    """Judges one graph.

    Returns:
      The verdict, and what shows it:
        right: "float32" has ONNX Runtime's bits, and "exact" what the file says.
        departs: ONNX Runtime's extended level changes what the file says, and dmlax does not.
        skipped: ONNX Runtime runs the graph at no level.
        wrong: an output is not what the file says.
        wrong bits: it is, and so is ONNX Runtime's, which "float32" differs from.
        refused, raw: dmlax raises UnsupportedError, or anything else.
    """
    model, inputs, noise = draw(seed)
    peers = {}
    for level, optimised in (("as the nodes say", False), ("extended", True)):
        try:
            found = peer.run(peer.start(model, optimised=optimised, threads=1), inputs)
        except Exception as error:
            found = str(error)
        peers[level] = found
    ran = [each for each in peers.values() if isinstance(each, dict)]
    if not ran:
        return "skipped", ""
    about = evaluate(model, inputs, noise, slack=1, whole_softmax=True)
    trusted = not has_float_bias(model) and not has_double_pair(model)
    verdict = "right", ""
    for arithmetic in OURS:
        said = evaluate(model, inputs, noise, whole_softmax=arithmetic == "float32")
        try:
            loaded = dmlax.onnx.load(model, arithmetic=arithmetic)
            ours = {name: np.asarray(x) for name, x in loaded(inputs).items()}
        except dmlax.UnsupportedError as error:
            return "refused", f"{arithmetic}: {error}"
        except Exception:
            return "raw", f"{arithmetic}: {traceback.format_exc(limit=-4)}"
        for output in model.graph.output:
            found = judge(
                ours[output.name], output.name, arithmetic, said, about if trusted else None, peers
            )
            if found[0] == "wrong":
                return found
            if found[0] != "right":
                verdict = found
    return verdict


def has_float_bias(model: onnx.ModelProto) -> bool:
    """True where ONNX Runtime quantizes a bias that the file has as floats."""
    floats = {x.name for x in model.graph.initializer if x.data_type in (1, 10)}
    products = (node for node in model.graph.node if node.op_type in ("Conv", "Gemm"))
    return any(len(node.input) > 2 and node.input[2] in floats for node in products)


def has_double_pair(model: onnx.ModelProto) -> bool:
    """True where ONNX Runtime merges two pairs of quantizations, or drops a clamp between."""
    producers = {node.output[0]: node for node in model.graph.node}
    for node in model.graph.node:
        before = producers.get(node.input[0]) if node.op_type == "QuantizeLinear" else None
        while before is not None and before.op_type in ("Clip", "Relu"):
            before = producers.get(before.input[0])
        if before is not None and before.op_type == "DequantizeLinear":
            return True
    return False


def judge(
    ours: np.ndarray, name: str, arithmetic: str, said: Any, about: Any, peers: Any
) -> tuple[str, str]:
    """Compares one output."""
    theirs = {level: found[name] for level, found in peers.items() if isinstance(found, dict)}
    meaning = said[name]
    dtypes = {x.dtype for x in theirs.values()} | (
        {meaning.value.dtype} if isinstance(meaning, Steps) else set()
    )
    shapes = {x.shape for x in theirs.values()} | {
        np.shape(meaning.value if isinstance(meaning, Real | Steps) else meaning)
    }
    if {ours.dtype} != dtypes or {ours.shape} != shapes:
        return "wrong", f"{arithmetic} {name}: {ours.dtype}{ours.shape}, expected {dtypes}{shapes}"
    by_nodes, extended = theirs.get("as the nodes say"), theirs.get("extended")
    inside = _within(ours, meaning) | (by_nodes is not None and _equal(ours, by_nodes))
    if arithmetic == "exact" or extended is None:
        return ("right", "") if np.all(inside) else ("wrong", _describe(ours, name, said, theirs))
    same = _equal(ours, extended)
    if about is not None and np.all(_within(extended, about[name])):  # it keeps the meaning
        if np.all(same | _within(ours, meaning, strict=True)):
            return "right", ""
        verdict = "wrong bits" if np.all(inside) else "wrong"
        return verdict, _describe(ours, name, said, theirs)
    if not np.all(inside):
        return "wrong", _describe(ours, name, said, theirs)
    return ("right" if np.all(same) else "departs"), ""


def _describe(ours: np.ndarray, name: str, said: Any, theirs: Any) -> str:
    """Shows all values of an output."""
    found = {"ours": ours, "meaning": said[name]} | theirs
    return "\n  ".join([name, *(f"{who}: {_show(x)}" for who, x in found.items())])


def _show(x: Any) -> str:
    if isinstance(x, Steps):
        x = x.value
    if isinstance(x, Real):
        x = x.value.astype(np.float64)
    return str(np.asarray(x).ravel()[:24].tolist())


def _equal(a: np.ndarray, b: np.ndarray) -> Any:
    if a.dtype.kind == "f":
        tolerance = 1e-3 if a.dtype == np.float16 else 4e-6
        return np.isclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max(initial=0))
    return a == b


def _within(ours: np.ndarray, meaning: Any, strict: bool = False) -> Any:
    """True where a value is one that float arithmetic may make; strict, where it had to choose."""
    if isinstance(meaning, Steps):
        found = (meaning.low <= ours) & (ours <= meaning.high)
        return found & (meaning.low != meaning.high) if strict else found
    if isinstance(meaning, Real):
        wanted = meaning.value.astype(np.float64)
        room = meaning.error.astype(np.float64) + np.abs(wanted) * (
            1e-3 if ours.dtype == np.float16 else 1e-6
        )
        return np.abs(ours.astype(np.float64) - wanted) <= room + 1e-30
    return ours == meaning

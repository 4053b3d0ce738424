"""Compares dmlax with ONNX Runtime at two levels, and with what the file says in rationals."""

import collections
import functools
import traceback
from typing import Any

import jax
import numpy as np
import onnx
from onnx import helper, numpy_helper

import dmlax.onnx
from dmlax.onnx import peer
from tools.differential.graphs import Drawn, draw
from tools.differential.own_process import PeerError, in_own_process
from tools.differential.rationals import FLOAT16, JUMPS, Real, Steps, evaluate

OURS = ("float32", "exact")


def check_all(seeds: range) -> list[tuple[int, str, str]]:
    """Judges some graphs; the process keeps no program of them."""
    found = [(seed, *check(seed)) for seed in seeds]
    jax.clear_caches()
    return found


def check(seed: int, op: str = "") -> tuple[str, str]:
    """Judges one graph, or one of an operator.

    Returns:
      The verdict, and what shows it:
        right: "float32" has ONNX Runtime's bits, and "exact" what the file says.
        departs: ONNX Runtime's extended level changes what the file says, and dmlax does not.
        skipped: ONNX Runtime runs the graph at no level or ends its process, or a value has no
          rational.
        wrong: an output is not what the file says.
        wrong bits: it is, and so is ONNX Runtime's, which "float32" differs from.
        batch: images at once have other bits than one by one.
        refused, raw: dmlax raises UnsupportedError, or anything else.
    """
    drawn = draw(seed, op)
    model, inputs = drawn.model, drawn.inputs
    peers = {
        level: _peer(model, inputs, optimised=optimised)
        for level, optimised in (("as the nodes say", False), ("extended", True))
    }
    if not any(peers.values()):
        return "skipped", ""
    image_peer = functools.partial(_peer, model, optimised=False)
    theirs = _one_by_one(image_peer, inputs) if drawn.has_batch else {}
    verdict = "right", ""
    for arithmetic in OURS:
        try:
            loaded = _load(drawn, arithmetic)
            ours = _run(loaded, inputs)
            is_open = not any(
                isinstance(x.shape[0], int) for x in loaded.inputs.values() if x.shape
            )
            run = functools.partial(_run, loaded)
            apart = _one_by_one(run, inputs) if theirs and is_open else {}
        except dmlax.UnsupportedError as error:
            return "refused", f"{arithmetic}: {error}"
        except Exception:
            return "raw", f"{arithmetic}: {traceback.format_exc(limit=-4)}"
        try:
            said, about = _meanings(drawn, arithmetic, bool(peers["extended"]))
        except (ArithmeticError, PeerError) as error:
            return "skipped", str(error)
        for output in model.graph.output:
            found = judge(ours[output.name], output.name, arithmetic, said, about, peers)
            if found[0] == "wrong" and _may_part(drawn, arithmetic):
                found = ("right", "") if _holds_by_parts(drawn, arithmetic, ours) else found
            if found[0] == "wrong":
                return found
            if found[0] != "right":
                verdict = found
        why = _depends_on_batch(ours, apart, theirs, peers["as the nodes say"])
        if why:
            return "batch", f"{arithmetic} {why}"
    return verdict


def _load(drawn: Drawn, arithmetic: str) -> dmlax.onnx.Model:
    """Loads a graph, with static sizes where an open batch is refused."""
    try:
        return dmlax.onnx.load(drawn.model, arithmetic=arithmetic)
    except dmlax.UnsupportedError as error:
        if "input_shapes" not in str(error):
            raise
    shapes = {name: x.shape for name, x in drawn.inputs.items()}
    return dmlax.onnx.load(drawn.model, arithmetic=arithmetic, input_shapes=shapes)


def _peer(model: onnx.ModelProto, inputs: Any, *, optimised: bool) -> dict[str, np.ndarray]:
    """The outputs of ONNX Runtime, none if it refuses the graph."""
    try:
        return in_own_process(_start_and_run, model, inputs, optimised)
    except PeerError:
        return {}


def _start_and_run(model: onnx.ModelProto, inputs: Any, optimised: bool) -> dict[str, np.ndarray]:
    return peer.run(peer.start(model, optimised=optimised, threads=1), inputs)


def _run(loaded: dmlax.onnx.Model, inputs: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(x) for name, x in loaded(inputs).items()}


def _meanings(
    drawn: Drawn, arithmetic: str, is_fused: bool
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What a file says, and how far ONNX Runtime may be from it; None if it changes the file."""
    is_changed = any(x(drawn.model) for x in (has_float_operand, has_double_pair, has_blocks))
    is_changed |= drawn.size == "bytes" and has_wide_product(drawn.model)
    is_shared = arithmetic == "float32" and has_shared_int8(drawn.model)
    if drawn.size != "small":
        found = in_own_process(peer.run_every_tensor, drawn.model, drawn.inputs)
        arrays = {x.name: numpy_helper.to_array(x) for x in drawn.model.graph.initializer}
        nodes = (node for node in drawn.model.graph.node if node.op_type == "QuantizeLinear")
        scales = [np.abs(arrays[node.input[1]]).max(initial=0.0) for node in nodes]
        step = float(max(scales, default=0.0))
        step += any(node.op_type in JUMPS for node in drawn.model.graph.node)
        if any(_is_lost(node, found) for node in drawn.model.graph.node):
            raise ArithmeticError("ONNX Runtime's norm of tiny numbers is 0")
        near = {name: _around(x, drawn.size == "sums", step) for name, x in found.items()}
        is_fused = is_fused and drawn.noise != FLOAT16 and arithmetic == "float32"
        if drawn.size == "sums" or is_changed or is_shared or not is_fused:
            return near, None
        return {name: _around(x, False, 0.0, 0) for name, x in found.items()}, near
    said = evaluate(*drawn[:3], slack=int(is_shared), whole_softmax=arithmetic == "float32")
    if is_changed:
        return said, None
    return said, evaluate(*drawn[:3], slack=1, whole_softmax=True)


def _is_lost(node: onnx.NodeProto, found: dict[str, np.ndarray]) -> bool:
    """Whether ONNX Runtime divides tiny numbers by a norm of 0, whose squares are."""
    if node.op_type != "LpNormalization":
        return False
    x, y = (found[name] for name in (node.input[0], node.output[0]))
    return bool(np.any((x != 0) & (y == 0)))


def _around(x: np.ndarray, is_sum: bool, step: float, steps: int = 1) -> Any:
    """Values some steps away; of sums also those within a fiftieth of the largest, and a step."""
    wide = x.astype(np.float64)
    most = np.abs(wide).max(initial=0)
    if x.dtype.kind == "f":
        return Real(wide, np.full(x.shape, most / 50 + 1.01 * step if is_sum else most * 1e-6))
    if is_sum:  # any index of a maximum may be right
        steps += int(most / 50) if x.dtype.itemsize < 8 else int(most) + 1
    return Steps(x, wide - steps, wide + steps)


def _may_part(drawn: Drawn, arithmetic: str) -> bool:
    """Whether one step may become many between dmlax and ONNX Runtime.

    A norm of values that are nearly equal does so. "float32" has the softmax of ONNX Runtime's
    extended level, but does not merge pairs as that level does; and it has ONNX Runtime's order of
    sums in no float product of several matrices.
    """
    if drawn.size == "sums":
        return True
    if arithmetic != "float32":
        return False
    arrays = {
        x.name for x in drawn.model.graph.initializer if x.data_type == onnx.TensorProto.FLOAT
    }
    products = (node for node in drawn.model.graph.node if node.op_type == "MatMul")
    has_floats = any(not arrays.isdisjoint(node.input) for node in products)
    return has_floats or has_double_pair(drawn.model)


def _holds_by_parts(drawn: Drawn, arithmetic: str, whole: dict[str, np.ndarray]) -> bool:
    """Whether ONNX Runtime makes the next quantized tensors of dmlax's, each up to a step."""
    parts = onnx.ModelProto()
    parts.CopyFrom(drawn.model)
    names = [x.output[0] for x in parts.graph.node if x.op_type == "QuantizeLinear"]
    results = [x.name for x in parts.graph.output]
    every = list(dict.fromkeys([*names, *results]))
    loaded = dmlax.onnx.load(drawn.model, arithmetic=arithmetic, outputs=every)
    ours = _run(loaded, drawn.inputs)
    if any(ours[name].tobytes() != whole[name].tobytes() for name in results):
        return False  # other outputs let dmlax compute the model in another way
    given = {f"{name}_given": ours[name] for name in names}
    for node in parts.graph.node:
        node.input[:] = [f"{x}_given" if x in names else x for x in node.input]
    for name, x in given.items():
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        parts.graph.input.append(helper.make_tensor_value_info(name, kind, x.shape))
    known = {x.name for x in parts.graph.output}
    parts.graph.output.extend(onnx.ValueInfoProto(name=x) for x in names if x not in known)
    theirs = _peer(parts, {**drawn.inputs, **given}, optimised=False)
    return bool(theirs) and all(np.all(_near(ours[name], theirs[name])) for name in every)


def _one_by_one(run: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of all images of a batch, computed one by one; not scalars."""
    count = len(next(iter(inputs.values())))
    images = ({name: x[i : i + 1] for name, x in inputs.items()} for i in range(count))
    first, *others = parts = [run(image) for image in images]
    names = [name for name in first if np.ndim(first[name]) and all(name in x for x in others)]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _depends_on_batch(ours: Any, apart: Any, theirs: Any, whole: Any) -> str:
    """Names an output that depends on the batch; ONNX Runtime shows which may not."""
    for name in apart.keys() & theirs.keys() & whole.keys():
        may_not = theirs[name].shape == whole[name].shape and np.all(
            _near(theirs[name], whole[name])
        )
        one, many = apart[name] + 0, ours[name] + 0  # an exact float product may lose a zero's sign
        if may_not and one.tobytes() != many.tobytes():
            differ = np.sum(one != many)
            return f"{name}: {differ} of {ours[name].size} elements depend on the batch"
    return ""


def _near(a: np.ndarray, b: np.ndarray) -> Any:
    """True for floats that are about equal, and integers that are at most a step apart."""
    if a.dtype.kind in "iu" and a.dtype.itemsize < 4:
        return np.abs(a.astype(int) - b) <= 1
    return _equal(a, b)


def has_float_operand(model: onnx.ModelProto) -> bool:
    """True where ONNX Runtime quantizes floats of the file, or drops a bias's zero point."""
    arrays = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer}
    floats = {name for name, x in arrays.items() if x.dtype.kind == "f"}
    floats |= {
        node.output[0]
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and len(node.input) > 2
        if arrays[node.input[2]].dtype == np.int32 and arrays[node.input[2]].any()
    }
    products = (
        node for node in model.graph.node if node.op_type in ("Conv", "ConvTranspose", "Gemm")
    )
    return any(not floats.isdisjoint(node.input[1:]) for node in products)


def has_wide_product(model: onnx.ModelProto) -> bool:
    """True where ONNX Runtime multiplies floats, in an order that is its own.

    Weights or results of 16 bits have no integer operator there.
    """
    arrays = (numpy_helper.to_array(x) for x in model.graph.initializer)
    products = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
    has_product = not products.isdisjoint(node.op_type for node in model.graph.node)
    return has_product and any(x.itemsize == 2 for x in arrays)


def has_blocks(model: onnx.ModelProto) -> bool:
    """True where ONNX Runtime makes a MatMulNBits, which quantizes the floats of a product."""
    if all(node.op_type not in ("Gemm", "MatMul") for node in model.graph.node):
        return False
    try:
        fused = in_own_process(peer.fuse, model)
        return any(node.op_type == "MatMulNBits" for node in fused.graph.node)
    except PeerError:
        return False


def has_shared_int8(model: onnx.ModelProto) -> bool:
    """True where ONNX Runtime keeps the floats of int8 that several nodes read, or would read.

    dmlax rounds the integers in one more step.
    """
    arrays = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer}
    readers = collections.Counter(name for node in model.graph.node for name in node.input)
    readers.update(x.name for x in model.graph.output)
    return any(
        arrays[node.input[2]].dtype == np.int8 and max(readers[x] for x in names) > 1
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and len(node.input) > 2
        if arrays.keys().isdisjoint(names := (node.input[0], node.output[0]))
    )


def has_double_pair(model: onnx.ModelProto) -> bool:
    """True where ONNX Runtime merges two pairs of quantizations, or drops a clamp between."""
    producers = {node.output[0]: node for node in model.graph.node}
    for node in model.graph.node:
        before = producers.get(node.input[0]) if node.op_type == "QuantizeLinear" else None
        while before is not None and before.op_type in ("Clip", "Dropout", "Identity", "Relu"):
            before = producers.get(before.input[0])
        if before is not None and before.op_type == "DequantizeLinear":
            return True
    return False


def judge(
    ours: np.ndarray, name: str, arithmetic: str, said: Any, about: Any, peers: Any
) -> tuple[str, str]:
    """Compares one output."""
    theirs = {level: found[name] for level, found in peers.items() if found}
    meaning = said[name]
    dtypes = {x.dtype for x in theirs.values()} | (
        {meaning.value.dtype} if isinstance(meaning, Steps) else set()
    )
    shapes = {x.shape for x in theirs.values()} | {
        np.shape(meaning.value if isinstance(meaning, Real | Steps) else meaning)
    }
    ours = ours.astype(np.int64) if np.dtype(np.int64) in dtypes else ours  # JAX's are narrower
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
    if np.all(same):
        return "right", ""
    return ("departs", "") if np.all(inside) else ("wrong", _describe(ours, name, said, theirs))


def _describe(ours: np.ndarray, name: str, said: Any, theirs: Any) -> str:
    """Shows all values of an output."""
    found = {"ours": ours, "meaning": said[name]} | theirs
    return "\n  ".join([name, *(f"{who}: {_show(x)}" for who, x in found.items())])


def _show(x: Any) -> str:
    x = x.value if isinstance(x, Real | Steps) else x
    return str(np.asarray(x).astype(np.float64).ravel()[:24].tolist())


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
        # ONNX Runtime's Sigmoid is 0 where the right value is 2e-22
        return np.abs(ours.astype(np.float64) - wanted) <= room + 1e-20
    return ours == meaning

"""States of files whose caches a Concat makes longer, as Optimum writes them."""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax
from onnx import TensorProto, helper
from onnxruntime.quantization import QuantType, quantize_dynamic

import dmlax
import dmlax.onnx
from dmlax.onnx import peer
from support import onnx_files
from support.onnx_files import File

CACHES = ("past_key_values.0.key", "past_key_values.0.value")
ENCODER = ("past_key_values.0.encoder.key", "past_key_values.0.encoder.value")


def grown(positions: str = "input", has_mask: bool = True, encoder: bool = False) -> Any:
    """An attention whose keys and values a Concat appends, and one to the keys of an encoder.

    Positions are an input, or numbers that begin at the cache's size: of a Range, or of a Slice of
    embeddings. The "sum" adds the size to others, which no state knows.
    """
    rng, file = np.random.default_rng(0), File(21)

    def constant(*shape: int) -> str:
        return file.constant(rng.normal(0, 0.7, shape).astype(np.float32))

    def ints(*values: int) -> str:
        return file.constant(np.array(values))

    def scalar(x: int | float, dtype: Any = np.int64) -> str:
        return file.constant(np.array(x, dtype))

    def heads(x: str) -> str:
        part = node("Reshape", node("MatMul", x, constant(16, 16)), ints(0, 0, 2, 8))
        return node("Transpose", part, perm=[0, 2, 1, 3])

    def attend(q: str, k: str, v: str, seen: str) -> str:
        scores = node("MatMul", q, node("Transpose", k, perm=[0, 1, 3, 2]))
        low = scalar(-3e38, np.float32)
        scores = node("Add", scores, node("Where", seen, scalar(0, np.float32), low))
        y = node("MatMul", node("Softmax", scores, axis=-1), v)
        return node("Reshape", node("Transpose", y, perm=[0, 2, 1, 3]), ints(0, 0, 16))

    node = file.node
    rows = node("Gather", node("Shape", "input_ids"), scalar(1))
    past = node("Gather", node("Shape", CACHES[0]), scalar(2))
    total = node("Add", past, rows)
    places = node("Range", past, total, scalar(1))
    x = node("Gather", constant(32, 16), "input_ids")
    table, bounds = constant(64, 16), [node("Unsqueeze", n, ints(0)) for n in (past, total)]
    if positions == "embedded":
        embedded = node("Slice", table, *bounds)
    else:
        found = {
            "input": lambda: "position_ids",
            "range": lambda: node("Unsqueeze", places, ints(0)),
            "sum": lambda: node("Add", node("Range", scalar(0), rows, scalar(1)), past),
        }
        embedded = node("Gather", table, found[positions]())
    x = node("Add", x, embedded)
    for cache in CACHES:
        present = cache.replace("past_key_values", "present")
        concat = helper.make_node("Concat", [cache, heads(x)], [present], axis=-2)
        file.nodes.append(concat)
    keys = node("Range", scalar(0), total, scalar(1))
    seen = node("LessOrEqual", keys, node("Unsqueeze", places, ints(1)))
    if has_mask:
        mask = node("Unsqueeze", node("Cast", "attention_mask", to=9), ints(1, 2))
        seen = node("And", seen, mask)
    y = attend(heads(x), "present.0.key", "present.0.value", seen)
    if encoder:
        mask = node("Unsqueeze", node("Cast", "encoder_attention_mask", to=9), ints(1, 2))
        y = node("Add", y, attend(heads(y), *ENCODER, mask))
    file.nodes.append(helper.make_node("MatMul", [y, constant(16, 32)], ["scores"]))
    inputs: dict[str, Any] = {"encoder_attention_mask": (7, ["b", "e"])} if encoder else {}
    inputs |= {"input_ids": (7, ["b", "n"])}
    inputs |= {"attention_mask": (7, ["b", "t"])} if has_mask else {}
    inputs |= {"position_ids": (7, ["b", "n"])} if positions == "input" else {}
    inputs |= dict.fromkeys(CACHES, (1, ["b", 2, "p", 8]))
    inputs |= dict.fromkeys(ENCODER, (1, ["b", 2, "e", 8])) if encoder else {}
    outputs = ("scores", "present.0.key", "present.0.value")
    return onnx_files.model(file.nodes, inputs, outputs, file.constants, 21)


def merged(file: onnx.ModelProto) -> onnx.ModelProto:
    """Optimum's form of two decoders in one: a branch of an If, with dummies of constant keys."""
    graph, value = onnx.GraphProto(), helper.make_tensor_value_info
    graph.CopyFrom(file.graph)
    outputs = [value(x.name, TensorProto.FLOAT, None) for x in graph.output]
    outputs += [value(x.replace("past_key_values", "present"), 1, None) for x in ENCODER]
    dummy = helper.make_tensor("dummy", TensorProto.FLOAT, [0], [])
    names = {name: [x.name for x in outputs][start:] for name, start in (("then", 3), ("else", 0))}
    empty = {
        name: [helper.make_node("Constant", [], [x], value=dummy) for x in names[name]]
        for name in names
    }
    then = helper.make_graph([*graph.node, *empty["then"]], "t", [], outputs, graph.initializer)
    other = helper.make_graph(empty["else"], "e", [], outputs)
    branches = {"then_branch": then, "else_branch": other}
    node = helper.make_node("If", ["use_cache_branch"], [x.name for x in outputs], **branches)
    extra = [value("encoder_hidden_states", 1, ["b", "e", 16]), value("use_cache_branch", 9, [1])]
    whole = helper.make_graph([node], "merged", [*graph.input, *extra], outputs)
    return helper.make_model(whole, opset_imports=file.opset_import, ir_version=10)


@functools.cache
def files(positions: str, has_mask: bool, encoder: bool) -> tuple[dmlax.onnx.Model, Any]:
    file = grown(positions, has_mask, encoder)
    return dmlax.onnx.load(file), peer.start(file)


def wanted(session: Any, prompt: np.ndarray, others: Any = None) -> np.ndarray:
    """The scores of ONNX Runtime behind a prompt."""
    n, empty = len(prompt), np.zeros((1, 2, 0, 8), np.float32)
    feed = {"input_ids": prompt[None], "attention_mask": np.ones((1, n), np.int64)}
    feed |= {"position_ids": np.arange(n)[None], **dict.fromkeys(CACHES, empty), **(others or {})}
    return np.asarray(
        peer.run(session, {x.name: feed[x.name] for x in session.get_inputs()})["scores"][0, -1]
    )


@pytest.mark.parametrize(
    ("positions", "has_mask"), [("input", True), ("range", True), ("embedded", False)]
)
def test_caches_that_grow_keep_their_shape_in_a_state(positions: str, has_mask: bool) -> None:
    """In chunks, in a ragged batch and in a scan, up to the last place."""
    model, session = files(positions, has_mask, False)
    lengths, ids = [3, 9, 1], np.random.default_rng(1).integers(0, 32, (3, 12))
    outputs, state = model.prefill(model.init_state(3, 12), ids[:, :9], counts=lengths)
    for row, n, scores in zip(ids, lengths, outputs["scores"][:, -1], strict=True):
        np.testing.assert_allclose(scores, wanted(session, row[:n]), rtol=0, atol=5e-5)
    key = np.asarray(state.caches[CACHES[0]])
    assert all(key[i, :, :n].all() and not key[i, :, n:].any() for i, n in enumerate(lengths))
    new = np.stack([row[n : n + 3] for row, n in zip(ids, lengths, strict=True)])

    def body(state: dmlax.onnx.State, token: Any) -> tuple[Any, Any]:
        outputs, state = model.apply_step(model.params, state, token[:, None])
        return state, outputs["scores"][:, -1]

    state, found = jax.jit(lambda state: lax.scan(body, state, new.T.astype(np.int32)))(state)
    for i, (row, n) in enumerate(zip(ids, lengths, strict=True)):
        for step in range(3):
            want = wanted(session, row[: n + step + 1])
            np.testing.assert_allclose(found[step, i], want, rtol=0, atol=5e-5)
    assert state.caches[CACHES[0]].shape == (3, 2, 12, 8)
    with pytest.raises(dmlax.SpecError, match="state is full: it has 12 of 12 tokens"):
        model.step(state, ids[:, :1])


def keys_of(batch: int) -> dict[str, np.ndarray]:
    """An encoder's keys, values and mask."""
    rng = np.random.default_rng(3)
    keys = {name: rng.normal(0, 1, (batch, 2, 5, 8)).astype(np.float32) for name in ENCODER}
    mask = np.arange(5) < rng.integers(2, 6, (batch, 1))
    return {**keys, "encoder_attention_mask": mask.astype(np.int64)}


@pytest.mark.parametrize("is_merged", [False, True])
def test_an_encoders_keys_are_given_once_or_at_every_step(is_merged: bool) -> None:
    file, ids = grown("range", False, True), np.random.default_rng(1).integers(0, 32, (3, 7))
    session, others = peer.start(file), keys_of(3)
    constants = {"use_cache_branch": np.array([True])} if is_merged else None
    model = dmlax.onnx.load(merged(file) if is_merged else file, constants=constants)
    held = model.init_state(3, 9, others)
    assert held.inputs.keys() == others.keys()
    outputs, held = model.prefill(held, ids[:, :4])
    given, state = model.prefill(model.init_state(3, 9), input_ids=ids[:, :4], **others)
    for i in range(4, 7):
        for row in range(3):
            one = {name: x[row : row + 1] for name, x in others.items()}
            want = wanted(session, ids[row, :i], one)
            np.testing.assert_allclose(outputs["scores"][row, -1], want, rtol=0, atol=5e-5)
        assert outputs.keys() == {"scores"}
        np.testing.assert_array_equal(outputs["scores"], given["scores"])
        outputs, held = model.step(held, ids[:, i : i + 1])
        given, state = model.step(state, input_ids=ids[:, i : i + 1], **others)
    np.testing.assert_array_equal(held.inputs[ENCODER[0]], others[ENCODER[0]])


@pytest.mark.parametrize("batch", [1, 2])
def test_a_state_begins_with_the_caches_of_another_file(batch: int) -> None:
    """As of Optimum's decoder_model.onnx, which reads a prompt."""
    model, session = files("range", True, False)
    ids = np.random.default_rng(2).integers(0, 32, (batch, 6))
    empty = np.zeros((batch, 2, 0, 8), np.float32)
    feed = {"input_ids": ids[:, :5], "attention_mask": np.ones((batch, 5), np.int64)}
    first = peer.run(session, {**feed, **dict.fromkeys(CACHES, empty)})
    caches = {name: first[name.replace("past_key_values", "present")] for name in CACHES}
    state = model.init_state(batch, 8, caches)
    assert state.lengths.tolist() == [5] * batch
    outputs, state = model.step(state, ids[:, 5:])
    for row, scores in zip(ids, outputs["scores"][:, -1], strict=True):
        np.testing.assert_allclose(scores, wanted(session, row), rtol=0, atol=5e-5)


def test_a_prompt_is_one_chunk_if_its_range_quantizes_it(tmp_path: Path) -> None:
    path = str(tmp_path / "quantized.onnx")
    quantize_dynamic(grown("range", False), path, weight_type=QuantType.QInt8)
    model, ids = dmlax.onnx.load(path), np.random.default_rng(1).integers(0, 32, (1, 9))
    assert model.explain().after["DynamicQuantizeLinear"]
    outputs, state = model.prefill(model.init_state(1, 12), ids)
    whole, _ = model.step(model.init_state(1, 12), ids)
    np.testing.assert_allclose(outputs["scores"], whole["scores"][:, -1:], rtol=0, atol=5e-5)
    assert state.lengths.tolist() == [9]
    with pytest.raises(dmlax.SpecError, match="and the model takes whole chunks only"):
        model.prefill(model.init_state(1, 12), ids, counts=[8])


def test_a_mapped_state_without_room_is_nan() -> None:
    model, _ = files("range", False, False)
    _, state = model.step(model.init_state(1, 6), np.zeros((1, 4), np.int64))
    states = jax.tree.map(lambda *x: jnp.stack(x), state, model.init_state(1, 6))
    step = jax.vmap(lambda s: model.apply_step(model.params, s, jnp.zeros((1, 3), np.int32))[0])
    scores = np.asarray(jax.jit(step)(states)["scores"])
    assert np.isnan(scores[0]).all()
    assert np.isfinite(scores[1]).all()


def mixed() -> onnx.ModelProto:
    """A cache that grows beside one that a step replaces."""
    file = grown("range", False)
    names = ["x", "w", "", "past.1.conv"]
    node = helper.make_node("CausalConvWithState", names, ["y", "present.1.conv"],
        domain="com.microsoft", channels_last=1)  # fmt: skip
    file.graph.node.append(node)
    value = helper.make_tensor_value_info
    file.graph.input.extend([value("x", 1, ["b", "n", 8]), value("past.1.conv", 1, ["b", 2, 8])])
    file.graph.output.extend([value(name, 1, None) for name in ("y", "present.1.conv")])
    weight = onnx.numpy_helper.from_array(np.ones((8, 1, 3), np.float32), "w")
    file.graph.initializer.append(weight)
    file.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return file


def encoded() -> dmlax.onnx.Model:
    return files("range", False, True)[0]


IDS = np.zeros((1, 2), np.int64)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dmlax.onnx.load(grown("sum")).init_state(1, 8),
            "its caches grow, and its numbers depend on their size, as positions do that",
        ),
        (
            lambda: dmlax.onnx.load(mixed()).init_state(1, 8),
            "key, which a Concat makes longer, and another kind of cache: no state has both",
        ),
        (
            lambda: encoded().init_state(1, 8, {"keys": 1}),
            "inputs has 'keys', expected some of encoder_attention_mask, input_ids, past_key_v",
        ),
        (
            lambda: encoded().init_state(1, 8, {ENCODER[0]: np.zeros((1, 3, 5, 8), np.float32)}),
            r"encoder.key is float32\[1,3,5,8\], expected float32\[b,2,e,8\]",
        ),
        (
            lambda: encoded().init_state(2, 8, keys_of(1)),
            "inputs past_key_values.0.encoder.key has 1 sequences, expected 2",
        ),
        (
            lambda: encoded().init_state(1, 8, {CACHES[0]: np.zeros((1, 2, 9, 8), np.float32)}),
            r"inputs past_key_values.0.key is float32\[1,2,9,8\], which does not fit into",
        ),
        (
            lambda: encoded().init_state(1, 8, {CACHES[0]: np.zeros((1, 2, 3, 8), np.float32)}),
            r"inputs has caches of \[3\] tokens, expected all of them with one length",
        ),
        (
            lambda: encoded().step(encoded().init_state(1, 8), IDS),
            "1 inputs are given, expected 4",
        ),
        (
            lambda: encoded().apply_step(
                encoded().params, encoded().init_state(1, 1, keys_of(1)), IDS
            ),
            "state has a capacity of 1, and the chunk 2 rows",
        ),
        (
            lambda: encoded().step(
                encoded().init_state(2, 8), {"input_ids": np.repeat(IDS, 2, 0), **keys_of(1)}
            ),
            r"encoder_attention_mask is int32\[1,5\], and the state has 2 sequences",
        ),
        (
            lambda: dmlax.onnx.load(
                grown("range", False), input_shapes={"input_ids": [2, "n"]}
            ).init_state(2, 8),
            r"batch is 2, and the model has an input int64\[2,n\] that fixes it: give load a dyn",
        ),
    ],
)  # fmt: skip
def test_wrong_states_are_refused(call: Any, message: str) -> None:
    with pytest.raises((dmlax.SpecError, dmlax.UnsupportedError), match=message):
        call()

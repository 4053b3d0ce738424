"""States: a language model in loops, beside ONNX Runtime with growing caches."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from onnx import helper, numpy_helper

import dmlax
import dmlax.onnx
from dmlax.onnx import check, decoding, peer
from support import NATIVE, onnx_files
from support.onnx_files import File
from tools import examples

tiny_decoder = examples.load("tiny_decoder")
SIZES = tiny_decoder.Sizes()
FORMS = {
    "float": {},
    "window": {"window": 5},
    "4 bits": {"bits": 4, "level": 0},
    "4 bits, level 4": {"bits": 4},
    "8 bits, level 4": {"bits": 8},
}


@functools.cache
def file_of(form: str) -> onnx.ModelProto:
    options = dict(FORMS[form])
    sizes = SIZES._replace(window=options.pop("window", 0))
    return tiny_decoder.make_file(sizes, sizes.random_weights(), **options)


@functools.cache
def model_of(form: str) -> dmlax.onnx.Model:
    return dmlax.onnx.load(file_of(form))


@functools.cache
def greedy(form: str, prompt: tuple[int, ...], steps: int) -> tuple[list[int], np.ndarray]:
    """The tokens and scores of ONNX Runtime, whose caches grow, or are windows."""
    session = peer.start(file_of(form))
    places = 9 if form == "window" else 0
    names = [x.name for x in session.get_inputs() if x.name.startswith("past")]
    caches = {name: np.zeros((1, 2, places, 16), np.float32) for name in names}
    ids, count, tokens, scores = np.array([prompt]), 0, [], []
    for _ in range(steps):
        count += ids.shape[1]
        mask = np.ones((1, count), np.int64)
        outputs = peer.run(session, {"input_ids": ids, "attention_mask": mask, **caches})
        caches = {name: outputs[name.replace("past_key_values", "present")] for name in names}
        scores.append(outputs["scores"][0, -1])
        tokens.append(int(scores[-1].argmax()))
        ids = np.array([tokens[-1:]])
    return tokens, np.array(scores)


def prompt_of(length: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng(length).integers(0, SIZES.vocabulary, length).tolist())


@pytest.mark.parametrize("form", FORMS)
def test_greedy_tokens_are_onnx_runtimes(form: str) -> None:
    tokens, wanted = greedy(form, prompt_of(21), 64)
    model = model_of(form)
    outputs, state = model.prefill(model.init_state(1, 96), np.array([prompt_of(21)]))
    scores = [outputs["scores"][0, -1]]
    for token in tokens[:-1]:  # ONNX Runtime's, so that a flipped rounding does not change all
        outputs, state = model.step(state, np.array([[token]]))
        scores.append(outputs["scores"][0, -1])
    assert state.lengths.tolist() == [84]
    found = np.array(scores)
    errors = np.abs(found - wanted).max(1) / np.abs(wanted).max()
    if "level 4" not in form:
        assert errors.max() < 2e-6
        assert (found.argmax(1) == tokens).all()
    assert np.median(errors) < 2e-6
    assert (found.argmax(1) == tokens).mean() > 0.9


def loop(model: dmlax.onnx.Model, steps: int) -> Any:
    """A greedy loop in one program."""

    def run(params: Any, state: dmlax.onnx.State, token: Any) -> tuple[Any, Any]:
        def body(carry: Any, _: None) -> tuple[Any, Any]:
            state, token = carry
            outputs, state = model.apply_step(params, state, token[:, None])
            token = outputs["scores"][:, -1].argmax(-1).astype(np.int32)
            return (state, token), token

        (state, _), tokens = lax.scan(body, (state, token), None, steps)
        return state, tokens.T

    return run


@pytest.mark.parametrize("form", ["float", "window"])
def test_one_program_loops_over_a_ragged_batch(form: str) -> None:
    """A scan, with prompts of different lengths in one padded chunk."""
    model, lengths = model_of(form), [3, 21, 8]
    wanted = [greedy(form, prompt_of(n), 12)[0] for n in lengths]
    ids = np.zeros((3, 21), np.int64)
    for row, n in zip(ids, lengths, strict=True):
        row[:n] = prompt_of(n)
    outputs, state = model.prefill(model.init_state(3, 40), ids, counts=lengths)
    assert state.lengths.tolist() == lengths
    first = jnp.asarray(outputs["scores"][:, -1].argmax(-1), np.int32)
    state, tokens = jax.jit(loop(model, 11), donate_argnums=1)(model.params, state, first)
    assert np.concatenate([first[:, None], tokens], 1).tolist() == wanted
    assert state.lengths.tolist() == [n + 11 for n in lengths]


@pytest.mark.parametrize("form", ["window", "4 bits"])
def test_a_state_in_jaxs_strict_modes_with_64_bit_types(form: str) -> None:
    tokens, _ = greedy(form, prompt_of(8), 12)
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        model = dmlax.onnx.load(file_of(form))
        outputs, state = model.prefill(model.init_state(1, 32), np.array([prompt_of(8)]))
        first = outputs["scores"][:, -1].argmax(-1).astype(np.int32)
        _, others = jax.jit(loop(model, 6))(model.params, state, first)
    assert [*first.tolist(), *others[0].tolist()] == tokens[:7]


def test_a_loop_ends_at_a_token() -> None:
    model, (tokens, _) = model_of("float"), greedy("float", prompt_of(8), 12)
    end = tokens[-1]

    @jax.jit
    def run(params: Any, state: dmlax.onnx.State, token: Any) -> Any:
        def body(carry: Any) -> Any:
            state, token, count = carry
            outputs, state = model.apply_step(params, state, token[None, None])
            return state, outputs["scores"][0, -1].argmax().astype(np.int32), count + 1

        return lax.while_loop(lambda x: x[1] != end, body, (state, token, 1))

    outputs, state = model.prefill(model.init_state(1, 32), np.array([prompt_of(8)]))
    first = outputs["scores"][0, -1].argmax().astype(np.int32)
    state, token, count = run(model.params, state, first)
    assert int(token) == end
    assert int(count) == tokens.index(end) + 1


@pytest.mark.parametrize("capacity", [32, 300])
def test_a_state_is_mapped(capacity: int) -> None:
    """Each sequence is a batch of one, with a state of its own."""
    model, lengths = model_of("float"), [3, 8]
    states, firsts = [], []
    for n in lengths:
        outputs, state = model.prefill(model.init_state(1, capacity), np.array([prompt_of(n)]))
        states.append(state)
        firsts.append(outputs["scores"][:, -1].argmax(-1).astype(np.int32))
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *states)
    mapped = jax.jit(jax.vmap(loop(model, 6), in_axes=(None, 0, 0)))
    _, tokens = mapped(model.params, stacked, jnp.stack(firsts))
    wanted = [greedy("float", prompt_of(n), 12)[0][1:7] for n in lengths]
    assert tokens[:, 0].tolist() == wanted


@pytest.mark.parametrize("form", ["float", "4 bits"])
def test_a_batch_is_split_over_devices(form: str) -> None:
    model, lengths = model_of(form), [3, 8, 5, 21]
    mesh = jax.make_mesh((4,), ("batch",), axis_types=(AxisType.Auto,))
    split, everywhere = (NamedSharding(mesh, PartitionSpec(x)) for x in ("batch", None))
    ids = np.zeros((4, 21), np.int64)
    for row, n in zip(ids, lengths, strict=True):
        row[:n] = prompt_of(n)
    outputs, state = model.prefill(model.init_state(4, 32), ids, counts=lengths)
    first = jnp.asarray(outputs["scores"][:, -1].argmax(-1), np.int32)
    one = jax.jit(loop(model, 6))(model.params, state, first)[1]
    params = jax.device_put(model.params, everywhere)
    state, first = jax.device_put((state, first), split)
    compiled = jax.jit(loop(model, 6)).lower(params, state, first).compile()
    following, tokens = compiled(params, state, first)
    np.testing.assert_array_equal(tokens, one)
    products = 9 if form == "4 bits" and NATIVE else 0  # whose kernels run on each device's rows
    assert compiled.as_text().count('"dmlax_block_product') == products
    cache = following.caches["past_key_values.0.key"]
    assert cache.sharding.spec[0] == "batch"


@pytest.mark.parametrize("form", ["float", "4 bits, level 4"])
def test_the_heads_of_caches_are_split_over_devices(form: str) -> None:
    """Each device attends with its heads, in the kernel, to the same bits."""
    model = model_of(form)
    outputs, state = model.prefill(model.init_state(1, 300), np.array([prompt_of(21)]))
    token = jnp.asarray(outputs["scores"][:, -1:].argmax(-1), np.int32)
    wanted, following = jax.jit(model.apply_step)(model.params, state, token)
    mesh = jax.make_mesh((SIZES.groups,), ("heads",), axis_types=(AxisType.Auto,))
    split, everywhere = (NamedSharding(mesh, PartitionSpec(*x)) for x in ((None, "heads"), ()))
    caches = {name: jax.device_put(x, split) for name, x in state.caches.items()}
    params, token, lengths = jax.device_put((model.params, token, state.lengths), everywhere)
    state = dataclasses.replace(state, caches=caches, lengths=lengths)
    compiled = jax.jit(model.apply_step).lower(params, state, token).compile()
    found, state = compiled(params, state, token)
    np.testing.assert_array_equal(found["scores"], wanted["scores"])
    for name, cache in state.caches.items():
        np.testing.assert_array_equal(cache, following.caches[name])
        assert cache.sharding.spec[1] == "heads"
    products = '"dmlax_level_product' if form != "float" else '"dmlax_float_convolution'
    for kernel, count in (('"dmlax_cache_attention', SIZES.layers), (products, 9)):
        assert compiled.as_text().count(kernel) == (count if NATIVE else 0)


def test_few_programs_serve_prompts_of_every_length() -> None:
    model = dmlax.onnx.load(file_of("float"))
    for n in (1, 2, 5, 17, 21, 40, 64, 66, 70, 100, 150, 259, 300):
        outputs, state = model.prefill(model.init_state(1, 310), np.array([prompt_of(n)]))
        _, scores = greedy("float", prompt_of(n), 1)
        np.testing.assert_allclose(outputs["scores"][0, -1], scores[0], rtol=0, atol=2e-5)
        assert int(state.lengths[0]) == n
    assert model._jitted_last._cache_size() <= len(decoding.BUCKETS)


@pytest.mark.parametrize("is_sliced", [False, True])
def test_the_scores_of_the_last_row_alone(is_sliced: bool) -> None:
    """As genai's builder writes with `prune_lm_head`: padding would be the last row."""
    file = onnx.ModelProto()
    file.CopyFrom(file_of("float"))
    (last,) = (node for node in file.graph.node if node.output[0] == "scores")
    arrays = {"first": [-1], "stop": [1 << 62], "rows": [1], "row": -1}
    file.graph.initializer.extend(
        numpy_helper.from_array(np.array(x), name) for name, x in arrays.items()
    )
    names = ("first", "stop", "rows") if is_sliced else ("row",)
    options = {} if is_sliced else {"axis": 1}
    op = "Slice" if is_sliced else "Gather"
    last.CopyFrom(helper.make_node(op, [last.input[0], *names], ["scores"], **options))
    model, (tokens, scores) = dmlax.onnx.load(file), greedy("float", prompt_of(21), 2)
    outputs, state = model.prefill(model.init_state(1, 32), np.array([prompt_of(21)]))
    found = outputs["scores"].reshape(-1)
    np.testing.assert_allclose(found, scores[0], rtol=0, atol=2e-5)
    outputs, state = model.step(state, np.array([tokens[:1]]))
    np.testing.assert_allclose(outputs["scores"].reshape(-1), scores[1], rtol=0, atol=2e-5)
    with pytest.raises(dmlax.SpecError, match="and the model takes whole chunks only"):
        model.step(state, np.zeros((1, 2), np.int64), counts=[1])


def test_chunks_of_any_size_give_one_state() -> None:
    """Also behind a prompt, padded to more rows than are valid, and up to the last place."""
    model, ids = model_of("float"), np.array([prompt_of(21), prompt_of(21)[::-1]])
    whole, state = model.step(model.init_state(2, 21), ids)
    parts, other, counts = [], model.init_state(2, 21), [5, 0, 1, 7, 8]
    for start, count in zip(np.cumsum([0, *counts]), counts, strict=False):
        chunk = np.zeros((2, 8), np.int64)
        chunk[:, :count] = ids[:, start : start + count]
        outputs, other = model.step(other, {"input_ids": chunk}, counts=[count, count])
        parts.append(np.asarray(outputs["scores"])[:, :count])
    np.testing.assert_allclose(np.concatenate(parts, 1), whole["scores"], rtol=0, atol=2e-5)
    for name, cache in state.caches.items():
        np.testing.assert_allclose(cache, other.caches[name], rtol=0, atol=2e-5)
    with pytest.raises(dmlax.SpecError, match="state is full: it has 21 of 21 tokens, and the chu"):
        model.step(other, ids[:, :1])


def test_a_sequence_without_room_is_nan_in_a_loop() -> None:
    model = model_of("float")
    _, state = model.step(model.init_state(2, 8), np.zeros((2, 6), np.int64))
    state = dataclasses.replace(state, lengths=state.lengths - jnp.array([0, 3]))
    run = jax.jit(lambda p, s: model.apply_step(p, s, jnp.zeros((2, 3), np.int32))[0]["scores"])
    scores = np.asarray(run(model.params, state))
    assert np.isnan(scores[0]).all()
    assert np.isfinite(scores[1]).all()


def test_a_step_is_donated_and_writes_in_place() -> None:
    model = model_of("float")
    state = model.init_state(1, 500)
    _, following = model.step(state, np.zeros((1, 1), np.int64))
    assert state.caches["past_key_values.0.key"].is_deleted()
    assert repr(following) == "State(4 caches, lengths [1] of 500)"
    ids = jax.ShapeDtypeStruct((1, 1), np.int32)
    lowered = model._jitted_step.lower(model.params, following, {"input_ids": ids}, None)
    memory = lowered.compile().memory_analysis()
    assert memory.alias_size_in_bytes >= sum(x.nbytes for x in following.caches.values())
    assert memory.temp_size_in_bytes < 500 * 16 * 2 * 4 * 2  # two caches take so much


@pytest.mark.parametrize("columns", [16, 8])
def test_a_head_size_without_a_number(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The builder names it. Tables of whole heads save a trace; others rotate a part of a head."""
    file, sizes = onnx.ModelProto(), SIZES._replace(layers=1, head=32)
    file.CopyFrom(tiny_decoder.make_file(sizes, sizes.random_weights()))
    for x in file.graph.input[2:]:
        x.type.tensor_type.shape.dim[3].dim_param = "kv_cache_dim"
    for x in file.graph.initializer:
        if x.name in ("cosines", "sines"):
            part = np.ascontiguousarray(numpy_helper.to_array(x)[:, :columns])
            x.CopyFrom(numpy_helper.from_array(part, x.name))
    traces, trace = [], check._trace
    monkeypatch.setattr(check, "_trace", lambda *x: traces.append(1) or trace(*x))
    model = dmlax.onnx.load(file)
    assert model._assumed.facts == ("kv_cache_dim == 32",)
    assert not model._assumed.multiples
    assert len(traces) == 1 or columns == 8
    outputs, _ = model.step(model.init_state(1, 8), np.array([prompt_of(5)]))
    feed = {"input_ids": np.array([prompt_of(5)]), "attention_mask": np.ones((1, 5), np.int64)}
    empty = np.zeros((1, 2, 0, 32), np.float32)
    feed |= {x.name: empty for x in file.graph.input[2:]}
    wanted = peer.run(peer.start(file), feed)["scores"]
    np.testing.assert_allclose(outputs["scores"], wanted, rtol=0, atol=2e-5)


def recurrent() -> onnx.ModelProto:
    """A convolution and a linear attention, whose states every step replaces."""
    rng = np.random.default_rng(0)
    file = File(21)
    w = file.constant(rng.normal(0, 1, (8, 1, 3)).astype(np.float32))
    nodes = [
        helper.make_node("CausalConvWithState", ["x", w, "", "past.0.conv"],
            ["y", "present.0.conv"], domain="com.microsoft", channels_last=1),
        helper.make_node("LinearAttention", ["y", "y", "y", "past.0.state"],
            ["z", "present.0.state"], domain="com.microsoft", update_rule="linear",
            q_num_heads=2, kv_num_heads=2),
    ]  # fmt: skip
    inputs = {"x": (1, ["b", "n", 8]), "past.0.conv": (1, ["b", 2, 8])}
    inputs["past.0.state"] = (1, ["b", 2, 4, 4])
    outputs = ("z", "present.0.conv", "present.0.state")
    return onnx_files.model(nodes, inputs, outputs, file.constants, 21)


def test_states_that_every_step_replaces() -> None:
    """Whole chunks only: a row that is no token would change them."""
    file = recurrent()
    model = dmlax.onnx.load(file)
    x = np.random.default_rng(1).normal(0, 0.5, (1, 90, 8)).astype(np.float32)
    zeros = {"past.0.conv": np.zeros((1, 2, 8)), "past.0.state": np.zeros((1, 2, 4, 4))}
    zeros = {name: array.astype(np.float32) for name, array in zeros.items()}
    wanted = peer.run(peer.start(file), {"x": x, **zeros})
    outputs, state = model.prefill(model.init_state(1, 100), x)
    bound = 1e-5 * np.abs(wanted["z"]).max()
    np.testing.assert_allclose(outputs["z"], wanted["z"][:, -1:], rtol=0, atol=bound)
    for name in zeros:
        want = wanted[name.replace("past", "present")]
        np.testing.assert_allclose(state.caches[name], want, rtol=1e-5, atol=1e-5)
    with pytest.raises(
        dmlax.SpecError, match="counts is given, and the model takes whole chunks only"
    ):
        model.step(state, x[:, :4], counts=[2])


def test_a_past_whose_length_is_an_input() -> None:
    """MultiHeadAttention with one buffer for past and present."""
    names = ["q", "k", "v", "", "", "", "past.0.key", "past.0.value", "past_sequence_length"]
    node = helper.make_node("MultiHeadAttention", names, ["y", "present.0.key", "present.0.value"],
        domain="com.microsoft", num_heads=2, unidirectional=1)  # fmt: skip
    inputs = dict.fromkeys("qkv", (1, ["b", "n", 16]))
    inputs |= dict.fromkeys(names[6:8], (1, ["b", 2, "m", 8])) | {names[8]: (6, [1])}
    file = onnx_files.model([node], inputs, node.output, opset=21)
    model, rng = dmlax.onnx.load(file), np.random.default_rng(0)
    rows = [rng.normal(0, 1, (2, 9, 16)).astype(np.float32) for _ in range(3)]
    caches = {name: np.zeros((2, 2, 12, 8), np.float32) for name in names[6:8]}
    given = dict(zip("qkv", rows, strict=True)) | caches | {names[8]: np.zeros(1, np.int32)}
    wanted = peer.run(peer.start(file), given)["y"]
    state, found = model.init_state(2, 12), []
    for start, stop in ((0, 4), (4, 5), (5, 9)):
        chunk = [x[:, start:stop] for x in rows]
        outputs, state = model.step(state, *chunk)
        found.append(outputs["y"])
    np.testing.assert_allclose(np.concatenate(found, 1), wanted, rtol=0, atol=1e-5)


def unpaired() -> onnx.ModelProto:
    file = recurrent()
    file.graph.output[1].name = file.graph.node[0].output[1] = "state.0.conv"
    return file


IDS, ONES = np.zeros((1, 2), np.int64), np.ones((1, 9), np.int64)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.init_state(1, 513), "capacity is 513, and the model has angles of 512 positi"),
        (lambda m: m.init_state(0, 8), "batch is 0"),
        (lambda m: m.step(m.init_state(1, 8), np.zeros((1, 9), np.int64)), "state is full"),
        (lambda m: m.step(m.init_state(2, 8), IDS), r"int32\[1,2\], and the state has 2"),
        (lambda m: m.step({"a": 1}, IDS), "state is a dict, expected one of init_state"),
        (lambda m: m.prefill({"a": 1}, IDS), "state is a dict, expected one of init_state"),
        (lambda m: m.prefill(m.init_state(1, 8), IDS[0]), r"is int32\[2\], expected int64\[batch"),
        (lambda m: m.prefill(m.init_state(1, 8), 3), r"input_ids is int\d+\[\], expected"),
        (lambda m: m.prefill(m.init_state(1, 8), IDS, counts="a"), "counts is a, expected 1 integ"),
        (lambda m: m.prefill(m.init_state(1, 8), IDS[:, :0]), "the prompt has no row, and prefill"),
        (lambda m: m.prefill(m.init_state(1, 8), IDS, counts=[0]), "has no row.*: give a sequence"),
        (lambda m: [m.step(s, IDS) for s in [m.init_state(1, 8)] * 2], "state was donated"),
        (
            lambda m: m.step(m.init_state(1, 8), input_ids=IDS, attention_mask=ONES),
            r"key becomes float32\[1,2,9,16\] by the inputs, expected \[1, 2, 8, 16\]: give a mask",
        ),
        (lambda m: m.step(m.init_state(1, 8), IDS, counts=[3]), r"counts is \[3\], expected 1 int"),
        (lambda m: m.step(m.init_state(1, 8)), "0 inputs are given, expected 1"),
        (lambda m: m.step(m.init_state(1, 8), IDS, IDS), "2 inputs are given, expected 1"),
        (
            lambda m: m.step(m.init_state(1, 8), {"input_ids": IDS, "past": 1}),
            "past is no input of a step, expected input_ids",
        ),
        (
            lambda m: m.step(dataclasses.replace(m.init_state(1, 8), capacity=9), IDS),
            r"past_key_values.0.key is float32\[1,2,8,16\], expected float32\[1,2,9,16\]",
        ),
        (
            lambda m: m.step(dmlax.onnx.load(recurrent()).init_state(1, 8), IDS),
            "state has the caches",
        ),
        (
            lambda m: dmlax.onnx.load(unpaired()).init_state(1, 8),
            "has the input past.0.conv, and no output present.0.conv of it",
        ),
    ],
)  # fmt: skip
def test_wrong_states_are_refused(call: Any, message: str) -> None:
    with pytest.raises((dmlax.SpecError, dmlax.UnsupportedError), match=message):
        call(model_of("float"))


def test_a_model_without_caches_has_no_state() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    model = dmlax.onnx.load(onnx_files.model([node], {"x": (1, [2])}, ["y"]))
    with pytest.raises(dmlax.SpecError, match=r"no input past\.\.\. with an output present"):
        model.init_state(1, 8)

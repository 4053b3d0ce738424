"""A small language model: trained in JAX, written with caches, quantized to 4 bits, and decoded.

    python docs/examples/language_model.py --steps 1500

Needs onnx, onnxruntime and rich besides dmlax, and tiny_decoder.py beside it. It learns the
docstrings of NumPy, letter by letter.
"""

import argparse
import inspect
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from jax import Array, lax
from rich.progress import track

import dmlax.onnx
import tiny_decoder

SIZES = tiny_decoder.Sizes()
ROWS = 96  # of a text to train with


# The float model -------------------------------------------------------------------------------


def rotate(x: Array, cosines: Array, sines: Array) -> Array:
    """Rotates the halves of every head by the angles of its place."""
    first, second = jnp.split(x, 2, axis=-1)
    c, s = cosines[: x.shape[1], None], sines[: x.shape[1], None]
    return jnp.concatenate([first * c - second * s, second * c + first * s], -1)


def scores_of(weights: dict[str, Array], ids: Array) -> Array:
    """The scores of every next letter; the file of `tiny_decoder` computes the same."""
    heads, groups, angles = SIZES.heads, SIZES.groups, SIZES.angles()
    rows, causal = ids.shape[1], jnp.tri(ids.shape[1], dtype=bool)

    def norm(x: Array, name: str) -> Array:
        return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weights[name]

    x = weights["embedding"][ids]
    for i in range(SIZES.layers):
        merged = (norm(x, f"norm_a.{i}") @ weights[f"qkv.{i}"]).reshape(*ids.shape, -1, SIZES.head)
        q, k, v = jnp.split(merged, (heads, heads + groups), axis=2)
        q, k = (rotate(part, angles["cosines"], angles["sines"]) for part in (q, k))
        k, v = (jnp.repeat(part, heads // groups, axis=2) for part in (k, v))
        logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / SIZES.head**0.5
        shares = jax.nn.softmax(jnp.where(causal, logits, -jnp.inf))
        y = jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(-1, rows, heads * SIZES.head)
        x = x + y @ weights[f"out.{i}"]
        gate, up = jnp.split(norm(x, f"norm_b.{i}") @ weights[f"gate_up.{i}"], 2, axis=-1)
        x = x + (jax.nn.silu(gate) * up) @ weights[f"down.{i}"]
    return norm(x, "norm") @ weights["logits"]


def text() -> np.ndarray:
    """The letters of NumPy's docstrings."""
    names = sorted(name for name in np.__all__ if callable(getattr(np, name)))
    pages = (inspect.getdoc(getattr(np, name)) or "" for name in names)
    return np.array([ord(x) for x in "\n\n".join(pages) if ord(x) < SIZES.vocabulary], np.int32)


def train(letters: np.ndarray, steps: int) -> tuple[dict[str, np.ndarray], float]:
    """Adam on random pieces of a text; returns the weights, and the loss of the last pieces."""

    def loss(weights: Any, pieces: Array) -> Array:
        scores = jax.nn.log_softmax(scores_of(weights, pieces[:, :-1]))
        return -jnp.take_along_axis(scores, pieces[:, 1:, None], 2).mean()

    @jax.jit
    def step(i: Array, state: Any, pieces: Array) -> Any:
        weights, first, second = state
        value, slope = jax.value_and_grad(loss)(weights, pieces)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
        second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, slope)
        rate = 4e-3 * (1 - i / steps)
        weights = jax.tree.map(
            lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-6), weights, first, second
        )
        return value, (weights, first, second)

    rng, value = np.random.default_rng(0), jnp.float32(0)
    weights = jax.tree.map(jnp.asarray, SIZES.random_weights())
    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = (weights, zeros, zeros)
    for i in track(range(steps), "training", disable=not sys.stderr.isatty()):
        starts = rng.integers(0, len(letters) - ROWS, 24)
        value, state = step(jnp.float32(i), state, letters[starts[:, None] + np.arange(ROWS)])
    return jax.tree.map(np.asarray, state[0]), float(value)


# The loop --------------------------------------------------------------------------------------


def generate(
    model: dmlax.onnx.Model, prompts: Sequence[str], count: int, temperature: float = 0.0
) -> np.ndarray:
    """Continues prompts of different lengths, in one batch; 16 tokens are one program."""

    @jax.jit
    def some(params: Any, state: Any, token: Array, key: Array) -> Any:
        def body(carry: Any, _: None) -> Any:
            state, token, key = carry
            outputs, state = model.apply_step(params, state, token[:, None])
            scores, (key, now) = outputs["scores"][:, -1], jax.random.split(key)
            sampled = jax.random.categorical(now, scores / max(temperature, 1e-6))
            chosen = (sampled if temperature else scores.argmax(-1)).astype(np.int32)
            return (state, chosen, key), token

        return lax.scan(body, (state, token, key), None, length=16)

    lengths = [len(prompt) for prompt in prompts]
    ids = np.array([[ord(x) for x in prompt.ljust(max(lengths))] for prompt in prompts])
    state = model.init_state(len(prompts), max(lengths) + count + 16)
    outputs, state = model.prefill(state, ids, counts=lengths)
    token, parts = outputs["scores"][:, -1].argmax(-1).astype(np.int32), []
    carry = (state, token, jax.random.key(0))
    for _ in track(range(0, count, 16), "decoding", disable=not sys.stderr.isatty()):
        carry, tokens = some(model.params, *carry)
        parts.append(tokens.T)
    return np.concatenate(parts, axis=1)[:, :count]


# Both of them ----------------------------------------------------------------------------------


def in_onnxruntime(file: onnx.ModelProto, prompt: str, count: int) -> np.ndarray:
    """The greedy tokens of ONNX Runtime, whose caches grow."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        file.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [x.name for x in session.get_outputs()]
    caches = {
        x.name: np.zeros((1, SIZES.groups, 0, SIZES.head), np.float32)
        for x in session.get_inputs()
        if x.name.startswith("past")
    }
    ids, tokens = np.array([[ord(x) for x in prompt]]), list[int]()
    for _ in range(count):
        mask = np.ones((1, len(prompt) + len(tokens)), np.int64)
        found = session.run(None, {"input_ids": ids, "attention_mask": mask, **caches})
        outputs = dict(zip(names, found, strict=True))
        caches = {x: outputs[x.replace("past_key_values", "present")] for x in caches}
        tokens.append(int(outputs["scores"][0, -1].argmax()))
        ids = np.array([tokens[-1:]])
    return np.array(tokens)


class Record(NamedTuple):
    """The losses, the differences and the texts that the example prints."""

    loss: float
    differing: dict[str, int]  # tokens, of those of ONNX Runtime, by file
    samples: list[str]


def main(arguments: Sequence[str] = ()) -> Record:
    """Trains, writes, quantizes and decodes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--tokens", type=int, default=64)
    chosen = parser.parse_args(arguments)
    weights, loss = train(text(), chosen.steps)
    print(f"loss  {loss:.2f}")
    prompts = ["Return the ", "Parameters\n----------\nx : ", "See"]
    differing, model = dict[str, int](), None
    for name, options in (
        ("float32", {}),
        ("4 bits", {"bits": 4, "level": 0}),
        ("4 bits, level 4", {"bits": 4}),
    ):
        file = tiny_decoder.make_file(SIZES, weights, **options)
        model = dmlax.onnx.load(file)
        tokens = generate(model, prompts, chosen.tokens)
        others = [in_onnxruntime(file, prompt, chosen.tokens) for prompt in prompts]
        differing[name] = int((tokens != np.array(others)).sum())
        print(f"{name:16}  {differing[name]} of {tokens.size} tokens differ from ONNX Runtime's")
    assert model is not None
    tokens = generate(model, prompts, chosen.tokens, temperature=0.7)
    samples = ["".join(map(chr, row)) for row in tokens]
    for prompt, sample in zip(prompts, samples, strict=True):
        print(repr(prompt + sample))
    return Record(loss, differing, samples)


if __name__ == "__main__":
    main(sys.argv[1:])

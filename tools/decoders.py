"""Tokens of language models beside ONNX Runtime's, and the roundings that make them differ.

    python -m tools.decoders --train          trains, quantizes and compares; some minutes
    python -m tools.decoders a/model.onnx ... compares files (without windows)

Needs onnx and onnxruntime, and onnx_ir and rich to train: the decoder and the text are those of
docs/examples/language_model.py, and ONNX Runtime's quantizer of MatMulNBits writes the files.

A step is fed with ONNX Runtime's token and its caches, so that only its own roundings can flip.
A flip is an integer of the input of a MatMulNBits at level 4 that differs from ONNX Runtime's. "At
the first flip" is the largest error of the input of the step's first product with a flip.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import onnx
from onnx import helper

import dmlax.onnx
from dmlax.onnx import peer

_EXAMPLES = Path(__file__).parents[1] / "docs/examples"
_HEADER = ("file", "own tokens equal", "fed: argmax equal", "steps without flips", "their error")
_FLIPS = ("steps with flips", "their error", "at the first flip", "differing argmax without a flip")
CAPACITY = 128
Arrays = Mapping[str, np.ndarray]


class Product(NamedTuple):
    """A MatMulNBits at level 4."""

    input: str
    block: int


class Step(NamedTuple):
    """A step of both: the error of the scores, and of the first product whose integers differ."""

    error: float
    is_same_token: bool
    flip: float | None


def relative(found: Any, wanted: Any) -> float:
    """The largest error by the largest magnitude."""
    error = np.abs(np.asarray(found, np.float64) - wanted).max()
    return float(error / max(np.abs(np.asarray(wanted, np.float64)).max(), 1e-30))


def rounded(x: np.ndarray, block: int) -> np.ndarray:
    """The integers of the rows of an input, in blocks."""
    rows = np.asarray(x, np.float32).reshape(-1, x.shape[-1])
    rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % block)))
    blocks = rows.reshape(len(rows), -1, block)
    largest = np.abs(blocks).max(-1, keepdims=True)
    return np.rint(blocks * (127 / np.maximum(largest, np.float32(1e-30))))


class Decoder:
    """A file in both: ONNX Runtime with caches that grow, dmlax with caches of one shape."""

    def __init__(self, path: str, count: int = 64) -> None:
        file = onnx.load(path)
        self.products = [
            Product(node.input[0], values["block_size"])
            for node in file.graph.node
            if node.op_type == "MatMulNBits"
            for values in [{x.name: helper.get_attribute_value(x) for x in node.attribute}]
            if values.get("accuracy_level") == 4
        ]
        self.inner = tuple(dict.fromkeys(x.input for x in self.products))
        self.scores = file.graph.output[0].name
        shown = {x.name for x in (*file.graph.output, *file.graph.input)}
        for name in self.inner:
            if name not in shown:
                file.graph.output.append(helper.make_empty_tensor_value_info(name))
        self.count, self.session = count, peer.start(path)
        self.inner_session = peer.start(file) if self.inner else self.session
        self.inputs = {x.name: x for x in self.session.get_inputs()}
        self.model = dmlax.onnx.load(path)
        self.apply = jax.jit(self.model.apply, static_argnames="outputs")
        shapes = {name: x.shape for name, x in self.model.init_state(1, 1).caches.items()}
        self.empty = {name: np.zeros((1, x[1], 0, x[3]), np.float32) for name, x in shapes.items()}

    def feed(self, ids: np.ndarray, start: int, places: int) -> dict[str, np.ndarray]:
        """The tokens, the mask and the positions of a step."""
        stop = start + ids.shape[1]
        mask = (np.arange(places or stop) < stop)[None].astype(np.int64)
        values = {"input_ids": ids, "attention_mask": mask}
        values["position_ids"] = np.arange(start, stop)[None]
        return {name: x for name, x in values.items() if name in self.inputs}

    def peer_steps(self, prompt: np.ndarray) -> Iterator[tuple[Arrays, np.ndarray, int, Arrays]]:
        """The caches, the tokens, their place and the outputs of ONNX Runtime's steps."""
        caches, ids, start = self.empty, prompt, 0
        for _ in range(self.count):
            feed = {**self.feed(ids, start, 0), **caches}
            outputs = peer.run(self.inner_session, feed)
            yield caches, ids, start, outputs
            caches = {x: outputs[x.replace("past_key_values", "present")] for x in caches}
            start += ids.shape[1]
            ids = outputs[self.scores][:, -1:].argmax(-1)

    def compare(self, prompt: np.ndarray) -> Iterator[Step]:
        """The steps, each with ONNX Runtime's token and caches."""
        for caches, ids, start, wanted in self.peer_steps(prompt):
            places = [(0, 0), (0, 0), (0, CAPACITY - start), (0, 0)]
            padded = {name: np.pad(x, places) for name, x in caches.items()}
            feed = {**self.feed(ids, start, CAPACITY), **padded}
            feed = {name: feed[name].astype(x.dtype) for name, x in self.model.inputs.items()}
            found = self.apply(self.model.params, feed, outputs=(self.scores, *self.inner))
            x, y = found[self.scores][0, -1], wanted[self.scores][0, -1]
            pairs = ((np.asarray(found[p.input]), wanted[p.input], p.block) for p in self.products)
            flips = (relative(x, y) for x, y, n in pairs if (rounded(x, n) != rounded(y, n)).any())
            yield Step(relative(x, y), bool(x.argmax() == y.argmax()), next(flips, None))

    def own_tokens(self, prompt: np.ndarray) -> list[int]:
        """The greedy tokens of a state."""
        outputs, state = self.model.prefill(self.model.init_state(1, CAPACITY), prompt)
        tokens = [int(outputs[self.scores][0, -1].argmax())]
        while len(tokens) < self.count:
            outputs, state = self.model.step(state, np.array([tokens[-1:]]))
            tokens.append(int(outputs[self.scores][0, -1].argmax()))
        return tokens


def row_of(name: str, decoder: Decoder, prompts: list[np.ndarray]) -> tuple[str, ...]:
    """The figures of a file."""
    steps, equal = list[Step](), 0
    for prompt in prompts:
        steps += decoder.compare(prompt)
        wanted = [int(y[decoder.scores][0, -1].argmax()) for *_, y in decoder.peer_steps(prompt)]
        equal += sum(x == y for x, y in zip(decoder.own_tokens(prompt), wanted, strict=True))
    plain = [step for step in steps if step.flip is None]
    flipped = [step for step in steps if step.flip is not None]

    def worst(errors: Iterator[float | None]) -> str:
        return f"{max((x for x in errors if x is not None), default=0):.1e}"

    same, count = sum(step.is_same_token for step in steps), len(steps)
    first = worst(step.flip for step in flipped)
    others = sum(not step.is_same_token for step in plain)
    head = (name, f"{equal} of {count}", f"{same} of {count}", str(len(plain)))
    errors = (worst(step.error for step in plain), str(len(flipped)))
    return (*head, *errors, worst(step.error for step in flipped), first, str(others))


def trained(folder: Path, steps: int) -> Iterator[tuple[str, str]]:
    """Trains a decoder, and quantizes it in ONNX Runtime's ways."""
    sys.path.append(str(_EXAMPLES))
    from onnxruntime.quantization import matmul_nbits_quantizer as quantizer

    language_model, tiny_decoder = map(import_module, ("language_model", "tiny_decoder"))

    weights, loss = language_model.train(language_model.text(), steps)
    print(f"loss {loss:.2f}")
    file = tiny_decoder.make_file(language_model.SIZES, weights)
    for node in file.graph.node:  # the tools find nodes by their names
        node.name = next(filter(None, node.output))
    logging.disable(logging.INFO)  # several lines for each node
    forms: dict[str, dict[str, Any]] = {"float32": {}}
    for level in (0, 4):
        for block in (32, 128):
            for is_symmetric in (True, False):
                key = f"level {level}, blocks of {block}{'' if is_symmetric else ', zero points'}"
                forms[f"4 bits, {key}"] = {"block_size": block, "is_symmetric": is_symmetric}
                forms[f"4 bits, {key}"] |= {"accuracy_level": level}
        options = {"bits": 8, "block_size": 32, "is_symmetric": True, "accuracy_level": level}
        forms[f"8 bits, level {level}, blocks of 32"] = options
        config = quantizer.KQuantWeightOnlyQuantConfig()
        options = {"block_size": 32, "accuracy_level": level, "algo_config": config}
        forms[f"4 bits of k_quant, level {level}"] = options
    for name, options in forms.items():
        copy = onnx.ModelProto()
        copy.CopyFrom(file)
        if options:
            run = quantizer.MatMulNBitsQuantizer(copy, **options)
            run.process()
            copy = run.model.model
        path = folder / f"{name}.onnx"
        onnx.save(copy, path)
        yield name, str(path)


def main() -> None:
    """Prints a row for each file."""
    parser = argparse.ArgumentParser("python -m tools.decoders", description=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--train", action="store_true", help="train a decoder, and quantize it")
    parser.add_argument("--steps", type=int, default=1500, help="of training")
    options = parser.parse_args()
    texts = ("Return the ", "Parameters\n----------\nx : ", "See")
    prompts = [np.array([[ord(x) for x in text]]) for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        files = trained(Path(folder), options.steps) if options.train else ()
        if options.files:
            prompts = [np.random.default_rng(0).integers(4, 100, (1, 21))]
        header = (*_HEADER, *_FLIPS)
        print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
        for name, path in (*((x, x) for x in options.files), *files):
            print("| " + " | ".join(row_of(name, Decoder(path), prompts)) + " |", flush=True)


if __name__ == "__main__":
    main()

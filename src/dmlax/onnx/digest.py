"""Digests of a model's tensors: one line for each, which any machine can print again."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from dmlax._core.arguments import Rules
from dmlax._core.float_functions import VERSION
from dmlax.onnx.model import Model
from dmlax.onnx.nodes import run_nodes

_RULES = Rules("digest")


class Digest(NamedTuple):
    """The digest of a tensor.

    Attributes:
      name: the tensor's, behind `input ` for an input.
      type: its dtype and shape, as "float32[2,3]".
      sha256: of its canonical form, in hexadecimal digits.
    """

    name: str
    type: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.sha256} {self.type} {self.name}"


def canonical_bytes(x: ArrayLike) -> bytes:
    """The canonical form of a tensor.

    It is the dtype and the shape in ASCII, a line feed, and the elements: row-major and
    little-endian, a byte for an element of 8 bits or fewer. -0 stays -0. Every NaN is the quiet one
    without a sign or a payload.
    """
    array = np.asarray(x)
    dtype = array.dtype
    if jnp.issubdtype(dtype, jnp.floating):
        nan = np.abs(np.full((), np.nan, np.float32).astype(dtype))
        array = np.where(np.isnan(array), nan, array)
    elements = np.ascontiguousarray(array, dtype.newbyteorder("<"))
    return f"{_type_of(array)}\n".encode() + elements.tobytes()


def _type_of(x: np.ndarray) -> str:
    return f"{x.dtype.name}[{','.join(map(str, x.shape))}]"


def digest(
    model: Model, inputs: Mapping[str, ArrayLike], *, tensors: bool = False, steps: int = 0
) -> list[Digest]:
    """Computes a model, and the SHA-256 of its inputs and outputs.

    With `arithmetic="exact"` they are the same on every machine and for every implementation.

    Args:
      model: the model.
      inputs: arrays by name.
      tensors: True for every tensor that a call computes, in the order of the nodes.
      steps: the number of tokens that a decoder generates. `inputs` are those of its first step
        (`Model.step`), the prompt. Every next step gets the tokens with the largest logits, the
        first of equal ones. The caches have room for the prompt and `steps` tokens.

    Returns:
      A `Digest` for each input, then for each tensor. With `steps` the outputs of a step are named
      `step 1 logits`; the last `Digest` is of all `tokens`.

    Raises:
      SpecError: as a call of the model or a step; code `option` for `steps` together with
        `tensors`, and for a decoder without one input of tokens and one output of logits.

    Example:
      >>> import dmlax.onnx
      >>> model = dmlax.onnx.load("vit.onnx", arithmetic="exact")  # doctest: +SKIP
      >>> dmlax.onnx.digest(model, {"image": image})[-1].sha256  # doctest: +SKIP
    """
    named = {f"input {name}": np.asarray(x) for name, x in inputs.items()}
    text = f"steps is {steps}, and tensors True: a digest of steps has their outputs alone"
    _RULES.expect(not (steps and tensors), "option", "steps", text)
    found = _generated(model, inputs, steps) if steps else _computed(model, inputs, tensors)
    return [_digest_of(name, x) for name, x in (*named.items(), *found)]


def _generated(
    model: Model, inputs: Mapping[str, ArrayLike], steps: int
) -> Iterator[tuple[str, ArrayLike]]:
    """The outputs of a decoder's steps, and then the tokens."""
    given: dict[str, np.ndarray] = {name: np.asarray(x) for name, x in inputs.items()}
    prompts = [name for name, x in given.items() if x.ndim == 2 and x.dtype.kind in "iu"]
    text = f"are {', '.join(given)}, expected one of tokens: integers of two axes"
    _RULES.expect(len(prompts) == 1, "option", "inputs", text)
    (prompt,) = prompts
    batch, rows = given[prompt].shape
    state, tokens = model.init_state(batch, rows + steps), []
    for step in range(1, steps + 1):
        outputs, state = model.step(state, given)
        yield from ((f"step {step} {name}", x) for name, x in outputs.items())
        wide = [x for x in outputs.values() if x.ndim == 3 and x.shape[:2] == (batch, rows)]
        text = f"have {len(wide)} outputs of three axes, expected one: the logits"
        _RULES.expect(len(wide) == 1, "option", "steps", text)
        last = np.asarray(wide[0][:, -1]).astype(np.float32)
        given[prompt], rows = last.argmax(-1)[:, None].astype(given[prompt].dtype), 1
        tokens.append(given[prompt])
    yield "tokens", np.concatenate(tokens, 1).astype(np.int32)


def _computed(
    model: Model, inputs: Mapping[str, ArrayLike], tensors: bool
) -> Iterator[tuple[str, ArrayLike]]:
    if not tensors:
        yield from model(inputs).items()
        return
    for _, name, value in run_nodes(model, {name: np.asarray(x) for name, x in inputs.items()}):
        yield name, value


def _digest_of(name: str, x: ArrayLike) -> Digest:
    array = np.asarray(x)
    return Digest(name, _type_of(array), hashlib.sha256(canonical_bytes(array)).hexdigest())


def heading(model: Model) -> str:
    """The first line of a printed digest: what defines the bits."""
    arithmetic = model._options.arithmetic
    return f"# {VERSION if arithmetic == 'exact' else arithmetic}"


def first_difference(path: Path, first: str, found: list[Digest]) -> str | None:
    """The sentence that says which line of an earlier printed digest differs first, or None."""
    line, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
    if line != first:
        return f"{path} begins with {line!r}, expected {first!r}"
    wanted = [Digest(name, kind, sha) for sha, kind, name in (x.split(" ", 2) for x in lines if x)]
    for want, got in zip(wanted, found, strict=False):
        if want != got:
            return f"the first tensor that differs: {got.name}\n  expected {want}\n  found {got}"
    if len(wanted) != len(found):
        return f"{path} has {len(wanted)} tensors, expected {len(found)}"
    return None

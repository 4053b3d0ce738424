"""Making the golden files: `exact` by the evaluator here, `float32` by ONNX Runtime."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path

from ..errors import Malformed, WrongUsage
from ..format.tensors import Tensor
from . import golden
from .builder import Definition
from .catalogue import DEFINITIONS
from .evaluate import evaluate, evaluate_apart
from .golden import Golden
from .judge import near
from .onnx_file import to_bytes

Values = Mapping[str, Tensor]
Compute = Callable[[Definition, Values], Values]  # of a model and its exact values
Disagreements = Callable[[Definition, Values], Iterator[str]]

STEPS = {"uint8": Fraction(1), "int8": Fraction(1), "float32": Fraction(1, 1 << 12)}


def make(definition: Definition, file: bytes, exact: Values, float32: Values) -> Golden:
    """Return the golden file of a model."""
    return Golden(
        name=definition.name,
        comment=definition.comment,
        file=file,
        graph=definition.graph,
        inputs=definition.inputs,
        bounds=definition.bounds,
        values={"float32": float32, "exact": exact},
    )


def write(root: Path, compute: Compute, disagreements: Disagreements) -> int:
    """Write every model, and return how many files that are."""
    root.mkdir(exist_ok=True)
    for define in DEFINITIONS:
        definition = define()
        exact = evaluate(definition.graph, definition.inputs)
        for line in disagreements(definition, exact):
            raise WrongUsage(f"ONNX Runtime disagrees with itself: {line}")
        float32 = compute(definition, exact)
        made = make(definition, to_bytes(definition.file, exact), exact, float32)
        (root / f"{made.name}.onnx").write_bytes(made.file)
        (root / f"{made.name}.json").write_text(golden.encode(made), encoding="utf-8")
    return 2 * len(DEFINITIONS)


def problems(
    root: Path, compute: Compute | None = None, disagreements: Disagreements | None = None
) -> Iterator[str]:
    """Yield what is not as it would be written.

    Without ONNX Runtime the ONNX files are taken as they are, and the float32 values are only
    compared with the exact ones.
    """
    names = {define.__name__ for define in DEFINITIONS}
    for path in golden.paths(root):
        if path.stem not in names:
            yield f"{path}: no model has this name"
    for define in DEFINITIONS:
        definition = define()
        path = root / f"{definition.name}.json"
        try:
            found = golden.load(path)
        except Malformed as error:
            yield str(error)
            continue
        exact, float32 = evaluate(definition.graph, definition.inputs), found.values["float32"]
        made = make(definition, found.file, exact, float32)
        if golden.encode(made) != path.read_text(encoding="utf-8"):
            yield f"{definition.name}.json: has another graph, input or exact value"
        yield from (f"{definition.name}: {line}" for line in far_apart(definition, float32))
        if compute is None or disagreements is None:
            continue
        if to_bytes(definition.file, exact) != found.file:
            yield f"{definition.name}.onnx: has other bytes"
        yield from disagreements(definition, exact)
        yield from _differing(definition, compute(definition, exact), float32)


def _differing(definition: Definition, now: Values, then: Values) -> Iterator[str]:
    """Yield the tensors that ONNX Runtime computes otherwise than when the file was made."""
    for name, tensor in now.items():
        if not are_near(tensor, then[name], bound_of(definition, name)):
            yield f"{definition.name}: ONNX Runtime computes another {name}"


def far_apart(definition: Definition, float32: Values) -> Iterator[str]:
    """Yield the tensors of which float32 is more than a step from exact, on the same inputs.

    Saturated sums of an instruction set, or a graph that says something else than the file, do
    that.
    """
    apart = evaluate_apart(definition.graph, {**definition.inputs, **float32})
    for name, exact in apart.items():
        if not are_near(float32[name], exact, STEPS.get(exact.dtype, Fraction(0))):
            yield f"{name}: float32 is more than a step from exact"


def bound_of(definition: Definition, name: str) -> Fraction:
    """Return the difference that is permitted in a tensor."""
    exponent = definition.bounds.get(name)
    return Fraction(0) if exponent is None else Fraction(2) ** exponent


def are_near(tensor: Tensor, wanted: Tensor, bound: Fraction) -> bool:
    """Say whether two tensors have one form, and differ by a bound or less."""
    if tensor == wanted:
        return True
    is_alike = (tensor.dtype, tensor.sizes) == (wanted.dtype, wanted.sizes)
    return is_alike and all(map(partial(near, wanted.dtype, bound), tensor.words, wanted.words))

"""Rules: which layer is quantized how."""

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from jax.typing import DTypeLike

from dmlax import calibration
from dmlax._core.arguments import Rules
from dmlax.calibration.observers import Range

RULES = Rules("quantize")
LAYERS = ("convolution", "product")
Operator = Literal[
    "convolution", "product", "sum", "multiplication", "average", "max", "concatenation"
]


@dataclass(frozen=True)
class Rule:
    """Says how layers are quantized, by the path of their weights; the first match wins.

    The defaults are those of ONNX Runtime's `quantize_static`.

    Attributes:
      path: of the parameter, its keys joined by "/", with the wildcards of `fnmatch`; "" of a
        product of two values that depend on the inputs, which "*" matches, too.
      operator: the kind of a layer in the report; default convolutions and products. The others
        have the rule of their first input, unless a rule names their operator.
      to_float: True leaves the layer in float.
      dtype: int8 or uint8, of the layer's output; default int8.
      weights_dtype: int8 or uint8; default int8.
      bits: of the weights, 2 to 8; 3 and 4 are stored as 4 bits, 2 as 2 and others as 8.
      per_channel: True for a scale per output channel of the weights; default one scale.
      symmetric: the weights' zero point is the dtype's middle; default True.
      observer: of the output, a constructor of `dmlax.calibration` without axis.

    Example:
      >>> from dmlax import quantization
      >>> quantization.Rule("encoder/*/kernel", per_channel=True).bits
      8
    """

    path: str = "*"
    operator: Operator | None = None
    to_float: bool = False
    dtype: DTypeLike = "int8"
    weights_dtype: DTypeLike = "int8"
    bits: int = 8
    per_channel: bool = False
    symmetric: bool = True
    observer: Callable[[], Range] = calibration.min_max

    def matches(self, path: str, operator: str) -> bool:
        """If the rule is for a layer."""
        named = operator in LAYERS if self.operator is None else operator == self.operator
        return named and fnmatch.fnmatchcase(path, self.path)


DEFAULT = Rule()


def is_float(rules: Sequence[Rule], parameters: Sequence[str]) -> bool:
    """If a rule leaves a layer that no operator has in float: the first of its parameters'."""
    found = (x for x in rules if any(x.matches(p, kind) for p in parameters for kind in LAYERS))
    first = next(found, None)
    return first is not None and first.to_float


def choose(
    rules: Sequence[Rule],
    layers: Sequence[tuple[str, str]],
    parameters: Sequence[str],
    unsupported: Sequence[Sequence[str]] = (),
) -> list[Rule | None]:
    """The rule of each layer (path of its weights, operator); None of others without a rule.

    The parameters of a layer that no operator has can have a rule that leaves it in float.
    """
    good = all(isinstance(rule, Rule) for rule in rules)
    RULES.expect(good, "option", "rules", f"is {rules!r}, expected a sequence of Rule")
    for rule in rules:
        floats = any(is_float([rule], paths) for paths in unsupported)
        if not floats and not any(rule.matches(*layer) for layer in layers):
            held = [path for path in parameters if fnmatch.fnmatchcase(path, rule.path)]
            why = f"matches none of the weights {[path for path, _ in layers if path]}"
            if held:
                why += (
                    f"; {held} are parameters, but no weights of a convolution or of a product "
                    "with one side that does not depend on the inputs"
                )
            RULES.expect(False, "option", "rules", f"has the path {rule.path!r}, which {why}")
    defaults = [DEFAULT if operator in LAYERS else None for _, operator in layers]
    chosen = [
        next((rule for rule in rules if rule.matches(*layer)), default)
        for layer, default in zip(layers, defaults, strict=True)
    ]
    seen: dict[str, Rule | None] = {}
    for (path, _), each in zip(layers, chosen, strict=True):
        two = f"has two rules for the shared parameter {path!r}: {seen.get(path)} and {each}"
        same = not path or seen.setdefault(path, each) == each
        RULES.expect(same, "option", "rules", two)
    return chosen

"""A convolution and a residual sum on floats, whose bits are those of the one operator."""

from dataclasses import replace

from jax import Array

from dmlax._convolution_add.api import QUANTIZED_ADD
from dmlax.training import twins
from dmlax.training.twins import Values

_PARTS = ("", "_scale", "_zero_point", "_dtype")
_ADDED = (
    *(f"addend{part}" for part in _PARTS),
    *(f"sum{part}" for part in _PARTS[1:]),
    "addend_first",
)
_TWIN = replace(
    twins.CONVOLUTION, operator=QUANTIZED_ADD, tensors=("input", "filter", "bias", "addend")
)


def call(arguments: Values) -> Array:
    """Runs the two operators, by the arguments of the public function."""
    plan = twins.check(_TWIN, arguments).plan
    options = arguments | {"output_dtype": plan.convolution.output.dtype}
    added = {name: options.pop(name) for name in _ADDED}
    result = twins.call(twins.CONVOLUTION, options)
    terms = [
        [result, *(options[f"output{part}"] for part in _PARTS[1:])],
        [added[f"addend{part}"] for part in _PARTS],
    ]
    if added["addend_first"]:
        terms.reverse()
    operands = {
        f"{name}{part}": value
        for name, term in zip("ab", terms, strict=True)
        for part, value in zip(_PARTS, term, strict=True)
    }
    operands |= {f"output{part}": added[f"sum{part}"] for part in _PARTS[1:]}
    operands |= {name: options[name] for name in ("arithmetic", "implementation")}
    return twins.call(twins.ADD, operands | {"output_dtype": plan.output.dtype})

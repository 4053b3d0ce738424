"""quantize, and the quantized function that it returns."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax import calibration, training
from dmlax._core import ieee
from dmlax._core.arguments import Aval
from dmlax._core.requantize import Arithmetic
from dmlax._explain import table
from dmlax._operators.add_multiply.api import element_wise_quantized_linear_add
from dmlax._operators.convolution.api import quantized_linear_convolution
from dmlax._operators.matmul.api import quantized_linear_matrix_multiply
from dmlax._operators.pooling.api import (
    max_pooling,
    quantized_linear_average_pooling,
    quantized_linear_global_average_pooling,
)
from dmlax._operators.quantize.api import (
    element_wise_dequantize_linear,
    element_wise_quantize_linear,
)
from dmlax.calibration import Quantization, QuantizedWeights
from dmlax.errors import SpecError, UnsupportedError
from dmlax.quantization.plan import Planner, Step, channels, contracted, problems
from dmlax.quantization.program import Program, path_of, run, trace
from dmlax.quantization.rules import RULES, Rule, choose
from dmlax.training import rounding

_LAYERS = ("convolution", "product")


class Line(NamedTuple):
    """A line of the report: one layer, or one step that stayed float for a reason.

    Attributes:
      name: the path of the weights, or the line of the code.
      operator: the step's kind, or the equation's name.
      runs: the dtype of the result, or "float" and the reason.
      signal_to_noise: decibels of the result on the first batch; NaN for a float step.
      before: bytes of the float weights.
      after: bytes of the integers.
    """

    name: str
    operator: str
    runs: str
    signal_to_noise: float
    before: int
    after: int


class Report(NamedTuple):
    """A line for each layer: where it runs, and how exactly. It prints as a table."""

    lines: tuple[Line, ...]

    def __str__(self) -> str:
        rows = [("layer", "operator", "runs in", "signal to noise", "bytes before", "after")]
        rows += [
            (
                *x[:3],
                "" if np.isnan(x.signal_to_noise) else f"{x.signal_to_noise:.1f} dB",
                str(x.before),
                str(x.after),
            )
            for x in self.lines
        ]
        return "\n".join(table(rows))


_NOTHING = Report(())


@dataclass(eq=False)
class _Plan:
    """The static part of a `Quantized`.

    It has the program, its steps, for each value of bytes the one whose quantization it has, the
    rules of the layers, and the trees, shapes and dtypes of the inputs and of the parameters.
    """

    program: Program
    steps: list[Step]
    roots: dict[int, int]
    rules: dict[int, Rule]
    arithmetic: Arithmetic
    tree: Any
    inputs: Any
    params: Any
    report: Report = field(default=_NOTHING)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Quantized:
    """A quantized function: call it with the inputs, of the batches' shapes.

    A pytree: `jax.jit`, `jax.vmap` and `jax.device_put` take it.

    Attributes:
      weights: `QuantizedWeights` and int32 biases, by the number of a layer.
      scales: the `Quantization` of every value of bytes.
      constants: what the steps in float read, and what does not depend on the parameters.
      report: a line for each layer. It prints as a table.
    """

    weights: dict[int, tuple[QuantizedWeights, Array]]
    scales: dict[int, Quantization]
    constants: dict[int, Array]
    plan: _Plan = field(metadata={"static": True}, repr=False)

    @property
    def report(self) -> Report:
        """A line for each layer, which says where it runs. It prints as a table."""
        return self.plan.report

    def __call__(self, *inputs: Any) -> Any:
        """The outputs as floats, of the function's structure."""
        leaves = _checked("inputs", list(inputs), self.plan.inputs)
        return _Values(self, leaves).outputs()

    def training(self) -> Callable[..., Any]:
        """The function of `dmlax.training` with the same scales, to tune the parameters with.

        Each call quantizes the weights anew, and their scales follow them. The scales of all else
        stay; their gradients are those of `dmlax.training`, of
        `dataclasses.replace(quantized, scales=...).training()`.

        Returns:
          `function(params, *inputs)`, of the float function's parameters. For those that were
          quantized it gives the bits of this function, except behind a step that runs in float.
          Gradients are straight-through: those of float operators, 0 where an integer is clamped.

        Example:
          >>> import jax, jax.numpy as jnp
          >>> from dmlax import quantization
          >>> x = jnp.float32([[1.0, 2.0]])
          >>> params = jnp.float32([[1.0, -1.0], [0.5, 2.0]])
          >>> quantized = quantization.quantize(lambda w, x: x @ w, params, [x])
          >>> tuned = quantized.training()
          >>> bool((tuned(params, x) == quantized(x)).all())
          True
          >>> jax.grad(lambda w: tuned(w, x).sum())(params).round(1).tolist()
          [[1.0, 1.0], [2.0, 2.0]]
        """

        def function(params: Any, /, *inputs: Any) -> Any:
            given = _checked("params", params, self.plan.params)
            leaves = _checked("inputs", list(inputs), self.plan.inputs)
            return _Trained(self, leaves, given).outputs()

        return function

    def with_params(self, params: Any, /) -> "Quantized":
        """The quantized function of other parameters, such as tuned ones, with the same scales.

        Args:
          params: of the tree, shapes and dtypes that were quantized.

        Returns:
          A `Quantized` that has the bits of `training()` for these parameters. Its report is still
          that of the first parameters.

        Raises:
          SpecError: code `sizes` for another tree, or other shapes or dtypes.
        """
        program = self.plan.program
        leaves = _checked("params", params, self.plan.params)
        constants = program.constants_of(self.constants, leaves)
        return replace(
            self,
            weights=_weights(self.plan, constants, self.scales),
            constants={number: constants[number] for number in self.constants},
        )


def _kinds(tree: Any) -> tuple[Any, dict[str, Aval]]:
    """The structure of a tree, and the dtypes and shapes of its leaves by path."""
    leaves, structure = jax.tree.flatten_with_path(tree)
    return structure, {path_of(path): Aval(jnp.result_type(x), jnp.shape(x)) for path, x in leaves}


def _checked(name: str, tree: Any, wanted: Any, place: str = "") -> list[Any]:
    """The leaves of inputs or of parameters, of a structure, dtypes and shapes."""
    structure, kinds = _kinds(tree)
    origin = "as the first" if place else "as quantized"
    text = f"are of the structure {structure}, expected {wanted[0]}, {origin}"
    RULES.expect(structure == wanted[0], "sizes", name, text)
    for path, kind in kinds.items():
        text = f"have {kind} at {place + path!r}, expected {wanted[1][path]}, {origin}"
        RULES.expect(kind == wanted[1][path], "sizes", name, text)
    return jax.tree.leaves(tree)


class _Values:
    """The values of a call, as bytes, as floats or as both."""

    def __init__(self, quantized: Quantized, leaves: Sequence[Any]) -> None:
        self.quantized, self.plan = quantized, quantized.plan
        inputs = map(jnp.asarray, leaves)
        self.reals = self.constants() | dict(zip(self.plan.program.inputs, inputs, strict=True))
        self.bytes: dict[int, Array] = {}
        for step in self.plan.steps:
            if step.is_integer:
                self.bytes[step.result] = self._integers(step)
            else:
                for equation in (step.equation, *step.absorbed):
                    results = run(equation, [self.real(x) for x in equation.operands])
                    self.reals |= zip(equation.results, results, strict=True)

    def outputs(self) -> Any:
        """The floats of the outputs, in the function's structure."""
        reals = [self.real(x) for x in self.plan.program.outputs]
        return jax.tree.unflatten(self.plan.tree, reals)

    def constants(self) -> dict[int, Array]:
        return self.quantized.constants

    def scale(self, number: int) -> Quantization:
        return self.quantized.scales[self.plan.roots[number]]

    def layer(self, step: Step) -> tuple[Array, Array, QuantizedWeights]:
        """The weights and the bias that an operator takes, and the weights' quantization."""
        weights, bias = self.quantized.weights[step.result]
        return weights.values, bias, weights

    def quantize(self, real: Array, scale: Quantization) -> Array:
        return element_wise_quantize_linear(real, *scale)

    def dequantize(self, integers: Array, scale: Quantization) -> Array:
        return element_wise_dequantize_linear(integers, *scale)

    def operator(self, function: Callable[..., Array]) -> Callable[..., Array]:
        """What runs for an operator."""
        return function

    def real(self, number: int) -> Array:
        if number not in self.reals:
            real = self.dequantize(self.bytes[number], self.scale(number))
            self.reals[number] = real.astype(self.plan.program.dtypes[number])
        return self.reals[number]

    def integers(self, number: int) -> Array:
        if number not in self.bytes:
            real = self.real(number).astype(jnp.float32)
            self.bytes[number] = self.quantize(real, self.scale(number))
        return self.bytes[number]

    def _integers(self, step: Step) -> Array:
        operands, options = [self.integers(x) for x in step.operands], step.options
        if step.kind == "move":
            moved: Array = run(step.equation, operands)[0]
            return moved
        if step.kind == "max":
            return self.operator(max_pooling)(operands[0], **options)
        scales = [self.scale(x) for x in step.operands]
        output = self.scale(step.result)
        if step.kind == "sum":
            named = self._keywords(a=scales[0], b=scales[1], output=output)
            return self.operator(element_wise_quantized_linear_add)(*operands, **named)
        named = self._keywords(input=scales[0], output=output)
        if step.kind == "average":
            windows = "window_size" in options
            pool = (
                quantized_linear_average_pooling
                if windows
                else quantized_linear_global_average_pooling
            )
            mean = self.operator(pool)(operands[0], **named, **options)
            return mean.reshape(self.plan.program.shapes[step.result])
        values, bias, weights = self.layer(step)
        if step.kind == "convolution":
            named |= self._keywords(filter=weights)
            convolve = self.operator(quantized_linear_convolution)
            return convolve(operands[0], values, bias, **named, **options)
        named = self._keywords(a=scales[0], b=weights, output=output)
        rows = _rows(operands[0], contracted(step)[0])
        product = self.operator(quantized_linear_matrix_multiply)(rows, values, bias, **named)
        shape = self.plan.program.shapes[step.result]
        if step.swapped:  # the weights' axes come first
            product = jnp.moveaxis(product, -1, 0)
        return product.reshape(shape)

    def _keywords(self, **tensors: Quantization | QuantizedWeights) -> dict[str, Any]:
        """The scales, zero points and arithmetic of a call."""
        return {"arithmetic": self.plan.arithmetic, **calibration.keywords(**tensors)}


class _Trained(_Values):
    """The values of a call of `dmlax.training`: floats that stand for bytes, and floats."""

    def __init__(self, quantized: Quantized, leaves: Sequence[Any], params: Sequence[Any]) -> None:
        self.all = quantized.plan.program.constants_of(quantized.constants, params)
        super().__init__(quantized, leaves)

    def constants(self) -> dict[int, Array]:
        return self.all

    def layer(self, step: Step) -> tuple[Array, Array, QuantizedWeights]:
        weights, bias = _folded(self.plan.program, step, self.all)
        rule = self.plan.rules[step.result]
        integers = _quantized_weights(step, rule, weights)
        return _rounded(weights, integers, rule.bits), bias, integers

    def quantize(self, real: Array, scale: Quantization) -> Array:
        return training.fake_quantize(real, *scale)

    def dequantize(self, integers: Array, scale: Quantization) -> Array:
        return integers

    def operator(self, function: Callable[..., Array]) -> Callable[..., Array]:
        twin: Callable[..., Array] = getattr(training, function.__name__)
        return twin

    def _integers(self, step: Step) -> Array:
        if step.kind == "max":
            pooled: Array = run(step.equation, [self.integers(x) for x in step.operands])[0]
            return pooled
        return super()._integers(step)


def _rounded(weights: Array, integers: QuantizedWeights, bits: int) -> Array:
    """The floats that integers of some bits stand for, with the straight-through gradient."""
    limits = [limit >> (8 - bits) for limit in rounding.limits_of(integers.values.dtype)]
    scale, zero_point = integers.scale, integers.zero_point
    if integers.axis is not None:
        shape = [-1 if i == integers.axis % weights.ndim else 1 for i in range(weights.ndim)]
        scale, zero_point = scale.reshape(shape), zero_point.reshape(shape)
    is_nan = jnp.isnan(weights)
    return rounding.dequantize((*limits,), weights, integers.values, scale, zero_point, is_nan)


def _rows(x: Array, axes: Sequence[int]) -> Array:
    """A side of a product with the axes that it sums over last, as one."""
    free = [i for i in range(x.ndim) if i not in axes]
    return x.transpose(*free, *axes).reshape(*(x.shape[i] for i in free), -1)


def _folded(program: Program, step: Step, constants: Mapping[int, Any]) -> tuple[Array, Array]:
    """The float weights, (K, N) of a product, and the bias, with what follows folded in.

    A jitted program gives the bits of these operations alone.
    """
    weights = jnp.asarray(constants[step.weights], jnp.float32)
    if step.kind == "product":
        axes = contracted(step)[1]
        free = [i for i in range(weights.ndim) if i not in axes]
        sums = int(np.prod([weights.shape[i] for i in axes]))
        weights, axis = weights.transpose(*axes, *free).reshape(sums, -1), 1
    else:
        axis = step.options["dimension_numbers"].rhs_spec[0]
    bias = jnp.zeros(weights.shape[axis], jnp.float32)
    shape = [-1 if i == axis else 1 for i in range(weights.ndim)]
    for name, number in step.affine:
        value = channels(program, step, constants[number])
        if name in ("add", "sub"):
            bias = ieee.add(bias, value) if name == "add" else ieee.subtract(bias, value)
        else:
            value = value if name == "mul" else ieee.divide(jnp.ones_like(value), value)
            weights = ieee.multiply(weights, value.reshape(shape))
            bias = ieee.multiply(bias, value)
    return weights, bias


def _roots(
    steps: Sequence[Step], rules: Mapping[int, Rule]
) -> tuple[dict[int, int], dict[int, Rule]]:
    """Whose quantization each value of bytes has, and the rule that gives it."""
    roots: dict[int, int] = {}
    chosen: dict[int, Rule] = {}
    for step in steps:
        rule = rules.get(step.result)
        inside = all(x in roots for x in step.operands)
        if step.kind in _LAYERS and rule is not None and not rule.to_float:
            if step.operands[0] not in roots:
                roots[step.operands[0]] = step.operands[0]
                chosen[step.operands[0]] = rule
        elif step.kind in ("move", "max") and inside:
            roots[step.result] = roots[step.operands[0]]
            step.is_integer = True
            continue
        elif step.kind in ("sum", "average") and inside:
            rule = chosen[roots[step.operands[0]]]
        else:
            continue
        roots[step.result], chosen[step.result] = step.result, rule
        step.is_integer = True
    return roots, chosen


def _floats(
    program: Program, constants: Mapping[int, Any], leaves: Sequence[Any]
) -> dict[int, Any]:
    """Every value of a program in float."""
    values = dict(constants) | dict(zip(program.inputs, leaves, strict=True))
    for equation in program.equations:
        results = run(equation, [values[x] for x in equation.operands])
        values |= zip(equation.results, results, strict=True)
    return values


def _observed(
    program: Program, rules: Mapping[int, Rule], batches: Sequence[Any]
) -> dict[int, Any]:
    """The observers of values after all batches, in one scan."""

    def step(constants: Any, seen: Any, leaves: Any) -> Any:
        values = _floats(program, constants, leaves)
        return {number: x.observe(values[number]) for number, x in seen.items()}, None

    @jax.jit
    def scan(constants: Any, seen: Any, stacked: Any) -> Any:
        return lax.scan(functools.partial(step, constants), seen, stacked)[0]

    stacked = [jnp.stack(leaves) for leaves in zip(*batches, strict=True)]
    start = {number: rule.observer() for number, rule in rules.items()}
    observed: dict[int, Any] = scan(program.constants, start, stacked)
    return observed


def quantize(
    function: Callable[..., Any],
    params: Any,
    batches: Sequence[Any],
    *,
    rules: Sequence[Rule] = (),
    arithmetic: Arithmetic = "exact",
    on_unsupported: Literal["float", "error"] = "float",
) -> Quantized:
    """Quantizes a float function by rules, with scales from batches.

    Convolutions and products of a value with parameters become integer operators. The additions and
    multiplications per channel that follow (a bias, a batch norm), and then `max(x, 0)` and
    `min(x, c)`, become part of them. Sums of two values, max pools, means over all spatial axes
    and moves stay in integers where their inputs are. All else runs in float between a
    dequantization and a quantization, and the report says why.

    Args:
      function: `function(params, *inputs)`, which JAX can trace.
      params: a pytree of arrays.
      batches: the inputs, one array or a tuple of `inputs` each, all of the same shapes.
      rules: the first that matches a layer's weights wins; default `Rule()` for all.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's CPU kernels.
      on_unsupported: "float" leaves a layer that no operator has in float, with a line in the
        report, as a `scan` of layers; "error" raises.

    Returns:
      A `Quantized`: call it with inputs of a batch's shapes.

    Raises:
      SpecError: code `option` for a rule that matches no weights, or two rules for one parameter
        (rules), or no batch; `sizes` for batches of different shapes; `value` for NaN, with the
        layer's path.
      UnsupportedError: JAX cannot trace the function, or "error" met a layer that no operator has;
        both name the line.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> from dmlax import quantization
      >>> def function(params, x):
      ...     return jax.nn.relu(x @ params["kernel"] + params["bias"])
      >>> params = {"kernel": jnp.float32([[1.0, -1.0], [0.5, 2.0]]), "bias": jnp.ones(2)}
      >>> x = jnp.float32([[1.0, 2.0]])
      >>> quantized = quantization.quantize(function, params, [x])
      >>> quantized(x).round(1).tolist()
      [[3.0, 4.0]]
    """
    batches = [batch if isinstance(batch, tuple) else (batch,) for batch in batches]
    RULES.expect(bool(batches), "option", "batches", "is empty, expected a batch or more")
    first = _kinds(list(batches[0]))
    flat = [
        _checked("batches", list(batch), first, f"{index}/") for index, batch in enumerate(batches)
    ]
    program, tree, paths = trace(function, params, batches[0])
    RULES.expect_choice("on_unsupported", on_unsupported, ("float", "error"))
    steps = Planner(program).steps()
    if on_unsupported == "error" and (found := problems(program, steps)):
        remedy = 'on_unsupported="float" leaves them in float'
        raise UnsupportedError(f"quantize: {'; '.join(found)}; {remedy}", "option", "function")
    layers = [step for step in steps if step.kind in _LAYERS]
    names = ["+".join(program.paths[step.weights]) for step in layers]
    keys = [(name, step.kind) for name, step in zip(names, layers, strict=True)]
    by_layer = dict(zip((x.result for x in layers), choose(rules, keys, paths), strict=True))
    roots, chosen = _roots(steps, by_layer)
    seen = _observed(program, chosen, flat)
    scales = {}
    for n in sorted(chosen):
        with _naming("batches", f"give no scale for {_place(program, steps, n)}"):
            scales[n] = calibration.quantization(seen[n], chosen[n].dtype)
    floats = [e for s in steps if not s.is_integer for e in (s.equation, *s.absorbed)]
    read = [x for equation in floats for x in equation.operands]
    kept = {x for x in [*read, *program.outputs] if x in program.constants}
    kept |= {x for x in program.constants if not program.paths[x]}
    constants = {x: jnp.asarray(program.constants[x]) for x in kept}
    plan = _Plan(
        program, steps, roots, by_layer, arithmetic, tree, inputs=first, params=_kinds(params)
    )
    weights = _weights(plan, program.constants, scales)
    quantized = Quantized(weights=weights, scales=scales, constants=constants, plan=plan)
    plan.report = _report(
        quantized, dict(zip((x.result for x in layers), names, strict=True)), flat[0]
    )
    program.constants = {}  # the pytree holds what a call reads
    return quantized


def _weights(
    plan: _Plan, constants: Mapping[int, Any], scales: Mapping[int, Quantization]
) -> dict[int, tuple[QuantizedWeights, Array]]:
    """The integer weights and biases of the layers in integers."""
    found = {}
    for step in plan.steps:
        if step.kind in _LAYERS and step.is_integer:
            weights, bias = _folded(plan.program, step, constants)
            path = "+".join(plan.program.paths[step.weights])
            with _naming("params", f"give no scale for {path}"):
                integers = _quantized_weights(step, plan.rules[step.result], weights)
            scale = scales[plan.roots[step.operands[0]]].scale
            named = {"input_scale": scale, "filter_scale": integers.scale}
            found[step.result] = integers, calibration.quantize_bias(bias, **named)
    return found


@contextlib.contextmanager
def _naming(field: str, text: str) -> Iterator[None]:
    """Names the value whose range is bad."""
    try:
        yield
    except SpecError as error:
        RULES.fail(error.code, field, f"{text}: {error}")


def _place(program: Program, steps: Sequence[Step], number: int) -> str:
    """A value in words: by the path of the layer that makes or reads it, else by its line."""
    made = [("result", step) for step in steps if step.result == number]
    read = [("input", step) for step in steps if number in step.operands]
    role, step = min((*made, *read), key=lambda pair: pair[1].weights < 0)
    path = "+".join(program.paths.get(step.weights, ()))
    return f"the {role} of {path or f'{step.equation.name} at {step.equation.line}'}"


def _quantized_weights(step: Step, rule: Rule, weights: Array) -> QuantizedWeights:
    axis = None
    if rule.per_channel:
        axis = -1 if step.kind == "product" else step.options["dimension_numbers"].rhs_spec[0]
    return calibration.quantize_weights(
        weights, axis=axis, dtype=rule.weights_dtype, symmetric=rule.symmetric, bits=rule.bits
    )


def _report(quantized: Quantized, names: Mapping[int, str], leaves: Sequence[Any]) -> Report:
    """Compares the first batch's values in float and in integers."""
    plan, program = quantized.plan, quantized.plan.program
    expected = jax.jit(functools.partial(_wanted, program, tuple(plan.roots)))(
        program.constants, leaves
    )
    actual = jax.jit(
        lambda q, x: {n: _Values.real(v, n) for v in [_Values(q, x)] for n in plan.roots}
    )(quantized, leaves)
    errors = {x.name: x for x in calibration.error_report(_text(expected), _text(actual)).layers}
    lines = []
    for step in plan.steps:
        integer = step.is_integer
        if step.kind == "move" or not (integer or step.why or step.kind in _LAYERS):
            continue
        before = 0 if step.weights < 0 else 4 * int(np.prod(program.shapes[step.weights]))
        runs, noise, after = f"float: {step.why or 'a rule'}", np.nan, before
        if integer:
            runs, noise = (
                quantized.scales[plan.roots[step.result]].zero_point.dtype.name,
                errors[str(step.result)].signal_to_noise,
            )
            after = before // 4
        name = names.get(step.result, step.equation.line)
        lines.append(
            Line(name, step.kind if integer else step.equation.name, runs, noise, before, after)
        )
    return Report(tuple(lines))


def _wanted(
    program: Program, numbers: Sequence[int], constants: Any, leaves: Any
) -> dict[int, Any]:
    values = _floats(program, constants, leaves)
    return {number: values[number] for number in numbers}


def _text(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(number): value for number, value in values.items()}

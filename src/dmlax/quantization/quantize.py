"""quantize, and the quantized function that it returns."""

import contextlib
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax import calibration, training
from dmlax._core import ieee, labels
from dmlax._core.arguments import Aval
from dmlax._core.requantize import Arithmetic
from dmlax._fused.concatenation.call import concatenate
from dmlax._fused.matmul_epilogue.call import MATMUL_ADD, multiply_and_add
from dmlax._operators.add_multiply.api import (
    ADD,
    element_wise_quantized_linear_add,
    element_wise_quantized_linear_multiply,
)
from dmlax._operators.byte_lookup.api import quantized_lookup
from dmlax._operators.convolution.api import quantized_linear_convolution
from dmlax._operators.convolution_add.api import quantized_linear_convolution_add
from dmlax._operators.matmul.api import QUANTIZED, quantized_linear_matrix_multiply
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
from dmlax.quantization.equalization import divided, factors_of, of_inputs, pairs_of
from dmlax.quantization.integers import Integers
from dmlax.quantization.packed import PackedWeights
from dmlax.quantization.plan import Planner, Step, batched, channels, contracted, unsupported
from dmlax.quantization.program import Equation, Program, path_of, run, trace
from dmlax.quantization.report import Line, Report, multiply_adds
from dmlax.quantization.rules import LAYERS, RULES, Rule, choose, is_float
from dmlax.training import rounding

_NOTHING = Report(())
_BINARY = {
    "sum": element_wise_quantized_linear_add,
    "multiplication": element_wise_quantized_linear_multiply,
}


@dataclass(eq=False)
class _Plan:
    """The static part of a `Quantized`.

    It has the program, its steps, for each value of bytes the one whose quantization it has, the
    rules of the layers, the trees, shapes and dtypes of the inputs and of the parameters, the float
    function, which pickling drops, and the plans for inputs of other sizes.
    """

    program: Program
    steps: list[Step]
    roots: dict[int, int]
    rules: dict[int, Rule]
    arithmetic: Arithmetic
    tree: Any
    inputs: Any
    params: Any
    function: Callable[..., Any] | None
    report: Report = field(default=_NOTHING)
    others: dict[str, "_Plan"] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"function": None, "others": {}}  # few functions pickle

    def of(self, inputs: Any) -> "_Plan":
        """The plan for inputs of other sizes; this one if it is another function of them."""
        structure, kinds = inputs
        shapes = [(x.dtype, len(x.shape)) for x in kinds.values()]
        same = shapes == [(x.dtype, len(x.shape)) for x in self.inputs[1].values()]
        if inputs == self.inputs or structure != self.inputs[0] or not same or not self.function:
            return self
        key = str(kinds)
        if key in self.others:
            return self.others[key]
        params, batch = (
            jax.tree.unflatten(
                tree, [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in each.values()]
            )
            for tree, each in (self.params, inputs)
        )
        program, tree, _ = trace(self.function, params, batch, is_blank=True)
        planner = Planner(program)
        integers = Integers(planner, _named(planner), self.rules)
        other = replace(
            self, program=program, steps=integers.steps, roots=integers.roots, inputs=inputs
        )
        found = other if tree == self.tree and other.form() == self.form() else self
        if all(x.is_static for x in kinds.values()):  # symbolic sizes belong to one trace
            self.others[key] = found
        return found

    def form(self) -> list[Any]:
        """All but sizes: plans of one function for inputs of other sizes have the same."""
        equations = (*self.program.preamble, *self.program.equations)
        weights = [self.program.shapes[x.weights] for x in self.steps if x.weights >= 0]
        return [
            self.roots,
            weights,
            [equation[:3] for equation in equations],
            [(x.kind, x.operands, x.result, x.affine, x.is_integer) for x in self.steps],
            [x.fused.result for x in self.steps if x.fused],
        ]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Quantized:
    """A quantized function: call it with the inputs.

    They have the batches' shapes, or other sizes for which JAX traces the same equations. One that
    was pickled takes the batches' shapes alone.

    A pytree: `jax.jit`, `jax.vmap` and `jax.device_put` take it. It pickles, unless a loop or a
    branch (`scan`, `while`, `cond`) is in it.

    Attributes:
      weights: `QuantizedWeights` and int32 biases, by the number of a layer. Values of 2 to 4
        bits are packed.
      scales: the `Quantization` of every value of bytes.
      constants: what the steps in float read, and what does not depend on the parameters.
      tables: of the lookups, by the number of a result.
      shifts: of the biases, float32, by the number of a layer, where `bias_correction` was asked.
      factors: by which the channels of a value are divided, where `equalize` was asked.
      report: a line for each layer. It prints as a table.
    """

    weights: dict[int, tuple[QuantizedWeights, Array]]
    scales: dict[int, Quantization]
    constants: dict[int, Array]
    tables: dict[int, Array]
    shifts: dict[int, Array]
    factors: dict[int, Array]
    plan: _Plan = field(metadata={"static": True}, repr=False)

    @property
    def report(self) -> Report:
        """A line for each layer, which says where it runs. It prints as a table."""
        return self.plan.report

    def __call__(self, *inputs: Any) -> Any:
        """The outputs as floats, of the function's structure."""
        quantized = self._of(inputs)
        return _Values(quantized, jax.tree.leaves(inputs)).outputs()

    def _of(self, inputs: Any) -> "Quantized":
        """The quantized function of inputs of these sizes."""
        plan = self.plan.of(_kinds(list(inputs)))
        _checked("inputs", list(inputs), plan.inputs)
        if plan is self.plan:
            return self
        return replace(self, plan=plan, constants=plan.program.repeat(self.constants))

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
            return _Trained(self._of(inputs), jax.tree.leaves(inputs), given).outputs()

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
            weights=_weights(self.plan, constants, self.scales, self.shifts, self.factors),
            tables=_tables(self.plan, constants, self.scales),
            constants={number: constants[number] for number in self.constants},
        )


def _named(planner: Planner) -> list[Step]:
    """The steps, with the paths of their weights or their lines."""
    steps = planner.steps()
    for step in steps:
        step.name = "+".join(planner.program.paths.get(step.weights, ())) or step.place
    return steps


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
    remedy = ": quantize with batches of that size, or map by jax.vmap" if name == "inputs" else ""
    for path, kind in kinds.items():
        text = f"have {kind} at {place + path!r}, expected {wanted[1][path]}, {origin}{remedy}"
        RULES.expect(kind == wanted[1][path], "sizes", name, text)
    return jax.tree.leaves(tree)


class _Values:
    """The values of a call, as bytes, as floats or as both."""

    def __init__(self, quantized: Quantized, leaves: Sequence[Any]) -> None:
        self.quantized, self.plan = quantized, quantized.plan
        inputs = map(jnp.asarray, leaves)
        self.reals = self.constants() | dict(zip(self.plan.program.inputs, inputs, strict=True))
        self.bytes: dict[int, Array] = {}
        steps = self.plan.steps
        self.fused = {s.fused.result: s.fused for s in steps if s.fused and self.fuses(s.fused)}
        for step in steps:
            if step.result in self.fused:
                continue
            if step.is_integer:
                with labels.layer((step.fused or step).name):
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
        values: Any = weights.values
        return values.unpack() if isinstance(values, PackedWeights) else values, bias, weights

    def quantize(self, real: Array, scale: Quantization) -> Array:
        return element_wise_quantize_linear(real, *scale, arithmetic=self.plan.arithmetic)

    def dequantize(self, integers: Array, scale: Quantization) -> Array:
        return element_wise_dequantize_linear(integers, *scale)

    def fuses(self, step: Step) -> bool:
        """If a layer and the sum that reads it are one operator."""
        return True

    def operator(self, function: Callable[..., Array]) -> Callable[..., Array]:
        """Returns the function that runs for an operator; the training twin returns its own."""
        return function

    def lookup(self, step: Step, x: Array) -> Array:
        return quantized_lookup(x, self.quantized.tables[step.result])

    def rescaled(self, number: int, scale: Quantization) -> Array:
        """A value in another scale."""
        if number in self.reals:
            return self.quantize(self.reals[number].astype(jnp.float32), scale)
        table = _table(self.plan, self.scale(number), scale, lambda x: x)
        return quantized_lookup(self.integers(number), table)

    def moved(self, equation: Equation, x: Array, scale: Quantization) -> Array:
        """Bytes, or floats that stand for them, after an equation that moves them."""
        if equation.name == "convert_element_type":  # of floats
            return x
        rest = [self.reals[other] for other in equation.operands[1:]]
        if equation.name == "pad":
            rest = [self.zero(scale).astype(x.dtype)]
        moved: Array = run(equation, [x, *rest])[0]
        return moved

    def zero(self, scale: Quantization) -> Array:
        return scale.zero_point

    def real(self, number: int) -> Array:
        if number not in self.reals:
            real = self.dequantize(self.integers(number), self.scale(number))
            self.reals[number] = real.astype(self.plan.program.dtypes[number])
        return self.reals[number]

    def integers(self, number: int) -> Array:
        if number in self.fused and number not in self.bytes:  # the report reads it
            self.bytes[number] = self._integers(self.fused[number])
        if number not in self.bytes:
            real = self.real(number).astype(jnp.float32)
            self.bytes[number] = self.quantize(real, self.scale(number))
        return self.bytes[number]

    def _integers(self, step: Step) -> Array:
        output = self.scale(step.result)
        if step.kind == "concatenation":
            parts = [self.rescaled(x, output) for x in step.operands]
            return concatenate(parts, step.equation.params["dimension"])
        if step.fused and step.fused.result in self.fused:
            return self._layer(step.fused, step)
        if step.kind in LAYERS:
            return self._layer(step)
        operands, options = [self.integers(x) for x in step.operands], step.options
        if step.kind == "move":
            return self.moved(step.equation, operands[0], output)
        if step.kind == "lookup":
            return self.lookup(step, operands[0])
        if step.kind == "max":
            return self.operator(max_pooling)(operands[0], **options)
        if step.kind in _BINARY:
            return self.operator(_BINARY[step.kind])(*operands, **self._of_binary(step))
        named = self._keywords(input=self.scale(step.operands[0]), output=output)
        windows = "window_size" in options
        pool = (
            quantized_linear_average_pooling if windows else quantized_linear_global_average_pooling
        )
        mean = self.operator(pool)(operands[0], **named, **options)
        return mean.reshape(self.plan.program.shapes[step.result])

    def _layer(self, step: Step, sum: Step | None = None) -> Array:
        """A convolution or a product, and the sum of its result and another value."""
        operands, output = [self.integers(x) for x in step.operands], self.scale(step.result)
        scales: list[Any] = [self.scale(x) for x in step.operands]
        if step.weights >= 0:
            values, bias, weights = self.layer(step)
            operands, scales = [*operands, values, bias], [*scales, weights]
        if sum is not None:
            addend_first = sum.operands[1] == step.result
            addend = sum.operands[not addend_first]
        if step.kind == "convolution":
            operands[0] = _spread(operands[0], step.spread, self.zero(scales[0]))
            named = self._keywords(input=scales[0], filter=scales[1], output=output) | step.options
            if sum is None:
                return self.operator(quantized_linear_convolution)(*operands, **named)
            named |= self._keywords(addend=self.scale(addend), sum=self.scale(sum.result))
            named["addend_first"] = addend_first
            operands.append(self.integers(addend))
            return self.operator(quantized_linear_convolution_add)(*operands, **named)
        sums, batch = contracted(step), batched(step)
        named = self._keywords(a=scales[0], b=scales[1], output=output)
        operands[0] = _rows(operands[0], sums[0], batch[0])
        if step.weights < 0:
            operands[1] = _columns(operands[1], sums[1], batch[1])
        if sum is not None:
            flat = operands[0].reshape(-1, operands[0].shape[-1])
            planned = QUANTIZED.plan(flat, *operands[1:], **named)
            other = self.integers(addend)
            terms = [other, jnp.zeros(other.shape, output.zero_point.dtype)]
            plan, added = ADD.plan(*terms[:: 1 if addend_first else -1], **self._of_binary(sum))
            total = plan, ADD.with_table(plan, added)
            return multiply_and_add(*MATMUL_ADD.plan(planned, total, addend_first))
        product = self.operator(quantized_linear_matrix_multiply)(*operands, **named)
        if step.swapped:  # the weights' axes come first
            product = jnp.moveaxis(product, -1, len(batch[0]))
        return product.reshape(self.plan.program.shapes[step.result])

    def _of_binary(self, step: Step) -> dict[str, Any]:
        a, b, output = (self.scale(x) for x in (*step.operands, step.result))
        return self._keywords(a=a, b=b, output=output)

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
        weights, bias = _folded(self.plan.program, step, self.all, self.quantized.factors)
        bias = _shifted(bias, self.quantized.shifts.get(step.result))
        rule = self.plan.rules[step.result]
        integers = _quantized_weights(step, rule, weights)
        return _rounded(weights, integers, rule.bits), bias, integers

    def quantize(self, real: Array, scale: Quantization) -> Array:
        return training.fake_quantize(real, *scale, arithmetic=self.plan.arithmetic)

    def dequantize(self, integers: Array, scale: Quantization) -> Array:
        return integers

    def fuses(self, step: Step) -> bool:
        return step.kind == "convolution"

    def operator(self, function: Callable[..., Array]) -> Callable[..., Array]:
        twin: Callable[..., Array] = getattr(training, function.__name__)
        return twin

    def lookup(self, step: Step, x: Array) -> Array:
        source, output = self.scale(step.operands[0]), self.scale(step.result)
        real = _chain(self.plan.program, step, self.reals, x)
        table = _table_of(self.plan, step, self.reals, source, output)
        values = quantized_lookup(super().quantize(x, source), table)
        limits = rounding.limits_of(values.dtype)
        return rounding.dequantize(limits, real, values, *output, jnp.isnan(real))

    def rescaled(self, number: int, scale: Quantization) -> Array:
        return self.quantize(self.real(number).astype(jnp.float32), scale)

    def zero(self, scale: Quantization) -> Array:
        return jnp.zeros(())

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


def _spread(x: Array, factors: Mapping[int, int], zero: Array) -> Array:
    """Puts zeros between the pixels of an image, in operators that ONNX has, too."""
    if all(n == 1 for n in factors.values()):
        return x
    pairs = [(size, factors.get(i, 1)) for i, size in enumerate(x.shape)]
    pads = [(0, end, 0) for _, factor in pairs for end in (0, factor - 1)]
    columns = x.reshape([n for size, _ in pairs for n in (size, 1)])
    wide = lax.pad(columns, zero.astype(x.dtype), pads)
    full = wide.reshape([size * factor for size, factor in pairs])
    return full[tuple(slice((size - 1) * factor + 1) for size, factor in pairs)]


def _rows(x: Array, sums: Sequence[int], batch: Sequence[int]) -> Array:
    """The first matrices of a product: with the axes that it sums over last, as one."""
    free = [i for i in range(x.ndim) if i not in (*batch, *sums)]
    sizes = [x.shape[i] for i in free]
    rows = [math.prod(sizes)] if batch else sizes
    k = math.prod(x.shape[i] for i in sums)
    return x.transpose(*batch, *free, *sums).reshape(*(x.shape[i] for i in batch), *rows, k)


def _columns(x: Array, sums: Sequence[int], batch: Sequence[int]) -> Array:
    """The second matrices of a product: (*batch, K, N)."""
    free = [i for i in range(x.ndim) if i not in (*batch, *sums)]
    sizes = [math.prod(x.shape[i] for i in axes) for axes in (sums, free)]
    return x.transpose(*batch, *sums, *free).reshape(*(x.shape[i] for i in batch), *sizes)


def _chain(program: Program, step: Step, constants: Mapping[int, Any], x: Array) -> Array:
    """The function that a lookup stands for, of an array of any shape."""
    values: dict[int, Any] = {step.operands[0]: x.astype(program.dtypes[step.operands[0]])}
    for equation in step.absorbed:
        for number in equation.operands:
            if number not in values:
                constant = jnp.ravel(constants[number])[0]
                values[number] = jnp.full(x.shape if program.shapes[number] else (), constant)
        results = run(equation, [values[number] for number in equation.operands])
        values |= zip(equation.results, results, strict=True)
    return jnp.asarray(values[step.result], jnp.float32)


def _table(
    plan: _Plan, source: Quantization, output: Quantization, function: Callable[[Array], Array]
) -> Array:
    """The table of a function of bytes of one scale to bytes of another."""
    every = np.arange(256, dtype=np.uint8).view(source.zero_point.dtype)
    reals = function(element_wise_dequantize_linear(np.sort(every), *source))
    return element_wise_quantize_linear(reals, *output, arithmetic=plan.arithmetic)


def _table_of(
    plan: _Plan,
    step: Step,
    constants: Mapping[int, Any],
    source: Quantization,
    output: Quantization,
) -> Array:
    return _table(plan, source, output, functools.partial(_chain, plan.program, step, constants))


def _folded(
    program: Program, step: Step, constants: Mapping[int, Any], factors: Mapping[int, Array]
) -> tuple[Array, Array]:
    """The float weights, (*batch, K, N) of a product, and the bias, with what follows folded in.

    A jitted program gives the bits of these operations alone. The factors are powers of two.
    """
    weights = jnp.asarray(constants[step.weights], jnp.float32)
    if step.kind == "product":
        weights = _columns(weights, contracted(step)[1], batched(step)[1])
        axis = weights.ndim - 1
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
    if step.operands[0] in factors:
        weights = weights * of_inputs(step, weights, factors[step.operands[0]])
    if step.result in factors:
        divisor = factors[step.result]
        weights, bias = weights / divisor.reshape(shape), bias / divisor
    return weights, bias


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
    program: Program,
    rules: Mapping[int, Rule],
    batches: Sequence[Any],
    progress: bool,
    divide: Callable[[dict[int, Any]], dict[int, Any]],
) -> dict[int, Any]:
    """The observers of values after all batches, in one scan."""

    def show(index: Array) -> None:
        end = "\n" if index + 1 == len(batches) else ""
        print(f"\rcalibrated with {index + 1} of {len(batches)} batches", end=end, flush=True)

    def step(constants: Any, seen: Any, batch: Any) -> Any:
        index, leaves = batch
        values = divide(_floats(program, constants, leaves))
        if progress:
            jax.debug.callback(show, index, ordered=True)
        return {number: x.observe(values[number]) for number, x in seen.items()}, None

    @jax.jit
    def scan(constants: Any, seen: Any, stacked: Any) -> Any:
        return lax.scan(functools.partial(step, constants), seen, stacked)[0]

    stacked = [jnp.stack(leaves) for leaves in zip(*batches, strict=True)]
    start = {number: rule.observer() for number, rule in rules.items()}
    observed: dict[int, Any] = scan(program.constants, start, (jnp.arange(len(batches)), stacked))
    return observed


def quantize(
    function: Callable[..., Any],
    params: Any,
    batches: Sequence[Any],
    *,
    rules: Sequence[Rule] = (),
    arithmetic: Arithmetic = "exact",
    bias_correction: bool = False,
    equalize: bool = False,
    on_unsupported: Literal["float", "error"] = "float",
    progress: bool = False,
) -> Quantized:
    """Quantizes a float function by rules, with scales from batches.

    Convolutions and products of a value with parameters become integer operators. The additions and
    multiplications per channel that follow (a bias, a batch norm), and then `max(x, 0)` and
    `min(x, c)`, become part of them. Max pools, means over all spatial axes and moves stay in
    integers where their inputs are, and so do sums and multiplications that layers read. All else
    runs in float between a dequantization and a quantization, and the report says why.

    Args:
      function: `function(params, *inputs)`, which JAX can trace.
      params: a pytree of arrays.
      batches: the inputs, one array or a tuple of `inputs` each, all of the same shapes.
      rules: the first that matches a layer's weights wins; default `Rule()` for all.
      arithmetic: "exact", or "float32" for the bits of ONNX Runtime's CPU kernels.
      bias_correction: True adds to each bias what the rounding of the weights takes from the mean
        of the layer's output on the first batch (Nagel et al., ICCV 2019). Tuning keeps these
        shifts. Near padding the mean is another.
      equalize: True divides each channel between two layers by a power of two, and multiplies the
        next weights by it, so that the channels of both have about the same range (Nagel et al.,
        ICCV 2019). Only `max(x, 0)` may lie between them.
      on_unsupported: "float" leaves a layer that no operator has in float, with a line in the
        report, as a `scan` of layers; "error" raises.
      progress: True prints how many batches the calibration has seen.

    Returns:
      A `Quantized`: call it with inputs as those of a batch, of any batch size.

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
    planner = Planner(program)
    steps = _named(planner)
    layers = [step for step in steps if step.kind not in ("float", "move")]
    keys = [("+".join(program.paths.get(x.weights, ())), x.kind) for x in layers]
    without = unsupported(program, steps)
    rules_of = choose(rules, keys, paths, [parameters for _, parameters in without])
    for step, parameters in without:
        step.why = "a rule" if is_float(rules, parameters) else step.why
    found = [
        f"{x.equation.name} at {x.equation.line}: {x.why}" for x, _ in without if x.why != "a rule"
    ]
    if on_unsupported == "error" and found:
        remedy = 'on_unsupported="float" leaves them in float'
        raise UnsupportedError(f"quantize: {'; '.join(found)}; {remedy}", "option", "function")
    by_layer = dict(zip((x.result for x in layers), rules_of, strict=True))
    integers = Integers(planner, steps, by_layer)
    steps, chosen = integers.steps, integers.rules
    factors: dict[int, Array] = {}
    if equalize:
        constants = program.constants
        folded = jax.jit(lambda c, s, f: _folded(program, s, c, f)[0], static_argnums=1)
        factors = factors_of(pairs_of(planner, steps), functools.partial(folded, constants))
    divide = functools.partial(divided, program, steps, factors)
    seen = _observed(program, chosen, flat, progress, divide)
    scales = {}
    for n in sorted(chosen):
        with _naming("batches", f"give no scale for {_place(program, steps, n)}"):
            scales[n] = calibration.quantization(seen[n], chosen[n].dtype)
    equations = [
        e for s in steps if s.weights < 0 or not s.is_integer for e in (s.equation, *s.absorbed)
    ]
    read = [x for equation in equations for x in equation.operands]
    kept = {x for x in [*read, *program.outputs] if x in program.constants}
    kept |= {x for x in program.constants if not program.paths[x]} | program.repeated(kept)
    constants = {x: jnp.asarray(program.constants[x]) for x in kept}
    plan = _Plan(
        program,
        steps,
        integers.roots,
        {number: rule for number, rule in by_layer.items() if rule is not None},
        arithmetic,
        tree,
        inputs=first,
        params=_kinds(params),
        function=function,
    )
    shifts = {}
    if bias_correction:
        shifts = jax.jit(functools.partial(_shifts, plan))(program.constants, flat[0], factors)
    quantized = Quantized(
        weights=_weights(plan, program.constants, scales, shifts, factors),
        scales=scales,
        constants=constants,
        tables=_tables(plan, program.constants, scales),
        shifts=shifts,
        factors=factors,
        plan=plan,
    )
    plan.report = _report(quantized, flat[0])
    program.constants = {}  # the pytree holds what a call reads
    return quantized


def _shifted(bias: Array, shift: Array | None) -> Array:
    return bias if shift is None else ieee.add(bias, shift)


def _shifts(
    plan: _Plan, constants: Mapping[int, Any], leaves: Sequence[Any], factors: Mapping[int, Array]
) -> dict[int, Array]:
    """The mean that rounded weights take from each output channel; padding is not counted."""
    values, found = _floats(plan.program, constants, leaves), {}
    values = divided(plan.program, plan.steps, factors, values)
    for step in plan.steps:
        if step.weights < 0 or not step.is_integer:
            continue
        weights, _ = _folded(plan.program, step, constants, factors)
        rule, x = plan.rules[step.result], values[step.operands[0]].astype(jnp.float32)
        error = weights - _rounded(weights, _quantized_weights(step, rule, weights), rule.bits)
        if step.kind == "convolution":
            lhs, rhs, _ = step.options["dimension_numbers"]
            groups, outputs = step.options["group_count"], weights.shape[rhs[0]]
            pixels = x.mean([i for i in range(x.ndim) if i != lhs[1]]).reshape(groups, -1)
            means = pixels / math.prod(step.spread.values())
            taps = error.transpose(rhs).reshape(groups, outputs // groups, means.shape[1], -1)
            found[step.result] = jnp.einsum("goit,gi->go", taps, means).reshape(-1)
        elif not batched(step)[0]:
            rows = _rows(x, contracted(step)[0], ())
            found[step.result] = rows.reshape(-1, rows.shape[-1]).mean(0) @ error
    return found


def _weights(
    plan: _Plan,
    constants: Mapping[int, Any],
    scales: Mapping[int, Quantization],
    shifts: Mapping[int, Array],
    factors: Mapping[int, Array],
) -> dict[int, tuple[QuantizedWeights, Array]]:
    """The integer weights and biases of the layers in integers."""
    found: dict[int, Any] = {}
    shared: dict[Any, QuantizedWeights] = {}
    for step in plan.steps:
        if step.weights >= 0 and step.is_integer:
            weights, bias = _folded(plan.program, step, constants, factors)
            bias = _shifted(bias, shifts.get(step.result))
            with _naming("params", f"give no scale for {step.name}"):
                integers = _quantized_weights(step, plan.rules[step.result], weights)
            scale = scales[plan.roots[step.operands[0]]].scale
            named = {"input_scale": scale, "filter_scale": integers.scale}
            if plan.rules[step.result].bits <= 4:
                packed: Any = PackedWeights.pack(integers.values, plan.rules[step.result].bits)
                integers = QuantizedWeights(packed, *integers[1:], integers.axis)
            affine = [x for x in step.affine if x[0] in ("mul", "div")]
            key = step.weights, str((step.equation.params, affine))
            integers = shared.setdefault(key, integers)  # of a layer that runs several times
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


def _tables(
    plan: _Plan, constants: Mapping[int, Any], scales: Mapping[int, Quantization]
) -> dict[int, Array]:
    """The tables of the lookups."""
    return {
        step.result: _table_of(
            plan,
            step,
            constants,
            *(scales[plan.roots[x]] for x in (*step.operands, step.result)),
        )
        for step in plan.steps
        if step.kind == "lookup"
    }


def _quantized_weights(step: Step, rule: Rule, weights: Array) -> QuantizedWeights:
    axis = None
    if rule.per_channel:
        axis = -1 if step.kind == "product" else step.options["dimension_numbers"].rhs_spec[0]
    return calibration.quantize_weights(
        weights, axis=axis, dtype=rule.weights_dtype, symmetric=rule.symmetric, bits=rule.bits
    )


def _report(quantized: Quantized, leaves: Sequence[Any]) -> Report:
    """Compares the first batch's values in float and in integers.

    Layers with the same weights are one line: its noise is the worst.
    """
    plan, program = quantized.plan, quantized.plan.program
    expected = jax.jit(functools.partial(_wanted, plan, quantized.factors))(
        program.constants, leaves
    )
    actual = jax.jit(
        lambda q, x: {n: _Values.real(v, n) for v in [_Values(q, x)] for n in plan.roots}
    )(quantized, leaves)
    errors = {x.name: x for x in calibration.error_report(_text(expected), _text(actual)).layers}
    lines: dict[Any, Line] = {}
    for step in plan.steps:
        integer, equation = step.is_integer, step.equation
        shapes = ([program.shapes[x] for x in numbers] for numbers in equation[1:3])
        sums = multiply_adds(equation.name, equation.params, *shapes)
        if step.kind == "move" or not (integer or step.why or sums):
            continue
        before = 0 if step.weights < 0 else 4 * int(np.prod(program.shapes[step.weights]))
        runs, noise, after = f"float: {step.why or 'its operands are no floats'}", np.nan, before
        key: Any = ("float", step.weights) if before else step.result
        if integer:
            runs, noise = (
                quantized.scales[plan.roots[step.result]].zero_point.dtype.name,
                errors[str(step.result)].signal_to_noise,
            )
            if before:
                held = {n: weights.values for n, (weights, _) in quantized.weights.items()}
                values = held[step.result]
                key, after = next(n for n, x in held.items() if x is values), values.nbytes
        kind = step.kind if integer else equation.name
        line = Line(step.name, kind, runs, noise, before, after, sums)
        if (same := lines.get(key)) is not None:
            noise, sums = np.fmin(noise, same.signal_to_noise), sums + same.multiply_adds
            line = same._replace(signal_to_noise=float(noise), multiply_adds=sums)
        lines[key] = line
    floats = Counter(
        x.place for x in plan.steps if x.kind != "move" and not (x.is_integer or x.why)
    )
    return Report(tuple(lines.values()), dict(floats))


def _wanted(
    plan: _Plan, factors: Mapping[int, Array], constants: Any, leaves: Any
) -> dict[int, Any]:
    values = _floats(plan.program, constants, leaves)
    values = divided(plan.program, plan.steps, factors, values)
    return {number: values[number] for number in plan.roots}


def _text(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(number): value for number, value in values.items()}

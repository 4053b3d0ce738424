"""Recurrent layers: one scan over the steps, both directions side by side.

The gates are `[direction, batch, gate * hidden]`. ONNX Runtime adds and clips in the same order,
and the logistic function and tanh are the rational functions that it computes.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

import dmlax
from dmlax._core import ieee
from dmlax._core.rational import logistic, tanh
from dmlax._core.requantize import Arithmetic
from dmlax.errors import UnsupportedError
from dmlax.onnx.errors import ModelError
from dmlax.onnx.graph import MICROSOFT
from dmlax.onnx.operators.moves import reverse_sequence
from dmlax.onnx.operators.table import Parameter, Quantized, Tensor, operator
from dmlax.onnx.operators.values import expect_equal_sizes, is_known, to_device

_FLIPS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_Cell = Callable[..., tuple[Array, ...]]
# Functions of x, alpha and beta, with ONNX Runtime's defaults of the parameters that they have.
_ACTIVATIONS: dict[str, tuple[Callable[..., Array], *tuple[float, ...]]] = {
    "affine": (lambda x, alpha, beta: alpha * x + beta, 0.0, 0.0),
    "relu": (lambda x: jnp.maximum(x, 0),),
    "leakyrelu": (lambda x, alpha: jnp.where(x >= 0, x, alpha * x), 0.01),
    "thresholdedrelu": (lambda x, alpha: jnp.where(x > alpha, x, 0), 0.0),
    "tanh": (tanh,),
    "scaledtanh": (lambda x, alpha, beta: alpha * jnp.tanh(beta * x), 0.0, 0.0),
    "sigmoid": (logistic,),
    "hardsigmoid": (lambda x, alpha, beta: jnp.clip(alpha * x + beta, 0, 1), 0.2, 0.5),
    "elu": (lambda x, alpha: jnp.where(x >= 0, x, alpha * jnp.expm1(jnp.minimum(x, 0))), 1.0),
    "softsign": (lambda x: x / (1 + jnp.abs(x)),),
    "softplus": (jax.nn.softplus,),
}
_Activation = tuple[str, *tuple[float, ...]]  # a name, and the parameters of its function


class Attributes(NamedTuple):
    """The attributes that the layers share."""

    hidden_size: int | None = None
    direction: str = "forward"
    clip: float | None = None
    activations: tuple[str, ...] | None = None
    activation_alpha: tuple[float, ...] = ()
    activation_beta: tuple[float, ...] = ()
    layout: int = 0


class Operands(NamedTuple):
    """The first inputs of a layer."""

    x: Tensor
    w: Tensor
    r: Tensor
    b: Tensor | None = None
    sequence_lens: Parameter | None = None
    initial_h: Tensor | None = None


class _Layer:
    """The operands of a layer, checked, with the steps as the first axis of `x`."""

    def __init__(
        self, operands: Operands, attributes: Attributes, defaults: tuple[str, ...], gates: int
    ) -> None:
        self.attributes, self.layout = attributes, attributes.layout
        if attributes.direction not in _FLIPS:
            raise ModelError(f"its direction is {attributes.direction!r}, expected {list(_FLIPS)}")
        self.flips = _FLIPS[attributes.direction]
        self.operands, x, r_shape = operands, to_device(operands.x), operands.r.shape
        if x.ndim != 3 or len(r_shape) != 3:
            raise ModelError(f"X has rank {x.ndim} and R rank {len(r_shape)}, expected 3")
        if x.dtype not in (np.float32, np.float16):
            raise UnsupportedError(f"X is {x.dtype}, expected float32 or float16")
        if self.layout not in (0, 1):
            raise ModelError(f"its layout is {self.layout}, expected 0 or 1")
        self.dtype = x.dtype
        self.x: Array = (jnp.swapaxes(x, 0, 1) if self.layout else x).astype(np.float32)
        self.steps, self.batch, self.inputs = self.x.shape
        hidden = attributes.hidden_size
        self.hidden = min(r_shape[1:]) if hidden is None else hidden
        self.gates = gates * self.hidden
        self.functions = self._functions(defaults)
        self.lengths = self._lengths(operands.sequence_lens)
        self.ends_in_zeros = False  # the state of a sequence that has ended, for the next step

    def _functions(self, defaults: tuple[str, ...]) -> list[tuple[_Activation, ...]]:
        """The activation functions, one tuple for every place of a cell."""
        names = self.attributes.activations or defaults * len(self.flips)
        if len(names) == 2 * len(defaults) and len(self.flips) == 1:
            names = names[: len(defaults)]  # ONNX Runtime reads the defaults of a RNN so
        if len(names) != len(defaults) * len(self.flips):
            expected = len(defaults) * len(self.flips)
            raise ModelError(f"it has {len(names)} activations, expected {expected}")
        values = iter(self.attributes.activation_alpha), iter(self.attributes.activation_beta)
        functions: list[_Activation] = []
        for name in map(str.lower, names):
            if name not in _ACTIVATIONS:
                raise UnsupportedError(f"its activation {name!r} is not known")
            _, *known = _ACTIVATIONS[name]
            functions.append((name, *map(next, values, known)))
        return [tuple(functions[place :: len(defaults)]) for place in range(len(defaults))]

    def _lengths(self, lengths: Tensor | None) -> Array | None:
        """The sequences' lengths on the device; None if all sequences have every step."""
        if lengths is None:
            return None
        self.expect("sequence_lens", lengths, self.batch)
        if is_known(lengths) and isinstance(self.steps, int):
            if (lengths < 0).any() or (lengths > self.steps).any():
                raise ModelError(f"sequence_lens has a length outside of 0 to {self.steps}")
            if (lengths == self.steps).all():
                return None
        return to_device(lengths)

    def expect(self, name: str, value: Tensor, *sizes: int) -> None:
        """Refuses an operand of another shape; a symbolic size is assumed to fit."""
        if len(value.shape) == len(sizes):
            for size, wanted in zip(value.shape, sizes, strict=True):
                expect_equal_sizes(wanted, size)
        if tuple(value.shape) != sizes:
            raise ModelError(f"{name} has the shape {list(value.shape)}, expected {list(sizes)}")

    def parameter(self, name: str, value: Tensor, *sizes: int) -> Array:
        """A float operand `[direction, ...]` of the expected shape."""
        self.expect(name, value, len(self.flips), *sizes)
        return to_device(value).astype(np.float32)

    @functools.cached_property
    def recurrent_weights(self) -> Array:
        """The weights of the state, `[direction, gates, hidden]`."""
        return self.parameter("R", self.operands.r, self.gates, self.hidden)

    def biases(self) -> list[Array]:
        """The biases `[direction, 1, gates]` of the input and of the state."""
        b = self.operands.b
        if b is None:
            b = jnp.zeros((len(self.flips), 2 * self.gates), np.float32)
        both = self.parameter("B", b, 2 * self.gates)
        return jnp.split(both[:, None], 2, axis=-1)

    def state(self, name: str, value: Tensor | None) -> Array:
        """An initial state `[direction, batch, hidden]`."""
        shape = (len(self.flips), self.batch, self.hidden)
        if value is None:
            return jnp.zeros(shape, np.float32)
        if self.layout:
            value = value.swapaxes(0, 1)
        return self.parameter(name, value, *shape[1:])

    def project(self) -> list[Array]:
        """The products of all steps and the input weights of every direction."""
        weights = self.parameter("W", self.operands.w, self.gates, self.inputs)
        axes = (((2,), (1,)), ((), ()))  # one product for all directions would copy `w` on a CPU
        highest = lax.Precision.HIGHEST
        return [lax.dot_general(self.x, part, axes, precision=highest) for part in weights]

    def activate(self, place: int, gates: Array) -> Array:
        """The activation function of a place in the cell, after the clip."""
        functions, clip = self.functions[place], self.attributes.clip
        if place < 2 and clip is not None and clip >= 0:
            gates = jnp.clip(gates, -clip, clip)
        if len(set(functions)) == 1:
            return _activate(functions[0], gates)
        return jnp.stack([_activate(*pair) for pair in zip(functions, gates, strict=True)])

    def scan(
        self, cell: _Cell, *states: Array, projected: Sequence[Array] | None = None
    ) -> tuple[Array, ...]:
        """The outputs of all steps, and the last states: in ONNX's shapes."""
        lengths, projected = self.lengths, self.project() if projected is None else projected
        initial = (self.state("initial_h", self.operands.initial_h), *states)

        def step(
            states: tuple[Array, ...], operands: tuple[Array, Array | None]
        ) -> tuple[tuple[Array, ...], Array]:
            gates, index = operands
            if lengths is None or index is None:
                new = cell(gates, *states)
                return new, new[0]
            h, goes_on = states[0], (index < lengths)[None, :, None]
            if self.ends_in_zeros:
                h = jnp.where((index <= lengths)[None, :, None], h, 0)
            new = cell(gates, h, *states[1:])
            pairs = zip(new, states, strict=True)
            kept = tuple(jnp.where(goes_on, after, before) for after, before in pairs)
            return kept, jnp.where(goes_on, new[0], 0)

        index = None if lengths is None else jnp.arange(self.steps)
        states, y = lax.scan(step, initial, (self.turn(projected), index))
        if lengths is not None:
            has_steps = (lengths > 0)[None, :, None]
            states = tuple(jnp.where(has_steps, state, 0) for state in states)
        y = self.turn([y[:, direction] for direction in range(len(self.flips))])
        if self.layout:
            y = y.transpose(2, 0, 1, 3)
            states = tuple(state.swapaxes(0, 1) for state in states)
        return tuple(x.astype(self.dtype) for x in (y, *states))

    def turn(self, values: Sequence[Array]) -> Array:
        """Stacks directions of `[step, batch, ...]`; a reverse direction's steps are reversed."""
        turned = [
            self._reverse(x) if flip else x for flip, x in zip(self.flips, values, strict=True)
        ]
        return jnp.stack(turned, axis=1)

    def _reverse(self, values: Array) -> Array:
        if self.lengths is None:
            return jnp.flip(values, 0)
        return reverse_sequence(values, self.lengths, batch_axis=1, time_axis=0)


def _multiply_state(h: Array, r: Array) -> Array:
    """The product of a state and the recurrent weights of its direction."""
    axes = (((2,), (2,)), ((0,), (0,)))
    return lax.dot_general(h, r, axes, precision=lax.Precision.HIGHEST)


def _activate(activation: _Activation, x: Array) -> Array:
    """Computes an activation function."""
    name, *parameters = activation
    return _ACTIVATIONS[name][0](x, *parameters)


@operator("RNN", 1, 7, 14, 22, ignores=["output_sequence"])
def rnn(operands: Operands, *, attributes: Attributes) -> tuple[Array, ...]:
    """h = f(x W + h R + b) for every step."""
    layer = _Layer(operands, attributes, ("tanh",), 1)
    weights, (of_input, of_state) = layer.recurrent_weights, layer.biases()
    bias = 0 + of_input + of_state

    def cell(gates: Array, h: Array) -> tuple[Array, ...]:
        return (layer.activate(0, gates + bias + _multiply_state(h, weights)),)

    return layer.scan(cell)


@operator("GRU", 1, 3, 7, 14, 22, ignores=["output_sequence"])
def gru(
    operands: Operands, *, attributes: Attributes, linear_before_reset: int = 0
) -> tuple[Array, ...]:
    """A gated recurrent unit; the gates are update, reset and hidden."""
    layer = _Layer(operands, attributes, ("sigmoid", "tanh"), 3)
    size, weights, (of_input, of_state) = layer.hidden, layer.recurrent_weights, layer.biases()
    r_gates = weights if linear_before_reset else weights[:, : 2 * size]
    r_hidden = weights[:, 2 * size :]

    def cell(gates: Array, h: Array) -> tuple[Array, ...]:
        products = _multiply_state(h, r_gates)
        both = (gates + of_input + of_state)[..., : 2 * size] + products[..., : 2 * size]
        update, reset = jnp.split(layer.activate(0, both), 2, axis=-1)
        hidden, bias = (gates + of_input)[..., 2 * size :], of_state[..., 2 * size :]
        if linear_before_reset:
            hidden = hidden + reset * (products[..., 2 * size :] + bias)
        else:
            hidden = hidden + bias + _multiply_state(reset * h, r_hidden)
        return ((1 - update) * layer.activate(1, hidden) + update * h,)

    return layer.scan(cell)


@operator("LSTM", 1, 7, 14, 22, ignores=["output_sequence"])
def lstm(
    operands: Operands,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    attributes: Attributes,
    input_forget: int = 0,
) -> tuple[Array, ...]:
    """A long short-term memory; the gates are input, output, forget and cell."""
    layer = _Layer(operands, attributes, _LSTM_ACTIVATIONS, 4)
    weights = layer.recurrent_weights

    def add_product(h: Array, gates: Array) -> Array:
        return gates + _multiply_state(h, weights)

    cell = _lstm_cell(layer, add_product, p, bool(input_forget))
    return layer.scan(cell, layer.state("initial_c", initial_c))


_LSTM_ACTIVATIONS = ("sigmoid", "tanh", "tanh")


def _lstm_cell(
    layer: _Layer,
    add_product: Callable[[Array, Array], Array],
    p: Tensor | None,
    input_forget: bool,
) -> _Cell:
    """One step of a LSTM, which returns h and c.

    Its products are guarded, as ONNX Runtime contracts none. The gates without peepholes share one
    activation, which a CPU computes in one loop.
    """
    size, bias = layer.hidden, None
    if layer.operands.b is not None:
        of_input, of_state = layer.biases()
        bias = 0 + of_input + of_state
    peepholes = None if p is None else layer.parameter("P", p, 3 * size)[:, None]

    def close(place: int, gates: Array, first: int, last: int, c: Array | None = None) -> Array:
        part = (..., slice(first * size, last * size))
        gates = gates[part]
        if c is not None and peepholes is not None:
            gates = gates + ieee.multiply(peepholes[part], c)
        return layer.activate(place, gates if bias is None else gates + bias[part])

    def cell(gates: Array, h: Array, c: Array) -> tuple[Array, ...]:
        gates = add_product(h, gates)
        if peepholes is None:
            input, output, forget = jnp.split(close(0, gates, 0, 3), 3, axis=-1)
        else:
            input, forget = (close(0, gates, place, place + 1, c) for place in (0, 2))
        forget = 1 - input if input_forget else forget
        c = ieee.multiply(c, forget) + ieee.multiply(input, close(1, gates, 3, 4))
        output = output if peepholes is None else close(0, gates, 1, 2, c)
        return layer.activate(2, c) * output, c

    return cell


@operator("DynamicQuantizeLSTM", 1, domain=MICROSOFT)
def dynamically_quantized_lstm(
    operands: Operands,
    initial_c: Tensor | None,
    p: Tensor | None,
    w_scale: Parameter,
    w_zero_point: Parameter,
    r_scale: Parameter,
    r_zero_point: Parameter,
    *,
    attributes: Attributes,
    input_forget: int = 0,
    arithmetic: Arithmetic,
    has_first_output: bool,
) -> tuple[Array, ...]:
    """A LSTM that quantizes all inputs at once, and the state of a step by its range.

    The range of a state is that of the whole batch, as ONNX Runtime takes it with one thread. It
    has zeros for the sequences that have ended, or their last states if Y is absent.
    """
    layer = _Layer(operands, attributes, _LSTM_ACTIVATIONS, 4)
    layer.ends_in_zeros = has_first_output
    w = Quantized(operands.w, w_scale, w_zero_point)
    r = Quantized(operands.r, r_scale, r_zero_point)
    of_input = _Weights(layer, "W", w, layer.inputs, arithmetic)
    of_state = _Weights(layer, "R", r, layer.hidden, arithmetic)

    def add_product(h: Array, gates: Array) -> Array:
        return of_state.multiply(*jax.vmap(of_state.quantize)(h), gates)

    rows = layer.x
    if layer.lengths is not None:  # ONNX Runtime reads no step after the longest sequence
        reads = jnp.arange(layer.steps) < layer.lengths.max()
        rows = jnp.where(reads[:, None, None], rows, 0)
    levels = of_input.quantize(rows.reshape(layer.steps * layer.batch, layer.inputs))
    products = of_input.multiply(*levels).reshape(-1, layer.steps, layer.batch, layer.gates)
    cell = _lstm_cell(layer, add_product, p, bool(input_forget))
    return layer.scan(cell, layer.state("initial_c", initial_c), projected=list(products))


class _Weights:
    """Quantized weights `[direction, depth, gates]`, and the products that read them."""

    def __init__(
        self, layer: _Layer, name: str, weights: Quantized, depth: int, arithmetic: Arithmetic
    ) -> None:
        directions, gates = len(layer.flips), layer.gates
        levels, scale, zero_point = weights
        layer.expect(name, levels, directions, depth, gates)
        for suffix, value in (("scale", scale), ("zero_point", zero_point)):
            if value is not None and value.shape not in ((directions,), (directions, gates)):
                text = f"{name}_{suffix} has the shape {list(value.shape)}, expected"
                raise ModelError(f"{text} {[directions]} or {[directions, gates]}")
        self.weight, self.arithmetic = levels, arithmetic
        self.scale = scale.reshape(directions, 1, -1)
        self.zero_point = None
        if zero_point is not None and not isinstance(levels, dmlax.PreparedMatrix):
            self.zero_point = zero_point.reshape(directions, 1, -1)
        self.quantize = functools.partial(dmlax.dynamic_quantize_linear, arithmetic=arithmetic)

    def multiply(
        self, rows: Array, scale: Array, zero_point: Array, addend: Array | None = None
    ) -> Array:
        """The product as floats, plus an addend; rows may have parameters per direction."""
        scale, zero_point = scale.reshape(-1, 1, 1), zero_point.reshape(-1, 1, 1)
        points: dict[str, Any] = {"a_zero_point": zero_point, "b_zero_point": self.zero_point}
        if self.arithmetic == "exact":
            points |= {"a_scale": scale, "b_scale": self.scale, "arithmetic": "exact"}
            return dmlax.matrix_multiply_integer_to_float(rows, self.weight, addend, **points)
        # XLA fuses the scaling with the functions of the gates.
        sums = dmlax.matrix_multiply_integer(rows, self.weight, **points).astype(np.float32)
        product = ieee.multiply(sums, scale * to_device(self.scale))
        return product if addend is None else addend + product

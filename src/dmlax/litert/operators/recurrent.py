"""LSTM and SVDF, whose states are the operator's last outputs."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

import dmlax
from dmlax._core import fixed_point
from dmlax._core.fixed_point import Multiplier
from dmlax.errors import UnsupportedError
from dmlax.litert.operators.fixed_functions import FixedFunctions
from dmlax.litert.operators.table import Call, Info, operator
from dmlax.onnx.errors import ModelError

_16 = FixedFunctions(16)


def _saturate(x: Array) -> Array:
    return jnp.clip(x, -32768, 32767)


def _scaled(x: Array, real: Any) -> Array:
    """An int16 in an int32: a sum times a factor."""
    return _saturate(fixed_point.scale_half_away(x, Multiplier.of(real)))


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(call: Call, x: Array, *operands: Array | None) -> tuple[Array, Array, Array]:
    """An LSTM over a sequence; operands as LiteRT numbers them, from 1 on."""
    names: dict[int, Any] = {0: x, **dict(enumerate(operands, 1))}
    absent = [names.get(i) is None for i in (2, 3, 4, 6, 7, 8, 13, 14, 15, 18, 19)]
    extra = [i for i in (9, 10, 11, 16, 17, 20, 21, 22, 23) if names.get(i) is not None]
    if any(absent) or extra or call.diagonal:
        text = "an operand is absent" if any(absent) else "it has peepholes, a projection or norms"
        raise UnsupportedError(f"{text}, which is not computed")
    if (names.get(1) is None) != (names.get(5) is None):
        raise ModelError("one of its input gate's weights is absent")
    sequence = x if call.time_major else jnp.swapaxes(x, 0, 1)
    is_integer = call.info(0).is_quantized
    step = _byte_step(call, names) if is_integer else _float_step(call, names)
    state = names[18], names[19]
    (hidden, cell), outputs = lax.scan(step, state, sequence)
    return outputs if call.time_major else jnp.swapaxes(outputs, 0, 1), hidden, cell


def _float_step(call: Call, names: dict[int, Any]) -> Any:
    """A step on floats."""
    if call.info(2).dtype.kind != "f":
        raise UnsupportedError("its weights are integers and its input is not")

    def gate(place: int, x: Array, hidden: Array) -> Array:
        total = jnp.matmul(x, names[1 + place].T, precision=lax.Precision.HIGHEST)
        total += jnp.matmul(hidden, names[5 + place].T, precision=lax.Precision.HIGHEST)
        gated: Array = total + names[12 + place]
        return gated

    def step(state: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
        hidden, cell = state
        forget = jax.nn.sigmoid(gate(1, x, hidden))
        has_input = names.get(1) is not None
        entry = jax.nn.sigmoid(gate(0, x, hidden)) if has_input else 1 - forget
        cell = forget * cell + entry * call.activate(gate(2, x, hidden))
        cell = jnp.clip(cell, -call.cell_clip, call.cell_clip) if call.cell_clip > 0 else cell
        hidden = jax.nn.sigmoid(gate(3, x, hidden)) * call.activate(cell)
        return (hidden, cell), hidden

    return step


def _byte_step(call: Call, names: dict[int, Any]) -> Any:
    """A step on int8 with a cell of int16, in fixed point; all resolvers give these bits."""
    source, hidden_info, cell_info = call.info(0), call.info(18), call.info(19)
    if source.dtype != np.int8 or cell_info.dtype != np.int16 or call.fused != "TANH":
        raise UnsupportedError(f"it is of {source.dtype} with the activation {call.fused!r}")
    power = round(math.log2(cell_info.real))
    if cell_info.real != 2.0**power or not -15 <= power <= -9:
        raise UnsupportedError(f"its cell has the scale {cell_info.real}, expected 2**-15 to 2**-9")
    last = call.infos[call.operand_count + 1 :][4:5]  # the fifth intermediate tensor
    out = last[0] if last and last[0] is not None else hidden_info
    clip = math.trunc(call.cell_clip / cell_info.real) if call.cell_clip > 0 else 32767
    bits = 15 + power

    def part(x: Array, info: Info, place: int, bias: Any = 0) -> Array:
        weights = call.info(place)
        zero = np.array(info.zero_point, np.int8)
        sums = dmlax.matrix_multiply_integer(x, names[place].T, a_zero_point=zero) + bias
        return _scaled(sums, 4096 * (info.scale * weights.scales).astype(np.float64))

    def gate(place: int, x: Array, hidden: Array) -> Array:
        of_input = part(x, source, 1 + place, names[12 + place])
        total = _saturate(of_input + part(hidden, hidden_info, 5 + place))
        return _16.tanh(total, 3) if place == 2 else _16.logistic(total, 3)

    def step(state: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
        hidden, cell = state
        forget = gate(1, x, hidden)
        entry = (
            gate(0, x, hidden) if names.get(1) is not None else jnp.minimum(32768 - forget, 32767)
        )
        kept = _saturate(fixed_point.divide_half_away(forget * cell.astype(jnp.int32), 15))
        product = entry * gate(2, x, hidden)
        added = _saturate(fixed_point.divide_half_away(product, 30 + power))
        cell = jnp.clip(_saturate(kept + added), -clip, clip)
        opened = gate(3, x, hidden) * _16.tanh(cell, bits)
        scaled = fixed_point.scale_half_away(
            opened, Multiplier.of(float(np.float32(2.0**-30) / out.scale))
        )
        hidden = jnp.clip(scaled + out.zero_point, -128, 127).astype(jnp.int8)
        return (hidden, cell.astype(jnp.int16)), hidden

    return step


@operator("SVDF")
def svdf(
    call: Call, x: Array, features: Array, times: Array, bias: Array | None, state: Array
) -> tuple[Array, Array]:
    """Filters of rank `rank` over features and time; the state holds earlier features."""
    memory, rank = times.shape[1], call.rank
    units = features.shape[0] // max(rank, 1)
    rows = x.reshape(-1, features.shape[1])
    window = state.reshape(rows.shape[0], -1, memory)
    if not call.info(0).is_quantized:
        if features.dtype != jnp.float32 or x.dtype != jnp.float32:
            raise UnsupportedError(f"it is of {x.dtype} by {features.dtype}, expected float32")
        newest = jnp.matmul(rows, features.T, precision=lax.Precision.HIGHEST)
        window = jnp.concatenate([window[..., 1:], newest[..., None]], -1)
        total = (window * times).sum(-1).reshape(-1, units, rank).sum(-1)
        total = total if bias is None else total + bias
        return call.activate(total), window.reshape(state.shape)
    source, feature, time, held = (call.info(place) for place in (0, 1, 2, 4))
    if held.dtype != np.int16:
        raise UnsupportedError(
            f"its state is {held.dtype}: LiteRT leaves that undefined; use int16"
        )
    if call.fused != "RELU":
        raise UnsupportedError(f"its fused activation is {call.fused!r}, expected 'RELU'")
    zero = np.array(source.zero_point, source.dtype)
    sums = dmlax.matrix_multiply_integer(rows, features.T, a_zero_point=zero)
    newest = _scaled(sums, float(source.scale * feature.scale / held.scale)).astype(jnp.int16)
    window = jnp.concatenate([window[..., 1:], newest[..., None]], -1)
    total = (window.astype(jnp.int32) * times.astype(jnp.int32)).sum(-1)
    total = total.reshape(-1, units, rank).sum(-1)
    total = total if bias is None else total + bias
    by = Multiplier.of(float(held.scale * time.scale / call.output.scale))
    y = fixed_point.scale_half_away(total, by) + call.output.zero_point
    limits = np.iinfo(call.output.dtype)
    return jnp.clip(y, limits.min, limits.max).astype(call.output.dtype), window.reshape(
        state.shape
    )

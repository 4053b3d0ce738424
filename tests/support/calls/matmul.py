"""Random matrix products, and what they should give by NumPy's integers and fractions."""

import dataclasses
import functools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import ArrayLike

import dmlax
from dmlax._core import dispatch
from dmlax._operators.matmul import api, xla
from support import draw, random_calls, requantized, wild_floats


def lower_padded(plan: Any, operands: Any) -> jax.Array:
    return xla._multiply(plan, True, operands)


def run_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has `xla` pad the contraction, as on CUDA, which a CPU computes as well."""
    monkeypatch.setattr(xla, "run", lower_padded)
    lowerings = (dispatch.Lowering("xla", lower_padded),)
    for name in ("INTEGER", "QUANTIZED", "TO_FLOAT"):
        padded = dataclasses.replace(getattr(api, name), lowerings=lowerings)
        monkeypatch.setattr(api, name, padded)


def sums(
    a: np.ndarray, b: np.ndarray, a_zero_point: ArrayLike = 0, b_zero_point: ArrayLike = 0
) -> np.ndarray:
    """int32 sums, wrapped."""
    left = a.astype(np.int64) - np.asarray(a_zero_point, np.int64)
    right = b.astype(np.int64) - np.asarray(b_zero_point, np.int64)
    return np.matmul(left, right).astype(np.int32)


def rounded(value: Fraction, dtype: type[np.floating]) -> np.floating:
    """A fraction, rounded once to float32 or float16."""
    info = np.finfo(dtype)
    if value == 0:
        return dtype(0)
    top = value.numerator.bit_length() - value.denominator.bit_length()
    top -= abs(value) < Fraction(2) ** top
    unit = Fraction(2) ** (max(top, info.minexp) - info.nmant)
    result = round(value / unit) * unit
    sign = -1 if value < 0 else 1
    size = abs(result)
    return dtype(sign * (np.inf if size >= Fraction(2) ** info.maxexp else float(size)))


def scaled_sums(
    total: np.ndarray,
    a_scale: ArrayLike,
    b_scale: ArrayLike,
    bias: np.ndarray | None,
    dtype: type[np.floating],
) -> np.ndarray:
    """total * a_scale * b_scale + bias, rounded once; a bias that is not finite is the result."""
    bias = np.zeros((), dtype) if bias is None else bias
    operands = np.broadcast_arrays(total, a_scale, b_scale, bias)
    found = [
        rounded(int(s) * Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), dtype)
        if np.isfinite(z)
        else z
        for s, x, y, z in zip(*(each.reshape(-1) for each in operands), strict=True)
    ]
    return np.array(found, dtype).reshape(operands[0].shape)


def float_cases(count: int, dtype: type[np.floating] = np.float32) -> tuple[np.ndarray, ...]:
    """Sums, scales and biases of a dtype: wild, cancelling, ties of the last bit, sticky bits."""
    rng = np.random.default_rng(5)
    total = draw(1, np.int32, count) >> rng.integers(0, 32, count)
    sa, sb, bias = (wild_floats(seed, count) for seed in (2, 3, 4))
    usual = np.arange(count) % 4 > 0
    sa = np.where(usual, rng.uniform(0.5, 2, count), sa).astype(np.float32)
    sb = np.where(usual, rng.uniform(-2, 2, count), sb).astype(np.float32)
    with np.errstate(all="ignore"):
        product = total.astype(np.float64) * sa * sb
        cancel, near = np.arange(count) % 4 == 1, np.arange(count) % 4 == 2
        bias = np.where(cancel, -product, bias)
        bias = np.where(near, product * 2.0 ** rng.integers(-80, 80, count), bias)
        bias = bias.astype(np.float32)
    tie = np.arange(count) % 4 == 3
    spacing = np.abs(np.spacing(bias))
    sa = np.where(tie, np.where(np.isfinite(spacing) & (spacing > 0), spacing, 1), sa)
    sb = np.where(tie, np.float32(0.5) * (1 + rng.integers(-1, 2, count) * 2.0**-23), sb)
    total = np.where(tie, rng.choice([1, -1, 3], count), total).astype(np.int32)
    total[:2], bias[-3:], bias[2:4] = -(2**31), [np.nan, np.inf, -np.inf], -0.0
    total[2] = 0
    with np.errstate(over="ignore"):
        bias = bias.astype(dtype)
    return total, sa.astype(np.float32), sb.astype(np.float32), bias


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["x", "b", "parameters"],
    meta_fields=["operator", "options", "packing", "mapped"],
)
@dataclass(frozen=True)
class Call:
    """One call of an operator, a pytree."""

    operator: str
    x: np.ndarray
    b: np.ndarray
    parameters: dict[str, Any]  # keywords, and "bias"
    options: tuple[tuple[str, str], ...]  # static ones by keyword
    packing: str  # "": the matrix is not prepared
    mapped: bool  # over the first axis of both

    def __call__(self, implementation: str) -> jax.Array:
        """Outputs by dmlax."""
        given = dict(self.parameters)
        b: np.ndarray | dmlax.PreparedMatrix = self.b
        bias = given.pop("bias", None)
        function = getattr(dmlax, self.operator)
        if self.packing:
            zero = given.pop("b_zero_point", None)
            b = dmlax.prepare_matrix(b, b_zero_point=zero, packing=self.packing)
        first = () if bias is None else (bias,)
        options = dict(self.options) | given
        call = functools.partial(function, **options, implementation=implementation)
        if self.mapped:
            return jax.vmap(lambda a, b: call(a, b, *first))(self.x, b)
        return call(self.x, b, *first)

    def expected(self) -> np.ndarray:
        """Outputs by NumPy's integers and, where scaled, rational numbers."""
        given = self.parameters
        total = sums(self.x, self.b, given.get("a_zero_point", 0), given.get("b_zero_point", 0))
        if "a_scale" not in given:
            return total
        options = dict(self.options)
        single = options.get("arithmetic") == "float32"
        bias, dtype = given.get("bias"), np.dtype(options["output_dtype"])
        scales = [
            given[f"{name}_scale"] for name in ("a", "b", "output") if f"{name}_scale" in given
        ]
        if self.operator == "matrix_multiply_integer_to_float":
            return (
                _single_floats(total, *scales, bias, dtype)
                if single
                else scaled_sums(total, *scales, bias, dtype.type)
            )
        total = total.astype(np.int64) + (0 if bias is None else bias.astype(np.int64))
        zero = given.get("output_zero_point", np.zeros((), dtype))
        if not single:
            return requantized(total, scales, zero, dtype)
        limits = np.iinfo(dtype)
        low, high = limits.min - zero.astype(int), limits.max - zero.astype(int)
        with np.errstate(over="ignore", invalid="ignore"):
            product = total.astype(np.float32) * ((scales[0] * scales[1]) / scales[2])
        product = np.where(np.isnan(product), low, product)
        return (np.rint(np.clip(product, low, high)) + zero.astype(int)).astype(dtype)


def _single_floats(total: np.ndarray, a: Any, b: Any, bias: Any, dtype: Any) -> np.ndarray:
    """Each operation rounded."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = total.astype(np.float32) * (a * b)
        result = product if bias is None else product + bias.astype(np.float32)
        return result.astype(dtype)


OPERATORS = (
    "matrix_multiply_integer",
    "quantized_linear_matrix_multiply",
    "matrix_multiply_integer_to_float",
)


def call(seed: int) -> Call:
    """A random call; every tenth is large enough for several tiles."""
    rng = np.random.default_rng(seed)
    large = seed % 10 == 0
    m = int(rng.choice([1, 3, 8, 17, *([65, 130, 200] if large else [])]))
    k = int(rng.choice([1, 3, 4, 16, 31, 48, 64, 100, 128, 272, *([700, 1024] if large else [])]))
    n = int(rng.choice([1, 2, 5, 8, 16, 33, 50, *([64, 96, 130] if large else [])]))
    batches: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((), ()),
        ((), ()),
        ((2,), ()),
        ((), (3,)),
        ((2,), (2,)),
        ((2, 1), (1, 3)),
        ((1,), (1,)),
    ]
    of_a, of_b = batches[int(rng.integers(len(batches)))]
    operator = OPERATORS[seed % 3]
    a_dtype, b_dtype, output = (str(x) for x in rng.choice(["int8", "uint8"], 3))
    a, b = draw(seed + 1, a_dtype, (*of_a, m, k)), draw(seed + 2, b_dtype, (*of_b, k, n))
    if rng.random() < 0.1:
        a, b = np.full_like(a, np.iinfo(a_dtype).max), np.full_like(b, np.iinfo(b_dtype).min)
    batch = np.broadcast_shapes(of_a, of_b)
    per_row = rng.random() < 0.3
    row = (m, 1) if per_row else ()
    column: tuple[int, ...] = (n,) if rng.random() < 0.5 else ()
    if column and of_b and rng.random() < 0.4:
        column = (*of_b, 1, n)
    found: dict[str, Any] = {
        "a_zero_point": draw(seed + 3, a_dtype, row),
        "b_zero_point": draw(seed + 4, b_dtype, column),
    }
    if operator == OPERATORS[1]:
        found["output_zero_point"] = draw(seed + 5, output, row)
        found["bias"] = draw(seed + 6, np.int32, n) >> int(rng.integers(0, 24))
    elif operator == OPERATORS[2]:
        output = str(rng.choice(["float32", "float16"]))
        found["bias"] = rng.normal(size=n).astype(output)
    present = {"output_zero_point": 0.7, "bias": 0.4}
    options = {}
    found = {x: value for x, value in found.items() if rng.random() < present.get(x, 0.7)}
    if operator != OPERATORS[0]:
        found |= _scales(rng, k, row, column)
        options["output_dtype"] = output
        if operator == OPERATORS[2]:
            del found["output_scale"]
        if rng.random() < 0.3:
            options["arithmetic"] = "float32"
    equal = bool(of_a) and of_a == of_b and column in ((), (n,))
    return Call(
        operator,
        a,
        b,
        found,
        tuple(options.items()),
        "" if equal else random_calls.PACKINGS[int(rng.random() * 4)],
        equal and len(batch) == 1,
    )


def _scales(rng: np.random.Generator, depth: int, row: Any, column: Any) -> dict[str, Any]:
    """Scales that spread the outputs, or give ties, or wild ones."""
    a, b = rng.uniform(0.005, 0.015, row), rng.uniform(0.5, 1.5, column)
    output = 0.01 * 74 * 74 * depth**0.5 / 60 * rng.uniform(0.5, 2, row)
    kind = rng.random()
    if kind < 0.3:  # many exact ties
        a, b, output = 0.5, 2.0 ** rng.integers(-12, 2, column), -np.ones(row)
    elif kind < 0.4:
        a, b, output = (np.ldexp(1.5, power) for power in rng.integers(-60, 60, 3))
    return {
        f"{name}_scale": np.asarray(value, np.float32)
        for name, value in (("a", a), ("b", b), ("output", output))
    }


mismatches = functools.partial(random_calls.find_mismatches, call, known=False)

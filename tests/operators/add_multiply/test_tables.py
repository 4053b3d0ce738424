"""The table of every pair, which a GPU's program has that knows all parameters."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax._core import pairs
from dmlax._operators.add_multiply import arithmetic as formulas
from dmlax._operators.add_multiply.api import ADD, MULTIPLY

SHAPE = (64, 32)
SCALES = {name: np.float32(0.1) for name in ("a_scale", "b_scale", "output_scale")}
ZERO_POINTS = ("a_zero_point", "b_zero_point", "output_zero_point")
OPERATORS = {"add": ADD, "multiply": MULTIPLY}


@pytest.mark.parametrize("kind", OPERATORS)
@pytest.mark.parametrize("arithmetic", ["exact", "float32"])
@pytest.mark.parametrize("dtypes", [(np.uint8, np.int8, np.uint8), (np.int8, np.uint8, np.int8)])
def test_the_table_is_that_of_the_program(kind, arithmetic, dtypes):
    generator, operator = np.random.default_rng(0), OPERATORS[kind]
    a, b = (np.zeros(SHAPE, dtype) for dtype in dtypes[:2])
    scales = {name: generator.uniform(0.01, 0.1, 1).astype(np.float32) for name in SCALES}
    points = {
        name: generator.integers(0, 100, 1).astype(dtype)
        for name, dtype in zip(ZERO_POINTS, dtypes, strict=True)
    }
    plan, operands = operator.plan(a, b, arithmetic=arithmetic, **scales, **points)

    def table(*values):
        function = formulas.of_elements(plan)
        return pairs.make_table(function, a.dtype, b.dtype, values, pairs.spread_over_banks)

    expected = np.asarray(jax.jit(table)(*operands.parameters)).view(np.uint8)
    np.testing.assert_array_equal(np.asarray(operator._table(plan, operands)), expected)


def lines(lowered, **scales):
    multiply = partial(dmlax.element_wise_quantized_linear_multiply, arithmetic="float32")
    struct = jax.ShapeDtypeStruct(SHAPE, jnp.uint8)
    names = [name for name, scale in scales.items() if scale is None]
    known = {name: scale for name, scale in scales.items() if scale is not None}

    def call(a, b, *traced):
        return multiply(a, b, **known, **dict(zip(names, traced, strict=True)))

    traced = [jax.ShapeDtypeStruct((), jnp.float32)] * len(names)
    return re.findall(
        "stablehlo[.](?:multiply|custom_call)", lowered(call, struct, struct, *traced)
    )


def test_a_program_that_knows_its_scales_only_looks_up(lowered):
    assert lines(lowered, **SCALES) == ["stablehlo.custom_call"]


def test_a_program_of_traced_scales_computes_few_elements(lowered):
    found = lines(lowered, **SCALES | {"a_scale": None})
    assert "stablehlo.custom_call" not in found
    assert "stablehlo.multiply" in found

"""ONNX's own test cases of the operators that `dmlax.onnx` has; the first of each in every run."""

import functools
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.reference.ops import op_pool_common

import dmlax
import dmlax.onnx
from dmlax.onnx.operators import rows
from dmlax.onnx.operators.declined import DECLINED as DECLINED_OPERATORS
from dmlax.onnx.operators.declined import EXPANDED

ERRORS = (dmlax.UnsupportedError, dmlax.SpecError, dmlax.onnx.ModelError)
LARGE = 10_000  # outputs
ROWS = {(row.domain, row.op): row for row in rows()}
DECLINED = {  # cases, and the reason that `load` gives; the first that matches a case is meant
    r"cast\w*_DOUBLE\w*|\w+_float64\w*|einsum_(?!\w*bfloat16)\w+|cum(sum|prod)_[12]d_(?!\w*int32)\w+"
    r"|cum(sum|prod)_1d|eyelike_with_dtype|reduce_log_sum_exp_(?!empty_set$)\w+": (
        "float64 on a device needs x64"
    ),
    r"cast\w*_to_(FLOAT4|FLOAT8E8M0)\w*": r"its data type \w+ is not known",
    r"(de)?quantizelinear_float4\w*": "float4_e2m1fn, expected an integer of 2 to 16 bits",
    r"training_dropout\w*": "training_mode is computed, expected a constant false",
    r"equal_string\w*": "dtype object",
    r"identity_(opt|sequence)|loop13_seq|loop16_seq_none": "is not a tensor",
    r"if_opt": "has the type 13, which is not read",
    r"if_seq": "SequenceConstruct: ",
    r"range_\w+_expanded": "and no constant limits these",
    r"qlinearmatmul_\w+_float16": "AScaleTensor is float16",
    r"scan_sum": "its form of opset 8 is not known",
}


DIFFERENT = {  # cases whose numbers are not those of ONNX Runtime, and of dmlax
    "attention_4d_causal_bf16": "probabilities are rounded to bfloat16 at another step",
    "attention_4d_causal_padded_kv_bf16": "probabilities are rounded to bfloat16 at another step",
    "maxunpool_export_with_output_shape": "indices are of the tensor that output_shape gives",
    "resize_downsample_scales_cubic_align_corners": "the output's size is rounded",
    "resize_downsample_scales_linear_align_corners": "the output's size is rounded",
}


WITHOUT_CASES = {"GlobalLpPool"}
pool = op_pool_common.pool
postponed = []


def reason(case):
    """The reason for which a case is declined, else None."""
    name = case.name.removeprefix("test_")
    return next((why for names, why in DECLINED.items() if re.fullmatch(names, name)), None)


@functools.cache
def cases():
    """The tests of these operators, except large pools: `compute_large_pools`."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")  # ONNX's arithmetic on infinities warns
        patch.setattr(op_pool_common, "pool", pool_if_small)
        return [case for case in collect_testcases(None) if is_ours(case)]


def pool_if_small(padded, x_shape, kernel, strides, out_shape, *rest, **options):
    """ONNX's result; of many outputs, which take it seconds each, NaNs that are replaced later."""
    shape = (*x_shape[:2], *out_shape)
    compute = functools.partial(pool, padded, x_shape, kernel, strides, out_shape, *rest, **options)
    if np.prod(shape) < LARGE:
        return compute()
    postponed.append((result := np.full(shape, np.nan, padded.dtype), compute))
    return result


def compute_large_pools():
    assert postponed
    for result, compute in postponed:
        result[...] = compute()


def is_ours(case):
    nodes = [] if case.model is None else case.model.graph.node
    types = {("" if node.domain == "ai.onnx" else node.domain, node.op_type) for node in nodes}
    if case.name.removeprefix("test_") in DIFFERENT or len(case.data_sets) != 1:
        return False
    return types and types <= set(ROWS)


@functools.cache
def first():
    """The first case of each operator that is not declined."""
    return {case.model.graph.node[0].op_type: case for case in cases()[::-1] if not reason(case)}


def array_of(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def with_known_inputs(case):
    """The model with those inputs as constants of which shapes depend, and the other inputs."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    values = [array_of(each) for each in case.data_sets[0][0]]
    inputs = dict(zip((value.name for value in model.graph.input), values, strict=True))
    known = {
        name
        for node in model.graph.node
        for index, name in enumerate(node.input)
        if name in inputs and (row := ROWS.get((node.domain, node.op_type))) and row.inputs
        if row.role(index) == "known" or (node.op_type == "Loop" and index < 2)
    }
    for name in known:
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(inputs.pop(name)), name))
    return model, inputs


def check(case):
    """The outputs are ONNX's, or the case is declined for the reason of the list."""
    model, inputs = with_known_inputs(case)
    if why := reason(case):
        with pytest.raises(ERRORS, match=why):
            dmlax.onnx.load(model, nonzero_size=64)
        return
    loaded = dmlax.onnx.load(model, nonzero_size=64)
    found = jax.jit(loaded.apply)(loaded.params, inputs)
    for value, wanted in zip(case.model.graph.output, case.data_sets[0][1], strict=True):
        wanted, got = np.asarray(array_of(wanted)), np.asarray(found[value.name])
        if f"{value.name}.count" in found:
            (axis,) = np.flatnonzero(np.not_equal(got.shape, wanted.shape))
            got = got.take(range(int(found[f"{value.name}.count"])), axis)
        assert got.shape == wanted.shape
        is_float = jnp.issubdtype(wanted.dtype, np.floating)
        rtol = 8e-3 if wanted.dtype.name == "bfloat16" else 1e-3
        np.testing.assert_allclose(
            got.astype(np.float64),
            wanted.astype(np.float64),
            rtol=rtol if is_float else 0,
            atol=1e-5 if is_float else 0,
        )


def test_every_operator_of_onnx_is_computed_or_declined():
    names = {each.name for each in onnx.defs.get_all_schemas() if not each.domain}
    computed = {op for domain, op in ROWS if not domain}
    assert names - computed - DECLINED_OPERATORS.keys() == {
        "Constant",
        *EXPANDED,
    }  # a part of the graph
    assert not computed & DECLINED_OPERATORS.keys()
    assert DECLINED_OPERATORS.keys() <= names


@pytest.mark.parametrize(
    "op",
    sorted({op for domain, op in ROWS if not domain and onnx.defs.has(op)} - WITHOUT_CASES),
)
def test_the_first_case_of_an_operator(op):
    check(first()[op])


def test_the_operators_of_onnx_have_a_case_that_is_not_declined():
    assert len(cases()) > 700
    assert {case.model.graph.node[0].op_type for case in cases()} == set(first())


def test_each_entry_of_the_list_declines_a_case():
    assert {reason(case) for case in cases()} == {None, *DECLINED.values()}


@pytest.mark.slow
def test_every_case():
    every = cases()
    compute_large_pools()
    for case in every:
        check(case)
    jax.clear_caches()

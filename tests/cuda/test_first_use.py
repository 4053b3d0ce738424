"""The check of a kernel before its first use on a GPU that nobody has run it on."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dmlax._core import dispatch
from dmlax._cuda import capability, first_use
from dmlax._fused.attention.call import ATTENTION
from dmlax._fused.concatenation.call import CONCATENATION
from dmlax._fused.layer_normalization.call import LAYER_NORMALIZATION
from dmlax._fused.matmul_epilogue.call import MATMUL_ADD, MATMUL_LOOKUP
from dmlax._fused.self_attention.call import SELF_ATTENTION
from dmlax._fused.softmax import call as softmax
from dmlax._operators.add_multiply import api as add_multiply
from dmlax._operators.byte_lookup import api as byte_lookup
from dmlax._operators.convolution import api as convolution
from dmlax._operators.convolution_add import api as convolution_add
from dmlax._operators.matmul import api as matmul
from dmlax._operators.nonzero import api as nonzero
from dmlax._operators.pooling import api as pooling
from dmlax._operators.registry import OPERATORS

ADD, MULTIPLY = add_multiply.ADD, add_multiply.MULTIPLY
PLAN, X = "a plan", np.arange(5, dtype=np.uint8)
FUSED = ATTENTION, CONCATENATION, LAYER_NORMALIZATION, MATMUL_ADD, MATMUL_LOOKUP, SELF_ATTENTION


@pytest.fixture(params=["8.0", "8.6", "8.9", "10.0", "12.0"])
def not_run(monkeypatch, request):
    """A GPU that nobody has run the kernels on."""
    gpu = capability.CAPABILITIES[request.param]
    monkeypatch.setattr(capability, "attached", lambda: gpu)
    return gpu


def planned_pair(operator):
    a = np.ones((3, 700), np.uint8)
    return operator.plan(a, a, a_scale=0.1, b_scale=0.1, output_scale=0.2)


def lowering(run, why_not=dispatch.no_reason):
    return dispatch.Lowering("mosaic_gpu", run, why_not, ("cuda",))


def doubled(plan, x):
    assert plan == PLAN
    return jnp.asarray(x) * 2


def raising(plan, x):
    raise RuntimeError("an illegal instruction was encountered")


WRONG = {
    "other bits": (lambda plan, x: x * 2 + (x == 3).astype(np.uint8), "gave other bits than xla"),
    "another dtype": (lambda plan, x: (x * 2).astype(np.int32), "gave other bits than xla"),
    "an error": (raising, "raised RuntimeError"),
}


def test_a_right_kernel_is_called_once_and_runs(not_run):
    calls = []
    checked = first_use.checked(
        lowering(doubled), lowering(doubled), lambda: calls.append(0) or [(PLAN, X), (PLAN, X[:2])]
    )
    with warnings.catch_warnings(action="error"):
        assert [checked.why_not(PLAN, "cuda") for _ in range(3)] == [None] * 3
    assert len(calls) == 1


@pytest.mark.parametrize(("run", "what"), WRONG.values(), ids=WRONG)
def test_a_wrong_kernel_warns_once_and_does_not_run(not_run, run, what):
    checked = first_use.checked(lowering(run), lowering(doubled), lambda: [(PLAN, X)])
    with pytest.warns(RuntimeWarning, match=f"a kernel's first call {what}.*xla runs") as warned:
        reasons = {checked.why_not(PLAN, "cuda") for _ in range(3)}
    assert len(warned) == 1
    assert reasons == {
        f"a kernel's first call {what}, and nobody has run it on compute capability {not_run}"
    }


def test_what_refuses_a_plan_or_runs_elsewhere_is_not_called(not_run):
    refusing = lowering(raising, lambda plan, platform: f"not this on {platform}")
    checked = first_use.checked(refusing, lowering(doubled), lambda: pytest.fail("called"))
    assert checked.why_not(PLAN, "cuda") == "not this on cuda"
    checked = first_use.checked(lowering(raising), refusing, lambda: pytest.fail("called"))
    assert checked.why_not(PLAN, "tpu") is None


def test_where_kernels_were_run_nothing_is_called(monkeypatch):
    monkeypatch.setattr(capability, "attached", lambda: capability.HOPPER)
    checked = first_use.checked(lowering(raising), lowering(doubled), lambda: pytest.fail("called"))
    assert checked.why_not(PLAN, "cuda") is None
    assert first_use.unless_not_run(lowering(raising)).why_not(PLAN, "cuda") is None


@pytest.mark.parametrize("operator", FUSED, ids=lambda operator: operator.name)
def test_a_fused_kernel_without_a_check_does_not_run(monkeypatch, not_run, operator):
    (kernel,) = (low for low in operator.lowerings if low.name == "mosaic_gpu")
    assert first_use.unless_not_run(lowering(doubled)).why_not(PLAN, "cuda") == (
        f"nobody has run it on compute capability {not_run}"
    )
    assert "unless_not_run" in kernel.why_not.__qualname__


OPERATORS_AND_CALLS = [
    (byte_lookup.LOOKUP, byte_lookup._first_calls),
    (convolution.INTEGER, convolution._first_calls),
    (convolution.QUANTIZED, convolution._first_calls),
    (convolution_add.QUANTIZED_ADD, convolution_add._first_calls),
    (matmul.INTEGER, matmul._first_calls),
    (matmul.QUANTIZED, matmul._first_calls),
    (matmul.TO_FLOAT, matmul._first_calls),
    (nonzero.NONZERO, nonzero._first_calls),
    (pooling.MAX, pooling._first_calls),
    (softmax.SOFTMAX, softmax._first_calls),
    *((each, lambda each=each: [planned_pair(each)]) for each in (ADD, MULTIPLY)),
]


@pytest.mark.parametrize(
    ("operator", "calls"), OPERATORS_AND_CALLS, ids=lambda each: getattr(each, "name", "")
)
def test_the_calls_of_an_operator_are_taken_by_its_kernel(attached, operator, calls):
    for plan, operands in calls():
        assert operator.explain(plan).choices[1].implementation == "mosaic_gpu"
        low = next(low for low in operator.lowerings if low.name == "xla")
        jax.eval_shape(lambda x, low=low, plan=plan: low.run(plan, x), operands)


@pytest.mark.filterwarnings("ignore:dmlax. a kernel's first call:RuntimeWarning")
@pytest.mark.parametrize(
    ("operator", "calls"), OPERATORS_AND_CALLS, ids=lambda each: getattr(each, "name", "")
)
def test_every_operator_checks_its_kernel(attached, written, monkeypatch, operator, calls):
    monkeypatch.setattr(capability, "attached", lambda: capability.CAPABILITIES["8.0"])
    plan, _ = calls()[0]
    why = operator.explain(plan).choices[1].why_not["mosaic_gpu"]
    # The kernels refuse a CPU, or Pallas does.
    assert re.fullmatch(
        r"a kernel's first call raised (UnsupportedError|ValueError), "
        r"and nobody has run it on compute capability 8\.0",
        why,
    )


def test_no_operator_with_a_kernel_is_left_out():
    with_kernels = {
        row.operator
        for row in OPERATORS
        if any(low.name == "mosaic_gpu" for low in row.operator.lowerings)
    }
    assert with_kernels == {operator for operator, _ in OPERATORS_AND_CALLS} - {softmax.SOFTMAX}

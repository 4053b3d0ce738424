"""The choice of a lowering: the table, `implementation`, refusals and `explain`."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax._core import dispatch
from dmlax._core.arguments import Aval
from dmlax._cpu import library
from dmlax._cuda import capability

pytestmark = pytest.mark.oldest

X = np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4)
W = np.ones((1, 1, 2, 2), np.int8)
SCALES = {"input_scale": 1.0, "filter_scale": 1.0, "output_scale": 4.0}
CALLS = {
    "nonzero_coordinates": (dmlax.nonzero_coordinates, (X,), {}),
    "convolution_integer": (dmlax.convolution_integer, (X, W), {}),
    "quantized_linear_convolution": (dmlax.quantized_linear_convolution, (X, W), SCALES),
    "element_wise_quantize_linear": (
        dmlax.element_wise_quantize_linear,
        (X.astype(np.float32), 2.0),
        {},
    ),
    "element_wise_dequantize_linear": (dmlax.element_wise_dequantize_linear, (X, 2.0), {}),
}
CONVOLUTIONS = ["convolution_integer", "quantized_linear_convolution"]
NATIVE = {name: ["native_cpu"] for name in CALLS}
NATIVE |= {name: ["native_cpu", "mosaic_gpu"] for name in (*CONVOLUTIONS, "nonzero_coordinates")}
NO_INT32_ON_CUDA = "XLA for CUDA compiles no int32 convolution"


class Plan(str):
    """All that dispatch asks of a plan."""

    output = Aval(np.dtype(np.float32), (2,))

    def notes(self):
        return []


PLAN = Plan()


class Counted:
    """An operator whose lowerings say that they ran."""

    def __init__(self, **why_not):
        self.ran = []
        names = ["native_cpu", "xla", "reference"]
        self.operator = dispatch.Operator(
            "counted", None, tuple(self.lowering(name, why_not.get(name)) for name in names)
        )

    def lowering(self, name, sentence):
        def run(plan, operands):
            self.ran.append(name)
            return operands + 1

        return dispatch.Lowering(name, run, lambda plan, platform: sentence)


def call(name, **options):
    function, arguments, fixed = CALLS[name]
    return function(*arguments, **fixed, **options)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        (name, named)
        for name in CALLS
        for named in ("native_cpu", "mosaic_gpu")
        if named not in NATIVE[name]
    ],
)
def test_a_named_implementation_that_does_not_exist_is_never_replaced(name, named):
    with pytest.raises(dmlax.UnsupportedError) as caught:
        call(name, implementation=named)
    assert (caught.value.code, caught.value.field) == ("option", "implementation")
    names = ", ".join([*NATIVE[name], "xla", "reference"])
    assert str(caught.value) == (
        f"{name}: implementation {named} does not exist for this operator, which has {names}"
    )


@pytest.mark.parametrize("name", ["native_cpu", "xla", "reference"])
def test_the_named_lowering_runs_and_no_other(name):
    counted = Counted()
    name = "".join(name)  # another string that is equal
    assert counted.operator.call(PLAN, jnp.ones(2), name).tolist() == [2, 2]
    assert counted.ran == [name]


def test_auto_runs_the_first_lowering():
    counted = Counted()
    counted.operator.call(PLAN, jnp.ones(2))
    assert counted.ran == ["native_cpu"]


def test_a_named_lowering_that_cannot_run_raises_and_does_not_fall_back():
    counted = Counted(xla="it is Sunday")
    with pytest.raises(dmlax.UnsupportedError, match="counted: xla cannot run here: it is Sunday"):
        counted.operator.call(PLAN, jnp.ones(2), "xla")
    assert counted.ran == ["xla"]  # traced, and refused when lowered


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_the_reference_refuses_a_platform_that_cannot_compile_it(name):
    traced = jax.jit(lambda x: call_on(name, x, "reference")).trace(X)
    with pytest.raises(dmlax.UnsupportedError) as caught:
        traced.lower(lowering_platforms=("cuda",))
    assert str(caught.value) == f"{name}: reference cannot run here: {NO_INT32_ON_CUDA}"


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_the_reference_refuses_several_platforms_where_one_cannot_compile_it(name):
    traced = jax.jit(lambda x: call_on(name, x, "reference")).trace(X)
    with pytest.raises(dmlax.UnsupportedError, match=NO_INT32_ON_CUDA):
        traced.lower(lowering_platforms=("cpu", "cuda"))


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_the_reference_is_refused_under_vmap_and_grad_too(name):
    def model(scale):
        x = dmlax.element_wise_quantize_linear(jnp.ones(X.shape), scale)
        return dmlax.element_wise_dequantize_linear(call_on(name, x, "reference"), scale).sum()

    batched = jax.vmap(lambda x: call_on(name, x, "reference"))
    traced = [jax.jit(jax.grad(model)).trace(2.0), jax.jit(batched).trace(X[None])]
    for function in traced:
        with pytest.raises(dmlax.UnsupportedError, match=NO_INT32_ON_CUDA):
            function.lower(lowering_platforms=("cuda",))


def call_on(name, x, implementation):
    function, (_, *rest), fixed = CALLS[name]
    return function(x, *rest, **fixed, implementation=implementation)


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
@pytest.mark.parametrize("name", CALLS)
def test_the_reference_lowers_where_it_can_run(name, platform):
    function, arguments, fixed = CALLS[name]
    jitted = jax.jit(lambda *a: function(*a, **fixed, implementation="reference"))
    assert "func.func public @main" in (
        jitted.trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
    )


def test_explain_says_what_runs_where_and_why_the_others_do_not(monkeypatch):
    monkeypatch.setattr(library, "why_not", lambda platform: f"no kernel for {platform}")
    monkeypatch.setattr(capability, "why_not", lambda platform: f"no GPU for {platform}")
    explanation = dmlax.explain(dmlax.quantized_linear_convolution, X, W, **SCALES)
    assert str(explanation) == "\n".join(
        [
            "quantized_linear_convolution: uint8[1,1,4,4], int8[1,1,2,2] OIHW, group_count 1 "
            "-> uint8[1,1,3,3]",
            "  cpu: xla",
            "    not native_cpu: no kernel for cpu",
            "    not mosaic_gpu: no GPU for cpu",
            "    not reference: slow; it runs only when named",
            "  cuda: xla",
            "    not native_cpu: no kernel for cuda",
            "    not mosaic_gpu: no GPU for cuda",
            f"    not reference: {NO_INT32_ON_CUDA}",
            "  tpu: xla",
            "    not native_cpu: no kernel for tpu",
            "    not mosaic_gpu: no GPU for tpu",
            "    not reference: slow; it runs only when named",
            "  int32 accumulators cannot overflow: at most 130,560",
        ]
    )


def test_explain_says_what_runs_instead_of_xla(monkeypatch):
    here = {"cpu": None, "cuda": "not here", "tpu": "not here"}
    monkeypatch.setattr(library, "why_not", here.get)
    explanation = dmlax.explain(dmlax.convolution_integer, X, W)
    assert str(explanation.choices[0]) == "\n".join(
        [
            "cpu: native_cpu",
            "  not mosaic_gpu: it is for NVIDIA GPUs of compute capability 8.0 or newer",
            "  not xla: native_cpu is faster; it runs where a program is exported",
            "  not reference: slow; it runs only when named",
        ]
    )


def test_explain_says_which_of_two_kernels_is_faster():
    both = Counted()
    kernels = tuple(both.lowering(name, None) for name in ("mosaic_gpu", "native_cpu"))
    operator = dispatch.Operator("both", None, kernels + both.operator.lowerings[1:])
    found = operator.explain(PLAN).choices[0]
    assert found.implementation == "mosaic_gpu"
    assert found.why_not["native_cpu"].startswith("mosaic_gpu is faster")
    assert found.why_not["reference"] == "slow; it runs only when named"


def test_explain_of_a_named_implementation_names_nothing_else():
    explanation = dmlax.explain(dmlax.convolution_integer, X, W, implementation="reference")
    chosen = {choice.platform: choice.implementation for choice in explanation.choices}
    assert chosen == {"cpu": "reference", "cuda": None, "tpu": "reference"}
    why_not = explanation.choices[0].why_not
    assert why_not["xla"] == "reference was named"
    assert why_not["native_cpu"] == (library.why_not("cpu") or "reference was named")
    assert "cuda: nothing" in str(explanation)


def test_explain_warns_of_accumulators_that_can_overflow():
    x = jax.ShapeDtypeStruct((1, 33_026, 1, 1), np.uint8)
    w = jax.ShapeDtypeStruct((1, 33_026, 1, 1), np.uint8)
    found = []
    jax.eval_shape(lambda x, w: found.append(dmlax.explain(dmlax.convolution_integer, x, w)), x, w)
    assert found[0].notes == (
        "int32 accumulators can overflow: they may reach 2,147,515,650, and wrap",
    )


@pytest.mark.parametrize("name", CALLS)
def test_explain_traces_and_runs_nothing(name, monkeypatch):
    monkeypatch.setattr(dispatch, "_program", None)
    function, arguments, fixed = CALLS[name]
    explanation = dmlax.explain(function, *arguments, **fixed)
    assert explanation.operator == name
    has_cuda = "mosaic_gpu" in NATIVE[name] and capability.why_not("cuda") is None
    on_cuda = "mosaic_gpu" if has_cuda else "xla"
    on_cpu = "native_cpu" if library.why_not("cpu") is None else "xla"
    assert [choice.implementation for choice in explanation.choices] == [on_cpu, on_cuda, "xla"]


@pytest.mark.parametrize("name", CALLS)
def test_explain_refuses_what_the_call_refuses(name):
    function, (x, *rest), fixed = CALLS[name]
    with pytest.raises(dmlax.SpecError, match="InputTensor is complex64"):
        dmlax.explain(function, x.astype(np.complex64), *rest, **fixed)
    with pytest.raises(dmlax.SpecError, match="implementation is 'x'"):
        dmlax.explain(function, x, *rest, **fixed, implementation="x")
    for named in {"native_cpu", "mosaic_gpu"} - set(NATIVE[name]):
        with pytest.raises(dmlax.UnsupportedError, match=f"{named} does not exist"):
            dmlax.explain(function, x, *rest, **fixed, implementation=named)


@pytest.mark.parametrize(
    "explained", [dispatch.Choice("cpu", None, {}), dispatch.Explanation("op", "call", ())]
)
def test_an_explanation_is_frozen(explained):
    with pytest.raises(dataclasses.FrozenInstanceError):
        explained.platform = "tpu"

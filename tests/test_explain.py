"""explain of whole functions, and the operators' names in programs."""

import dataclasses
import functools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax
from dmlax import training
from dmlax._cpu import library
from dmlax._cuda import capability
from dmlax._operators.registry import OPERATORS

X = jax.ShapeDtypeStruct((2, 3, 9, 9), np.uint8)
FLOATS = jax.ShapeDtypeStruct((2, 3), np.float32)
W = np.ones((4, 3, 3, 3), np.int8)
SCALES = {"input_scale": 0.5, "filter_scale": 0.5, "output_scale": 2.0}


def names(explanation):
    return [call.operator for call in explanation.calls]


@pytest.mark.parametrize(
    ("function", "arguments", "options"),
    [
        (dmlax.convolution_integer, (X, W), {"strides": (2, 2)}),
        (functools.partial(dmlax.convolution_integer, strides=(2, 2)), (X, W), {}),
        (
            jax.jit(dmlax.convolution_integer, static_argnames="strides"),
            (X, W),
            {"strides": (2, 2)},
        ),
        (jax.jit(functools.partial(dmlax.convolution_integer, strides=(2, 2))), (X, W), {}),
        (functools.partial(jax.jit(dmlax.convolution_integer), X, strides=(2, 2)), (W,), {}),
    ],
    ids=["function", "partial", "jit", "jit of a partial", "partial of a jit"],
)
def test_an_operator_is_known_in_partials_and_jit(function, arguments, options):
    x = np.zeros(X.shape, X.dtype)
    plain = dmlax.explain(dmlax.convolution_integer, x, W, strides=(2, 2))
    assert dmlax.explain(function, *arguments, **options) == plain


def test_structs_stand_for_every_array():
    shapes = jax.eval_shape(lambda: dmlax.prepare_filter(W))
    scale = jax.ShapeDtypeStruct((4,), np.float32)
    found = dmlax.explain(
        dmlax.quantized_linear_convolution,
        X,
        shapes,
        jax.ShapeDtypeStruct((4,), np.int32),
        **(SCALES | {"filter_scale": scale}),
        implementation="xla",
    )
    assert found.call.endswith("prepared -> uint8[2,4,7,7]")
    assert [choice.implementation for choice in found.choices] == ["xla"] * 3


def test_prepare_filter_is_explained_and_packs_nothing():
    found = dmlax.explain(dmlax.prepare_filter, W, group_count=2)
    assert (found.operator, found.call) == (
        "prepare_filter",
        "int8[4,3,3,3] OIHW, group_count 2",
    )
    assert [choice.implementation for choice in found.choices] == ["xla"] * 3
    assert found.notes == (
        "packed whenever the program runs; outside of one, once, and on the host by NumPy",
    )
    with pytest.raises(dmlax.SpecError, match="GroupCount is 3"):
        dmlax.explain(dmlax.prepare_filter, W, group_count=3)


def model(x, w):
    y = dmlax.quantized_linear_convolution(x, w, **SCALES)
    return dmlax.element_wise_dequantize_linear(y, 0.5)


def layers(x, w):
    """Calls in every form of control flow."""
    square = jnp.zeros((3, 3, 1, 1), jnp.int8) + w[0, 0, 0, 0]
    filter = dmlax.prepare_filter(square)

    def layer(x, _=None):
        return dmlax.quantized_linear_convolution(x, filter, **SCALES), None

    x, _ = jax.lax.scan(layer, x, None, length=3)
    x = jax.lax.cond(x[0, 0, 0, 0] > 3, lambda x: layer(x)[0], lambda x: x, x)
    x = jax.lax.fori_loop(0, x[0, 0, 0, 0].astype(jnp.int32), lambda _, x: layer(x)[0], x)
    return jax.checkpoint(lambda x: dmlax.convolution_integer(x, w))(x)


FORMS = {
    "plain": lambda function: function,
    "jit": jax.jit,
    "partial": lambda function: functools.partial(function, w=W),
    "grad": lambda function: jax.grad(lambda x, w: function(x, w).sum(), allow_int=True),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_call_of_a_function_is_listed(form):
    arguments = (X,) if form == "partial" else (X, W)
    found = dmlax.explain(FORMS[form](model), *arguments)
    assert names(found) == ["quantized_linear_convolution", "element_wise_dequantize_linear"]
    direct = dmlax.explain(dmlax.quantized_linear_convolution, X, W, **SCALES)
    assert found.calls[0] == direct


def test_a_function_that_was_traced_before_is_explained_again():
    jitted = jax.jit(model)
    jitted.lower(X, W)
    assert dmlax.explain(jitted, X, W) == dmlax.explain(jitted, X, W) == dmlax.explain(model, X, W)


def test_calls_in_control_flow_are_listed():
    found = dmlax.explain(layers, X, jax.ShapeDtypeStruct(W.shape, W.dtype))
    assert names(found) == [
        "prepare_filter",
        *["quantized_linear_convolution"] * 3,
        "convolution_integer",
    ]


def test_calls_under_vmap_and_shard_map_are_listed():
    stacked = jax.ShapeDtypeStruct((5, *X.shape), X.dtype)
    found = dmlax.explain(jax.vmap(lambda x: model(x, W)), stacked)
    assert found == dmlax.explain(model, X, W)
    mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("d")
    mapped = jax.shard_map(lambda x: model(x, W), mesh=mesh, in_specs=spec, out_specs=spec)
    assert names(dmlax.explain(mapped, X)) == names(found)


def test_the_table_has_a_row_for_each_call_and_each_reason_once():
    found = dmlax.explain(lambda x: model(model(x, W).astype(jnp.uint8), W[:, [0, 1, 2, 0]]), X)
    lines = str(found).splitlines()
    head, *rows = (line.split() for line in lines[:5])
    assert head == ["operator", "call", "cpu", "cuda", "tpu"]
    assert [row[:2] for row in rows] == [
        [str(i), call.operator] for i, call in enumerate(found.calls, 1)
    ]
    for row, call in zip(rows, found.calls, strict=True):
        assert row[-3:] == [choice.implementation for choice in call.choices]
    assert lines[5] == ""
    assert "it runs on cpu only" not in str(found)
    why = capability.why_not("cuda")
    refused = [line.split(":")[0] for line in lines if f"cuda: not mosaic_gpu: {why}" in line]
    assert refused == ["1, 3"] * bool(why)
    assert len(lines) == len(set(lines))


def test_a_reason_of_many_calls_names_their_range():
    call = dmlax.explain(lambda x: dmlax.element_wise_quantize_linear(x, 0.1), FLOATS).calls[0]
    note = dataclasses.replace(call, notes=("a note",))
    found = dmlax.ProgramExplanation((note, note, note, call, call, note, call, note, note))
    assert "1 to 3, 6, 8, 9: a note" in str(found).splitlines()


def test_a_function_without_operators_says_so():
    assert str(dmlax.explain(jnp.sum, X)) == "no operator of dmlax is called"


# --- chains between bytes -------------------------------------------------------------


def draw_chain(rng):
    """A function of bytes that computes through floats, its arguments and the operator's name."""
    spatial = rng.integers(4, 9, rng.integers(1, 4)).tolist()
    channels_last = rng.random() < 0.5
    shape = (2, *spatial, 3) if channels_last else (2, 3, *spatial)
    axes = tuple(range(1, len(shape) - 1) if channels_last else range(2, len(shape)))
    x, z = (jax.ShapeDtypeStruct(shape, rng.choice(["int8", "uint8"])) for _ in range(2))
    window = tuple(2 if axis in axes else 1 for axis in range(len(shape)))
    by_operator, relu, rounds, inner = rng.random(4) < (0.5, 0.5, 0.75, 0.5)
    kind = rng.choice(["sum", "product", "max", "mean", "average", "three", "channels", "minus"])
    moves = [lambda y: y, lambda y: y[1:], lambda y: y[:, ::-1], lambda y: y[np.array([1, 0])]]
    move = moves[rng.integers(len(moves))]

    def real(x):
        if by_operator:
            return dmlax.element_wise_dequantize_linear(x, 0.25, x.dtype.type(3))
        return (x.astype(jnp.float32) - 3) * 0.25

    def windows(x, zero, function):
        return jax.lax.reduce_window(x, zero, function, window, window, "VALID")

    functions = {
        "sum": lambda x, z: real(x) + real(z),
        "product": lambda x, z: real(z) * real(x),
        "max": lambda x, z: windows(real(x), -np.inf, jax.lax.max),
        "mean": lambda x, z: real(x).mean(axes, keepdims=bool(relu)),
        "average": lambda x, z: windows(real(x), 0.0, jax.lax.add) / 2 ** len(axes),
        "three": lambda x, z: real(x) + real(z) + real(x),
        "channels": lambda x, z: real(x).mean(-1 if channels_last else 1),
        "minus": lambda x, z: 1 / (1 + real(x)) + real(z),
    }
    names = {
        "sum": "element_wise_quantized_linear_add",
        "product": "element_wise_quantized_linear_multiply",
        "max": "max_pooling",
        "mean": "quantized_linear_global_average_pooling",
        "average": "quantized_linear_average_pooling",
    }

    if len(spatial) == 1:
        names["channels"] = names["mean"]  # the channels may be the only spatial axis

    def chain(x, z):
        y = move(functions[kind](x, z))
        y = jax.nn.relu(y) if relu else y
        if by_operator and rounds:
            return dmlax.element_wise_quantize_linear(y, 0.5)
        y = jnp.rint(y / 0.5) if rounds else jnp.floor(y / 0.5)
        return jnp.clip(y, 0, 255).astype(jnp.uint8)

    return (jax.jit(chain) if inner else chain), (x, z), names.get(kind) if rounds else None


def test_a_chain_between_bytes_names_the_operator_that_computes_it():
    rng = np.random.default_rng(57)
    seen = set()
    for _ in range(80):
        function, arguments, name = draw_chain(rng)
        chains = dmlax.explain(function, *arguments).chains
        assert [line.split()[1] for line in chains] == ([name] if name else [])
        output = jax.eval_shape(function, *arguments)
        assert all(
            line.startswith(f"uint8{list(output.shape)}:".replace(" ", "")) for line in chains
        )
        seen.add(name)
    assert len(seen) == 6


def test_chains_of_a_composed_network_are_printed_below_its_calls():
    def network(x, w):
        y = dmlax.quantized_linear_convolution(x, w, **SCALES, padding="SAME")
        for _ in range(2):
            y = jnp.rint(dmlax.element_wise_dequantize_linear(y, 0.5) + x.astype(np.float32) * 0.25)
            y = jnp.clip(y, 0, 255).astype(jnp.uint8)
        return jax.lax.reduce_window(
            y, np.uint8(0), jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME"
        )

    found = dmlax.explain(network, X, W[:3])
    assert found.chains == (
        "uint8[2,3,9,9]: quantized_linear_convolution_add computes this sum with a convolution's "
        "result from bytes",
        "uint8[2,3,9,9]: element_wise_quantized_linear_add computes this sum from bytes",
        "uint8[2,3,5,5]: max_pooling computes this max pool from bytes",
    )
    assert str(found).splitlines()[-3:] == list(found.chains)
    twice = dmlax.explain(lambda x: (network(x, W[:3]), network(x, W[:3])), X)
    assert all(line.endswith("from bytes (2 times)") for line in twice.chains)
    assert str(
        dmlax.explain(lambda x: x.mean((2, 3)).round().astype(jnp.int8), X)
    ).splitlines() == [
        "no operator of dmlax is called",
        "int8[2,3]: quantized_linear_global_average_pooling computes this mean from bytes",
    ]


def test_what_cannot_be_called_is_refused():
    with pytest.raises(dmlax.SpecError) as caught:
        dmlax.explain(3, X)
    assert (caught.value.code, caught.value.field) == ("option", "function")
    assert str(caught.value) == "explain: function is not a function"


def test_a_function_that_breaks_a_rule_is_refused():
    with pytest.raises(dmlax.SpecError, match="quantized_linear_convolution: FilterTensor is"):
        dmlax.explain(model, X, W[:, :2])


def test_programs_show_the_operators_names():
    program = jax.jit(
        lambda x: model(x, dmlax.prepare_filter(jnp.asarray(W) + x[0, 0, 0, 0].astype(np.int8)))
    )
    jaxpr = str(program.trace(X).jaxpr)
    compiled = program.lower(X).compile().as_text()
    for name in (
        "quantized_linear_convolution",
        "element_wise_dequantize_linear",
        "prepare_filter",
    ):
        assert f"name={name}" in jaxpr
        assert f"jit({name})" in compiled


def test_labels_add_nothing_to_a_program():
    text = jax.jit(model).lower(X, W).as_text()
    assert "label" not in text


def test_xla_counts_the_operations_of_its_own_lowering():
    call = functools.partial(dmlax.convolution_integer, implementation="xla")
    flops = jax.jit(call).lower(X, W).cost_analysis()["flops"]
    products = 2 * W.size * X.shape[0] * 7 * 7
    assert products <= flops < 2 * products


@pytest.mark.parametrize(
    ("argument", "name"),
    [(0, "element_wise_quantize_linear"), (2, "quantized_linear_matrix_multiply")],
)
def test_a_gradient_that_ends_at_an_integer_output_is_explained(argument, name):
    def loss(x, w, scale):
        y = dmlax.element_wise_quantize_linear(x, 0.1, output_dtype=np.int8)
        y = dmlax.quantized_linear_matrix_multiply(
            y, jnp.int8(w), a_scale=0.1, b_scale=scale, output_scale=1.0
        )
        return dmlax.element_wise_dequantize_linear(y, scale).sum()

    operands = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((2, 3), (3, 3), ())]
    explanation = dmlax.explain(jax.jit(jax.grad(loss, argument)), *operands)
    ends = "its gradient is zero, because its output is integer: train with dmlax.training."
    found = {
        call.operator: note for call in explanation.calls for note in call.notes if ends in note
    }
    twin = name.replace("element_wise_quantize_linear", "fake_quantize")
    assert found == {name: ends + twin}
    assert ends in str(explanation)
    assert ends not in str(dmlax.explain(loss, *operands))


def test_training_functions_are_those_of_the_list_and_end_no_gradient():
    named = {row.training for row in OPERATORS if row.training}
    assert named == {*training.__all__} - {"scale_gradient"}

    def loss(x, w, scale):
        y = training.quantized_linear_matrix_multiply(
            x, w, a_scale=scale, b_scale=0.1, output_scale=scale
        )
        return training.fake_quantize(y, scale).sum()

    operands = [jax.ShapeDtypeStruct(shape, np.float32) for shape in ((2, 3), (3, 3), ())]
    calls = dmlax.explain(jax.grad(loss, (0, 1, 2)), *operands).calls
    assert len(calls) > 4
    assert not any("gradient" in note for call in calls for note in call.notes)


# --- this machine ---------------------------------------------------------------------


def test_without_arguments_it_explains_this_machine():
    machine = dmlax.explain()
    assert machine.versions["jax"] == jax.__version__
    assert machine.instruction_sets[:1] == tuple(filter(None, [library.instruction_set()]))
    assert ("native_cpu" in machine.why_not) == bool(library.why_not("cpu"))
    assert f"jax {jax.__version__}" in str(machine).splitlines()[0]
    assert machine.devices[0].split()[0] == str(len(jax.devices()))


def test_the_command_prints_it():
    command = [sys.executable, "-m", "dmlax"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == str(dmlax.explain())


def test_it_says_why_kernels_do_not_run_and_what_is_not_installed(monkeypatch):
    monkeypatch.setattr(library, "why_not", lambda platform: "no C++ compiler was found")
    monkeypatch.setattr(library, "instruction_set", lambda: "")
    monkeypatch.setattr("dmlax._explain._PACKAGES", ("dmlax", "no-such-package"))
    lines = str(dmlax.explain()).splitlines()
    assert "native_cpu: cannot run: no C++ compiler was found" in lines
    assert "not installed: no-such-package" in lines

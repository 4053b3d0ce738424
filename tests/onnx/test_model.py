"""Whole models: ONNX Runtime's bits, and what JAX does with a function."""

import io
import itertools
import re
import subprocess
import sys

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

import dmlax.onnx
from dmlax.onnx import peer
from dmlax.onnx.__main__ import main
from dmlax.onnx.inputs import draw_inputs
from support import NATIVE
from support.onnx_files import File
from support.onnx_models import FLOAT_MODELS, inputs_of, quantized
from tools.zoo.networks import Network, quantize

pytestmark = pytest.mark.oldest


@pytest.fixture(scope="module")
def model():
    return dmlax.onnx.load(quantized("classifier", "qoperator"))


@pytest.fixture(scope="module")
def images():
    return inputs_of(quantized("classifier", "qoperator"))["x"]


def tensors(loaded, inputs, names):
    return jax.jit(lambda *given: loaded.apply(*given, outputs=tuple(names)))(loaded.params, inputs)


def differing(ours, theirs):
    return sum(int((np.asarray(ours[name]) != theirs[name]).sum()) for name in theirs)


@pytest.mark.parametrize("name", ["classifier", "attention"])
def test_every_tensor_of_a_qoperator_model(name):
    file = quantized(name, "qoperator")
    inputs = inputs_of(file)
    theirs = peer.run_every_tensor(file, inputs)
    loaded = dmlax.onnx.load(file)
    ours = tensors(loaded, inputs, theirs)
    assert differing(ours, theirs) == 0


@pytest.mark.parametrize(
    ("format", "optimised"),  # without optimisations ONNX Runtime computes a QDQ file in float
    [("qoperator", False), ("qoperator", True), ("qdq", True)],
)
def test_outputs_of_a_classifier(format, optimised):
    file = quantized("classifier", format)
    inputs = inputs_of(file)
    theirs = peer.run(peer.start(file, optimised=optimised), inputs)
    assert differing(dmlax.onnx.load(file)(inputs), theirs) == 0


def test_a_qdq_model_has_the_nodes_of_the_qoperator_model():
    loaded = [dmlax.onnx.load(quantized("classifier", each)) for each in ("qoperator", "qdq")]
    counts = [dict(sorted(each.explain().after.items())) for each in loaded]
    assert counts[0] == counts[1]


def test_a_model_of_int8_activations_is_fused_to_integers():
    loaded = dmlax.onnx.load(quantized("classifier", "qdq-s8"))
    assert not {"Conv", "Add", "Gemm"} & set(loaded.explain().after)
    (logits,) = loaded(inputs_of(quantized("classifier", "qdq-s8"))).values()
    assert np.ptp(logits) > 0


def test_a_dynamically_quantized_model_up_to_its_sigmoid():
    file = quantized("classifier", "dynamic")
    inputs = inputs_of(file)
    theirs = peer.run_every_tensor(file, inputs)
    names = [node.output[0] for node in file.graph.node]
    before = names[: next(i for i, node in enumerate(file.graph.node) if node.op_type == "Sigmoid")]
    loaded = dmlax.onnx.load(file)
    ours = tensors(loaded, inputs, before)
    assert differing(ours, {name: theirs[name] for name in before}) == 0


@pytest.mark.parametrize("sizes", [(7, 7), (1, 3), (3, 3, 5)], ids=str)
def test_a_mean_of_floats_is_summed_in_onnxruntimes_order(sizes):
    net = Network()
    y = net.node("GlobalAveragePool", "x")
    shape = (2, 40, *sizes)
    file = net.model({"x": (TensorProto.FLOAT, shape)}, {y: (TensorProto.FLOAT, None)})
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    theirs = peer.run(peer.start(file, optimised=False), {"x": x})
    assert differing(dmlax.onnx.load(file)(x), theirs) == 0


def test_a_batch_normalization_rounds_as_onnxruntimes():
    generator, net = np.random.default_rng(6), Network()
    scale, bias, mean = generator.standard_normal((3, 40)).astype(np.float32)
    variance = generator.uniform(0.01, 5, 40).astype(np.float32)
    parameters = map(net.constant, (scale, bias, mean, variance))
    y = net.node("BatchNormalization", "x", *parameters, epsilon=1e-3)
    shape = (2, 40, 5, 7)
    file = net.model({"x": (TensorProto.FLOAT, shape)}, {y: (TensorProto.FLOAT, None)})
    x = generator.standard_normal(shape).astype(np.float32)
    assert differing(dmlax.onnx.load(file)(x), peer.run(peer.start(file), {"x": x})) == 0


@pytest.mark.parametrize("format", ["qoperator", "qdq"])
def test_a_concatenation_of_images_is_channels_last(format):
    """Nothing but the last image is transposed: the first convolution reads channels first."""
    net = Network(7)
    x = net.conv("x", 8, 3)
    x = net.node("Concat", net.conv(x, 4), net.conv(x, 8, 3), axis=-3, channels=12)
    y = net.node("Concat", *(net.conv(x, 4, 3) for _ in range(2)), axis=2, channels=4)
    y = net.conv(y, 5)
    float_file = net.image_model(y, 9, ["n", 5, 18, 9])
    file = quantize(float_file, format, True)
    model = dmlax.onnx.load(file)
    assert model.explain().after["Transpose"] == 1
    inputs = inputs_of(file)
    assert differing(model(inputs), peer.run(peer.start(file), inputs)) == 0


def test_a_filter_of_another_graph_of_the_file():
    """The image is transposed for a pool and the convolution, unless one of them is not asked for.

    Both graphs have the same params.
    """
    net = Network(8)
    y = net.conv("x", 4, 3)
    pooled = net.node("MaxPool", "x", kernel_shape=[3, 3], pads=[1] * 4)
    z = net.node("Add", y, net.conv(pooled, 4))
    file = quantize(net.image_model(z, 9, ["n", 4, 9, 9]), "qoperator", True)
    loaded, inputs = dmlax.onnx.load(file), inputs_of(file)
    theirs = peer.run_every_tensor(file, inputs)
    assert differing(tensors(loaded, inputs, theirs), theirs) == 0
    alone = next(node.output[0] for node in file.graph.node if node.op_type == "QLinearConv")
    assert differing(tensors(loaded, inputs, [alone]), {alone: theirs[alone]}) == 0


@pytest.mark.parametrize("format", ["qoperator", "qdq"])
def test_a_channel_of_scale_0_is_zero(format):
    file = onnx.ModelProto()
    file.CopyFrom(quantized("classifier", format))
    arrays, changed = {tensor.name: tensor for tensor in file.graph.initializer}, 0
    for node in file.graph.node:
        place = {"QLinearConv": 4, "DequantizeLinear": 1}.get(node.op_type)
        tensor = arrays.get(node.input[place]) if place else None
        # A parameter of a filter's channels, or a bias.
        if tensor is not None and list(tensor.dims) == [8]:
            scale = numpy_helper.to_array(tensor).copy()
            scale[3] = 0
            tensor.CopyFrom(numpy_helper.from_array(scale, tensor.name))
            changed += 1
    assert changed >= 4
    inputs = inputs_of(file)
    theirs = peer.run(peer.start(file), inputs)
    assert differing(dmlax.onnx.load(file)(inputs), theirs) == 0


def test_an_input_zero_point_of_0_is_left_out(monkeypatch):
    """A GPU's kernel then pads without reading it."""
    found, convolve = [], dmlax.quantized_linear_convolution

    def record(*operands, input_zero_point, **options):
        found.append(input_zero_point)
        return convolve(*operands, input_zero_point=input_zero_point, **options)

    monkeypatch.setattr(dmlax, "quantized_linear_convolution", record)
    file = quantized("classifier", "qoperator")
    dmlax.onnx.load(file)
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in file.graph.initializer}
    nodes = [node for node in file.graph.node if node.op_type == "QLinearConv"]
    in_file = [int(arrays[node.input[2]]) for node in nodes]
    assert 0 in in_file
    assert max(in_file) > 0
    assert {None if x is None else int(x) for x in found} == {x or None for x in in_file}


@pytest.mark.parametrize("zero_point", [np.int8(0), np.zeros(2, np.uint8)], ids=["dtype", "shape"])
def test_an_input_zero_point_that_does_not_fit_is_refused(zero_point):
    file = onnx.ModelProto()
    file.CopyFrom(quantized("classifier", "qoperator"))
    node = next(node for node in file.graph.node if node.op_type == "QLinearConv")
    node.input[2] = "changed"
    file.graph.initializer.append(numpy_helper.from_array(np.asarray(zero_point), "changed"))
    with pytest.raises(dmlax.UnsupportedError, match="InputZeroPointTensor is"):
        dmlax.onnx.load(file)


@pytest.mark.parametrize("values", [[1], [1, 1]], ids=["constant", "param"])
def test_a_tensor_of_the_file_expands_to_a_symbolic_size(values):
    net = Network()
    ones = net.node("Expand", net.constant(np.float32(values)), net.node("Shape", "x"))
    y = net.node("Add", "x", ones)
    shape = TensorProto.FLOAT, ["n", 2]
    loaded = dmlax.onnx.load(net.model({"x": shape}, {y: shape}))
    assert loaded.explain().after == {"Shape": 1, "Expand": 1, "Add": 1}
    assert loaded(np.zeros((3, 2), np.float32))[y].tolist() == [[1, 1]] * 3


def test_a_convolution_whose_bias_has_8_bits_stays_one_of_floats():
    file = onnx.ModelProto()
    file.CopyFrom(quantized("classifier", "qdq"))
    fused = dmlax.onnx.load(file).explain().after
    node = next(node for node in file.graph.node if node.op_type == "Conv")
    bias = next(each for each in file.graph.node if each.output[0] == node.input[2])
    for tensor in file.graph.initializer:
        if tensor.name in (bias.input[0], bias.input[2]):
            array = numpy_helper.to_array(tensor)
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.uint8), tensor.name))
    after = dmlax.onnx.load(file).explain().after
    assert after["Conv"] == 1
    assert after["QLinearConv"] == fused["QLinearConv"] - 1


def test_one_number_is_quantized_and_read_again():
    net = Network()
    parameters = net.constant(np.float32(0.5)), net.constant(np.uint8(3))
    byte = net.node("QuantizeLinear", "x", *parameters)
    y = net.node("DequantizeLinear", byte, *parameters)
    outputs = {byte: (TensorProto.UINT8, []), y: (TensorProto.FLOAT, [])}
    found = dmlax.onnx.load(net.model({"x": (TensorProto.FLOAT, [])}, outputs))(np.float32(2.2))
    assert {name: value.tolist() for name, value in found.items()} == {byte: 7, y: 2.0}
    assert {value.shape for value in found.values()} == {()}


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the copy is not waited for elsewhere")
@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "i8", "u2", "i1"])
def test_inputs_and_params_have_any_order_of_bytes_and_any_strides(dtype):
    file = File(14)
    w = np.arange(1, 4).astype(f"<{dtype}")
    y = file.node("Add", file.input(w), file.constant(w))
    file.output(y, w.dtype)
    loaded = dmlax.onnx.load(file.model())
    swapped = np.arange(1, 7).astype(f">{dtype}")[::-2]
    wanted = [7, 6, 5]
    runs = (loaded, lambda x: loaded({"x0": x}), lambda x: loaded.apply(loaded.params, x))
    for run in runs * 2:  # also after a call in the machine's order
        for x in (swapped, swapped.astype(f"<{dtype}"), swapped.copy()):
            assert np.asarray(run(x)[y]).tolist() == wanted
    for order in "<>":
        held = {name: np.asarray(x).astype(f"{order}i4") for name, x in loaded.params.items()}
        if dtype == "i4":
            loaded.params = held
            assert np.asarray(loaded(w)[y]).tolist() == [2, 4, 6]


def test_a_call_waits_for_the_copy_of_large_inputs(model, images, monkeypatch):
    """XLA would compute on the thread that copies, and memory stay with each of these threads."""
    images = np.tile(images, (1 + (1 << 20) // images.nbytes, 1, 1, 1))
    compiled, given = model._compiled, []

    def note(params, inputs):
        given.append((isinstance(inputs["x"], jax.Array), inputs["x"].is_ready()))
        return compiled(params, inputs)

    monkeypatch.setattr(model, "_compiled", note)
    model({"x": images})
    assert given == [(True, True)]


def test_a_call_reads_params_that_were_replaced(images):
    file = quantized("classifier", "qoperator")
    changed, wanted = dmlax.onnx.load(file), dmlax.onnx.load(file)
    (output,) = changed.outputs
    before = changed(images)[output]
    name = next(n for n, x in changed.params.items() if isinstance(x, jax.Array) and x.ndim == 1)
    other = changed.params[name] + 9000
    changed.params[name] = other
    params = wanted.params | {name: other}
    np.testing.assert_array_equal(changed(images)[output], wanted.apply(params, images)[output])
    assert (np.asarray(changed(images)[output]) != before).any()


def test_small_params_of_integers_are_constants_of_a_call(model, images):
    arguments = model._compiled._program.arguments
    leaves = jax.tree.leaves(model.params)
    assert len(arguments) < len(leaves)
    assert all(x.nbytes > 1 << 14 or x.dtype.kind == "f" for x in arguments)


def test_images_do_not_mix(model, images):
    (name,) = model.outputs
    each = jax.vmap(lambda x: model.apply(model.params, x[None])[name][0])(jnp.asarray(images))
    np.testing.assert_array_equal(each, model(images)[name])


def test_a_symbolic_batch_is_exported(model, images):
    n = jax.export.symbolic_shape("n")[0]
    params = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), model.params)
    struct = jax.ShapeDtypeStruct((n, 3, 16, 16), jnp.float32)
    exported = jax.export.export(jax.jit(model.apply))(params, {"x": struct})
    exports = [exported, model.export(), model.export({"x": struct})]
    if NATIVE:
        exports += [model.export(platform="cpu"), model.export(images, platform="cpu")]
    for made in exports:
        again = dmlax.deserialize(made.serialize())
        found = again.call(model.params, {"x": images})
        assert jax.tree.all(jax.tree.map(np.array_equal, found, model(images)))


def test_explain_shows_what_a_call_runs_and_says_what_an_export_keeps(model, images):
    called, symbolic = model.explain(images), model.explain()
    choices = {call.choices[0].implementation for call in called.program.calls}
    assert choices == {"native_cpu" if NATIVE else "xla"}
    assert not called.notes
    assert "n of x: symbolic here" in str(symbolic)
    assert "An export for one platform keeps a CPU's kernels" in str(symbolic)
    struct = jax.ShapeDtypeStruct((4, 3, 16, 17), jnp.float32)
    with pytest.raises(dmlax.SpecError, match=r"x is float32\[4,3,16,17\], expected"):
        model.explain({"x": struct})


def test_explain_begins_with_a_summary_and_leaves_out_what_says_nothing(model, images):
    explanation = model.explain(images)
    printed = str(explanation)
    count = len(explanation.program.calls)
    name = "native_cpu" if NATIVE else "xla"
    assert printed.startswith(f"cpu: {name} {count}; no nodes beside quantized tensors compute flo")
    assert "it runs on cpu only" not in printed
    assert "slow; it runs only when named" not in printed
    passes = re.findall(r"^after .*: (\d+) nodes$", printed, re.M)
    assert all(a != b for a, b in itertools.pairwise(passes))


def test_inputs_may_be_keywords(model, images):
    (output,) = model.outputs
    np.testing.assert_array_equal(model(x=images)[output], model(images)[output])
    for call in (lambda: model(images, x=images), lambda: model(y=images), lambda: model(None)):
        with pytest.raises(dmlax.SpecError):
            call()


@pytest.mark.parametrize("format", ["qoperator", "qdq"])
def test_a_gradient_by_the_input_is_zero_and_explain_says_where_it_ends(format):
    file = quantized("classifier", format)
    loaded, images = dmlax.onnx.load(file), inputs_of(file)["x"]
    gradient = jax.grad(lambda x: sum(y.sum() for y in loaded.apply(loaded.params, x).values()))
    assert not np.any(gradient(images))
    notes = [note for call in dmlax.explain(gradient, images).calls for note in call.notes]
    assert any(note.startswith("its gradient is zero") for note in notes)


def test_an_inner_tensor_changes_nothing(model, images):
    inner = next(name for name in model.tensors() if name.startswith("add_"))
    (output,) = model.outputs
    both = model.apply(model.params, images, outputs=(inner, output))
    np.testing.assert_array_equal(both[output], model(images)[output])


def test_params_are_arrays_of_the_files_names(model):
    assert all(name in model.tensors() for name in model.params)
    leaves = jax.tree.leaves(model.params)
    assert sum(leaf.size for leaf in leaves) > 1000
    flat = {str(i): np.asarray(leaf) for i, leaf in enumerate(leaves)}
    buffer = io.BytesIO()
    np.savez(buffer, **flat)
    buffer.seek(0)
    with np.load(buffer) as file:
        loaded = jax.tree.unflatten(
            jax.tree.structure(model.params), [file[str(i)] for i in range(len(leaves))]
        )
    assert jax.tree.all(jax.tree.map(np.array_equal, loaded, model.params))


def test_a_saved_model_loads_without_onnx(model, images, tmp_path):
    path, inputs, outputs = (tmp_path / name for name in ("m.dmlax", "x.npy", "y.npy"))
    model.save(path)
    np.save(inputs, images)
    program = f"""
import sys
sys.modules["onnx"] = None
import numpy as np, dmlax.onnx
model = dmlax.onnx.load({str(path)!r})
(output,) = model(np.load({str(inputs)!r})).values()
np.save({str(outputs)!r}, output)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
    (expected,) = model(images).values()
    np.testing.assert_array_equal(np.load(outputs), expected)


def test_without_onnx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"dmlax\[onnx\]"):
        dmlax.onnx.load(b"")


def test_both_arithmetics_are_close(images):
    file = quantized("classifier", "qoperator")
    exact = dmlax.onnx.load(file, arithmetic="exact")
    (ours,), (theirs,) = (m(images).values() for m in (exact, dmlax.onnx.load(file)))
    np.testing.assert_allclose(ours, theirs, atol=0.2)


def test_another_shape_of_an_input():
    file = quantized("classifier", "qoperator")
    loaded = dmlax.onnx.load(file, input_shapes={"x": (1, 3, 16, 16)})
    assert loaded.inputs["x"].shape == (1, 3, 16, 16)
    with pytest.raises(dmlax.SpecError, match=r"x is float32\[2,3,16,16\], expected float32\[1,3"):
        loaded(np.zeros((2, 3, 16, 16), np.float32))


def test_rows_of_a_detector():
    file = quantized("detector", "qoperator")
    inputs = inputs_of(file)
    (theirs,) = peer.run(peer.start(file, optimised=False), inputs).values()
    loaded = dmlax.onnx.load(file, nonzero_size=36)
    outputs = loaded(inputs)
    (count,) = (value for name, value in outputs.items() if name.endswith(".count"))
    rows = next(value for name, value in outputs.items() if not name.endswith(".count"))
    assert int(count) == len(theirs)
    np.testing.assert_array_equal(rows[: len(theirs)], theirs)
    assert not np.any(rows[len(theirs) :])


def test_rows_after_the_count_pass_through_a_slice():
    net = Network()
    first = net.node("Slice", net.node("NonZero", "x"), *map(net.integers, (0, 3, 1)))
    places = net.node("Transpose", first, perm=[1, 0])
    read = net.node("GatherND", "x", places)
    written = net.node("ScatterND", "x", places, net.constant(np.float32([7, 8, 9])))
    shape = TensorProto.FLOAT, [2, 2]
    outputs = {read: (TensorProto.FLOAT, [3]), written: shape}
    found = dmlax.onnx.load(net.model({"x": shape}, outputs), nonzero_size=4)(
        np.float32([[0, 3], [4, 0]])
    )
    assert found[read].tolist() == [3, 4, 0]
    assert found[written].tolist() == [[0, 7], [8, 0]]


def test_bounds_of_a_slice_that_depend_on_values_are_refused():
    net = Network()
    end = net.node("Gather", net.node("NonZero", "x"), net.integers(0), axis=1)
    y = net.node("Slice", "x", net.integers(0), net.node("Reshape", end, net.integers(1)))
    shape = TensorProto.FLOAT, [4]
    with pytest.raises(dmlax.UnsupportedError, match="Slice: its ends, 'reshape_2', depends on"):
        dmlax.onnx.load(net.model({"x": shape}, {y: shape}), nonzero_size=4)


def test_a_slice_up_to_the_number_of_rows_takes_the_rows_of_the_size():
    net = Network()
    found = net.node("NonZero", "x")
    count = net.node("Gather", net.node("Shape", found), net.integers(1), axis=0)
    most = net.node("Min", count, net.integers(3))
    first = net.node("Slice", found, net.integers(0), most, net.integers(1))
    y = net.node("GatherND", "x", net.node("Transpose", first, perm=[1, 0]))
    model = net.model({"x": (TensorProto.FLOAT, [4])}, {y: (TensorProto.FLOAT, ["k"])})
    for size, wanted in ((2, [5, 7]), (4, [5, 7, 0])):
        outputs = dmlax.onnx.load(model, nonzero_size=size)(np.float32([0, 5, 0, 7]))
        assert outputs[y].tolist() == wanted
        assert outputs[f"{found}.count"] == 2


def test_more_rows_than_a_size_are_refused():
    loaded = dmlax.onnx.load(quantized("detector", "qoperator"), nonzero_size=1)
    with pytest.raises(dmlax.SpecError, match=r"rows, expected 1 or fewer: nonzero_size") as caught:
        loaded(inputs_of(quantized("detector", "qoperator")))
    assert caught.value.code == "sizes"


def test_the_command_compares_every_tensor(tmp_path, capsys):
    path = tmp_path / "model.onnx"
    onnx.save(quantized("classifier", "qdq"), path)
    assert main([str(path), "--compare", "--shape", "x=2,3,16,16"]) == 0
    printed = capsys.readouterr().out
    assert "QLinearConv" in printed
    installed = f"dmlax follows ONNX Runtime 1.32; {onnxruntime.__version__} is installed\n"
    assert installed in printed
    assert re.search(r"\d+ tensors, \d{4,} elements: 0 differ", printed)
    assert main([str(tmp_path / "absent.onnx")]) == 2


def test_the_command_sums_rounding_by_operator(tmp_path, capsys):
    path = tmp_path / "model.onnx"
    onnx.save(FLOAT_MODELS["bert"](), path)
    assert main([str(path), "--compare", "--nodes"]) == 1
    tensors, nodes = capsys.readouterr().out.split(
        "each node computed from ONNX Runtime's tensors:"
    )
    lines = tensors.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("the first tensor that"))
    assert "(LayerNormalization): " in lines[first]
    assert re.search(r"^MatMul: \d+ float tensors differ within rounding, rel", tensors, re.M)
    assert re.fullmatch(r"\d+ tensors, \d+ elements: \d+ differ", lines[first - 1])
    assert lines[-1].startswith("output tanh_")
    assert "(Tanh): " in lines[-1]
    assert re.search(r"operators that differ: .*LayerNormalization", nodes)


def test_the_command_names_the_operator_that_differs(tmp_path, capsys, monkeypatch):
    path = tmp_path / "model.onnx"
    onnx.save(quantized("classifier", "qdq"), path)
    run_every_tensor = peer.run_every_tensor

    def changed(model, inputs):
        tensors = run_every_tensor(model, inputs)
        name = next(node.output[0] for node in model.graph.node if node.op_type == "MaxPool")
        return {**tensors, name: tensors[name] ^ 1}

    monkeypatch.setattr(peer, "run_every_tensor", changed)
    assert main([str(path), "--nodes"]) == 1
    printed = capsys.readouterr().out
    assert "(MaxPool 'node_maxpool" in printed
    (summary,) = (x for x in printed.splitlines() if x.startswith("operators that differ: "))
    assert "QLinearConv" in summary  # it reads the changed tensor
    assert "MaxPool" in summary


def test_the_command_draws_likely_inputs():
    net = Network()
    table = net.constant(np.ones((7, 4), np.float32))
    ids = net.node("Gather", table, net.node("Cast", "ids", to=TensorProto.INT32))
    mask = net.node("Cast", "attention_mask", to=TensorProto.FLOAT)
    y = net.node("Mul", net.node("ReduceSum", ids, net.integers(2), keepdims=0), mask)
    z = net.node("Add", "token_type_ids", net.node("Add", "position_ids", "lengths"))
    integers = TensorProto.INT64, [3, 50]
    names = ("ids", "attention_mask", "token_type_ids", "position_ids")
    shapes = dict.fromkeys(names, integers) | {"lengths": (TensorProto.INT64, [1])}
    model = dmlax.onnx.load(net.model(shapes, {y: (TensorProto.FLOAT, None), z: integers}))
    drawn = draw_inputs(model._saved, model.inputs)
    assert {*drawn["ids"].ravel()} == {*range(7)}
    assert (drawn["attention_mask"] == 1).all()
    assert (drawn["token_type_ids"] == 0).all()
    assert (drawn["position_ids"] == np.arange(50)).all()
    assert drawn["lengths"].tolist() == [50]


def test_the_command_says_what_onnx_runtime_refuses(tmp_path, capsys):
    net = Network()
    y = net.node("Relu", net.node("Reshape", "x", net.integers(5, -1)))
    path = tmp_path / "model.onnx"
    onnx.save(net.model({"x": (TensorProto.FLOAT, ["n"])}, {y: (TensorProto.FLOAT, None)}), path)
    assert main([str(path), "--compare", "--shape", "x=10"]) == 0
    np.savez(tmp_path / "x.npz", x=np.ones((5, 1), np.float32))
    assert main([str(path), "--compare", "--inputs", str(tmp_path / "x.npz")]) == 2
    assert capsys.readouterr().err

"""A batch at once has the bits of its images one by one, whatever a model reduces."""

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

import dmlax.onnx
from dmlax.onnx import peer
from support import onnx_files
from support.onnx_models import inputs_of, quantized
from tools.zoo import networks

_SUMS = ("ReduceSum", "ReduceMean")
_NORMS = ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
_REDUCTIONS = (*_SUMS, *_NORMS, "ReduceProd")
_POOLS = ("AveragePool", "LpPool")
_GLOBAL = ("GlobalAveragePool", "GlobalLpPool")
_BY_CHANNEL = ("InstanceNormalization", "GroupNormalization")
_BY_ROW = ("LayerNormalization", "RMSNormalization")
_ALONG = ("Softmax", "LogSoftmax", "LpNormalization", "CumSum")
_OTHER = ("MeanVarianceNormalization", "LRN")
_OPS = (*_REDUCTIONS, *_POOLS, *_GLOBAL, *_BY_CHANNEL, *_BY_ROW, *_ALONG, *_OTHER)
_NEWEST = {
    "RMSNormalization": (23,),
    "GroupNormalization": (21,),
    "LpPool": (11, 18),
    "GlobalLpPool": (13, 18),
}
# ONNX Runtime's bits: its other functions have exponentials and orders of their own.
_SAME = ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd", "GlobalAveragePool", "CumSum")
_SAME += (*_SUMS, "AveragePool", "LpNormalization", "MeanVarianceNormalization")
_SAME += ("InstanceNormalization", "GlobalLpPool")
_PACKET = 4  # floats: ONNX Runtime aligns rows of other lengths by their addresses


def _attributes(op, random, shape, opset):
    """Attributes, and the inputs after the first."""
    axis = int(random.integers(1, 4)) - 4 * int(random.integers(2))
    last = lambda *sizes: random.standard_normal(sizes).astype(np.float32)  # noqa: E731
    if op in _REDUCTIONS:
        count = int(random.integers(1, 4))
        axes = [int(i) for i in random.choice([1, 2, 3], count, replace=False)]
        axes = [i - 4 if random.integers(2) else i for i in axes]
        options = {"keepdims": int(random.integers(2))}
        if opset >= (13 if op == "ReduceSum" else 18):
            options["noop_with_empty_axes"] = 1
            return options, [np.int64(axes if random.integers(8) else [])]
        return options | {"axes": axes}, []
    if op in _POOLS:
        size = [int(random.integers(1, min(n, 7) + 1)) for n in shape[2:]]
        if op == "AveragePool" and random.integers(4) == 0:
            size = shape[2:]
        strides = [int(i) for i in random.integers(1, 4, 2)]
        options = {"kernel_shape": size, "strides": strides}
        if op == "AveragePool" and min(size) > 1:
            options |= {"pads": [1, 0, 0, 1], "count_include_pad": int(random.integers(2))}
        return options, []
    if op in _BY_CHANNEL:
        groups = {"num_groups": 2} if op == "GroupNormalization" else {}
        return groups, [last(shape[1]), last(shape[1])]
    if op in _BY_ROW:
        return {"axis": axis}, [last(*shape[axis % 4 :])]
    if op == "CumSum":
        return {"reverse": int(random.integers(2))}, [np.int64(axis)]
    if op in _ALONG:
        norm = {"p": int(random.integers(1, 3))} if op == "LpNormalization" else {}
        return {"axis": axis} | norm, []
    rest = {"MeanVarianceNormalization": {"axes": [1, 2, 3]}, "LRN": {"size": 3}}
    return rest.get(op, {}), []


def _model(op, shape, dtype, constants, opset, has_bytes, options):
    """A file of one operator, of floats or between a DequantizeLinear and a QuantizeLinear."""
    names = [f"c{i}" for i in range(len(constants))]
    nodes = [helper.make_node(op, ["f" if has_bytes else "x", *names], ["r"], **options)]
    arrays = dict(zip(names, constants, strict=True))
    if has_bytes:
        nodes.insert(0, helper.make_node("DequantizeLinear", ["x", "s", "z"], ["f"]))
        nodes.append(helper.make_node("QuantizeLinear", ["r", "t", "z"], ["y"]))
        arrays |= {"s": np.float32(0.02), "t": np.float32(0.01), "z": np.uint8(100)}
    inputs = {"x": (np.uint8 if has_bytes else dtype, ["n", *shape[1:]])}
    return onnx_files.model(nodes, inputs, ["y" if has_bytes else "r"], arrays, opset)


def _outputs(model, x):
    (output,) = model(x).values()
    return np.asarray(output)


def _one_by_one(model, x):
    return np.concatenate([_outputs(model, x[i : i + 1]) for i in range(len(x))])


def _is_lawful(op, shape, options, constants):
    """False if ONNX Runtime's sum depends on the address of a row, or has a middle axis."""
    if op == "InstanceNormalization":
        return shape[2] * shape[3] % _PACKET == 0
    if op not in (*_SUMS, "MeanVarianceNormalization"):
        return True
    axes = options["axes"] if "axes" in options else constants[0]
    axes = {int(axis) % 4 for axis in axes}
    first = next(i for i in range(5) if {*range(i, 4)} <= axes)
    return axes != {2} and (first == 4 or int(np.prod(shape[first:])) % _PACKET == 0)


def _check(seed):
    random = np.random.default_rng(seed)
    op = _OPS[seed % len(_OPS)]
    opset = int(random.choice(_NEWEST.get(op, (13, 17, 18, 22))))
    opset = max(opset, 17) if op == "LayerNormalization" else opset
    long = [int(random.integers(1, 9)) * 4, int(random.integers(1, 40))][int(random.integers(2))]
    shape = [int(random.integers(2, 9)), 2 * int(random.integers(1, 9)), long, long]
    options, constants = _attributes(op, random, shape, opset)
    has_bytes = random.integers(3) == 0
    narrow = (np.float16, ml_dtypes.bfloat16)[int(random.integers(2))]
    is_wide = has_bytes or opset > 18 or random.integers(2) or op in _OTHER
    dtype = np.dtype(np.float32 if is_wide else narrow)
    given = [c.astype(dtype) if c.dtype == np.float32 else c for c in constants]
    file = _model(op, shape, dtype, given, opset, has_bytes, options)
    x = random.integers(0, 256, shape).astype(np.uint8)
    if not has_bytes:
        x = random.standard_normal(shape).astype(np.float32)
        x = np.abs(x) if op == "ReduceLogSum" else x
        x = (x / 16 + np.sign(x) if op == "ReduceProd" else x).astype(dtype)  # no subnormals
    told = f"seed {seed}: {op}, {dtype.name}{shape}, opset {opset}, {options}, {constants}"
    for arithmetic in ("exact", "float32") if has_bytes else ("float32",):
        model = dmlax.onnx.load(file, arithmetic=arithmetic)
        at_once = _outputs(model, x)
        np.testing.assert_array_equal(at_once, _one_by_one(model, x), told)
        (eager,) = model.apply(model.params, x[:2]).values()
        np.testing.assert_array_equal(at_once[:2], eager, told)
    is_float = dtype == np.float32 and (not has_bytes or op in _SUMS)
    if is_float and op in _SAME and _is_lawful(op, shape, options, constants):
        session = peer.start(file.SerializeToString(), optimised=False)
        wanted = [session.run(None, {"x": x[i : i + 1]})[0] for i in range(len(x))]
        np.testing.assert_array_equal(at_once, np.concatenate(wanted), told)


@pytest.mark.parametrize("seed", range(len(_OPS)))
def test_a_batch_has_the_bits_of_its_images(seed):
    """One operator of random shape and attributes; ONNX Runtime's bits where it keeps the law."""
    _check(seed)


@pytest.mark.parametrize("arithmetic", ["float32", "exact"])
@pytest.mark.parametrize("op", _SUMS)
def test_bytes_of_channels_have_the_bits_of_their_images(op, arithmetic):
    """PyTorch writes an average of channels so; ONNX Runtime keeps the law here."""
    shape = [64, 64, 4, 4]
    file = _model(op, shape, np.dtype(np.float32), [np.int64([2, 3])], 18, True, {})
    x = np.random.default_rng(0).integers(50, 150, shape).astype(np.uint8)
    model = dmlax.onnx.load(file, arithmetic=arithmetic)
    at_once = _outputs(model, x)
    np.testing.assert_array_equal(at_once, _one_by_one(model, x))
    if arithmetic == "float32":
        wanted = peer.start(file.SerializeToString()).run(None, {"x": x})[0]
        np.testing.assert_array_equal(at_once, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(len(_OPS), 600, len(_OPS)))
def test_more_batches_have_the_bits_of_their_images(first):
    for seed in range(first, first + len(_OPS)):
        _check(seed)


def _check_model(file, batch):
    model, inputs = dmlax.onnx.load(file), inputs_of(file, batch)
    at_once = model(inputs)
    for i in range(batch):
        alone = model({name: x[i : i + 1] for name, x in inputs.items()})
        for name, output in alone.items():
            np.testing.assert_array_equal(at_once[name][i : i + 1], output, name)


@pytest.mark.parametrize("name", ["classifier", "attention", "vit", "bert"])
def test_a_network_has_the_bits_of_its_images(name):
    _check_model(quantized(name, "qdq"), 5)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["qdq", "qdq-s8"])
@pytest.mark.parametrize(
    "name",
    [
        "resnet50",
        "mobilenet_v2",
        "efficientnet_b0",
        "detector",
        "vision_transformer",
        "bert",
        "t5_encoder",
        "minilm",
        "whisper_encoder",
        "ocr_classifier",
        "ocr_recogniser",
    ],
)
def test_a_network_of_the_zoo_has_the_bits_of_its_images(name, form):
    _check_model(networks.quantize(getattr(networks, name)(), form, False), 3)

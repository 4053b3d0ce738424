"""Whole files: batches, states, branches, saved models, bundles and what is refused."""

import contextlib
import io
import pickle
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dmlax.litert
from dmlax.errors import SpecError, UnsupportedError
from dmlax.litert.__main__ import main
from dmlax.litert.flexbuffer import read_map
from dmlax.onnx import ModelError
from dmlax.onnx.differences import difference_of
from dmlax.onnx.graph import Node
from dmlax.onnx.operators.table import why_no_pass
from tools.fuzz import litert_models
from tools.litert import cases
from tools.litert.files import Op, Subgraph, Tensor, flexbuffer, model

RNG = np.random.default_rng(0)
SCALED = {"scales": [0.05], "zeros": [3]}


def small_network():
    """A convolution, a residual sum, a mean, a reshape of a fixed batch and a product."""
    weights = RNG.integers(-127, 128, (4, 3, 3, 4)).astype(np.int8)
    matrix = RNG.integers(-127, 128, (5, 4)).astype(np.int8)
    tensors = {
        "image": Tensor(np.int8, (1, 6, 6, 4), None, [0.02], [-4]),
        "w": Tensor(np.int8, weights.shape, weights, [0.01] * 4, [0] * 4),
        "b": Tensor(np.int32, (4,), np.arange(4, dtype=np.int32), [0.0002] * 4, [0] * 4),
        "conv": Tensor(np.int8, (1, 6, 6, 4), None, [0.07], [1]),
        "sum": Tensor(np.int8, (1, 6, 6, 4), None, [0.06], [-10]),
        "axes": Tensor(np.int32, (2,), np.array([1, 2], np.int32)),
        "mean": Tensor(np.int8, (1, 1, 1, 4), None, [0.01], [0]),
        "shape": Tensor(np.int32, (2,), np.array([1, 4], np.int32)),
        "flat": Tensor(np.int8, (1, 4), None, [0.01], [0]),
        "m": Tensor(np.int8, (5, 4), matrix, [0.02], [0]),
        "c": Tensor(np.int32, (5,), np.arange(5, dtype=np.int32), [0.0002], [0]),
        "scores": Tensor(np.int8, (1, 5), None, [0.05], [2]),
    }
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "activation": "RELU"}
    operators = [
        Op("CONV_2D", ["image", "w", "b"], ["conv"], options),
        Op("ADD", ["conv", "image"], ["sum"]),
        Op("MEAN", ["sum", "axes"], ["mean"], {"keep_dims": True}),
        Op("RESHAPE", ["mean", "shape"], ["flat"]),
        Op("FULLY_CONNECTED", ["flat", "m", "c"], ["scores"]),
    ]
    return model(Subgraph(tensors, operators, ["image"], ["scores"]))


NETWORK = small_network()
IMAGES = RNG.integers(-128, 128, (5, 6, 6, 4)).astype(np.int8)


def one_operator(name, source, output):
    """A file of one operator of bytes: the dtype, the scale and the zero point of both tensors."""
    tensors = {
        key: Tensor(dtype, (256,), None, [scale], [zero])
        for key, (dtype, scale, zero) in {"x": source, "y": output}.items()
    }
    return model(Subgraph(tensors, [Op(name, ["x"], ["y"])], ["x"], ["y"]))


@pytest.mark.parametrize(
    ("name", "scales", "zeros", "levels", "wanted"),
    [
        ("ELU", (1 / 64, 1 / 16), (0, 13), [2, 6, 10, 14], [14, 14, 16, 16]),
        ("ELU", (0.005, 0.002), (-128, -128), [-125, -121, -117], [-120, -110, -100]),
        ("RSQRT", (1 / 128, 0.016), (-128, -128), [0, 127], [-65, -84]),
        ("RSQRT", (0.0625, 0.007967398501932621), (-128, -128), [-120, -128], [49, 127]),
    ],
)
def test_tables_of_bytes_are_litert_s_beside_ties(name, scales, zeros, levels, wanted):
    """LiteRT 2.3.0's answers, which the real number rounded once misses in most rows."""
    x, y = ((np.int8, scale, zero) for scale, zero in zip(scales, zeros, strict=True))
    ours = dmlax.litert.load(one_operator(name, x, y))
    order = np.arange(-128, 128, dtype=np.int8)
    assert np.asarray(ours(order)["y"])[np.array(levels) + 128].tolist() == wanted


@pytest.mark.parametrize("arithmetic", ["xnnpack", "reference", "exact"])
def test_a_batch_is_its_images_one_by_one(arithmetic):
    """Also with an inner tensor, jitted, mapped, and though a reshape fixes the batch."""
    ours = dmlax.litert.load(NETWORK, arithmetic=arithmetic)
    single = np.concatenate([ours(image[None])["scores"] for image in IMAGES])
    assert np.array_equal(ours(IMAGES)["scores"], single)
    both = jax.jit(lambda x: ours.apply(ours.params, x, outputs=["mean", "scores"]))(IMAGES)
    assert both["mean"].shape == (5, 1, 1, 4)
    assert np.array_equal(both["scores"], single)
    mapped = jax.vmap(lambda x: ours.apply(ours.params, x))(IMAGES[:, None])["scores"]
    assert np.array_equal(mapped[:, 0], single)


def test_a_saved_model_is_the_same_and_takes_another_arithmetic(tmp_path):
    ours = dmlax.litert.load(NETWORK, arithmetic="reference")
    ours.save(tmp_path / "network.dmlax")
    wanted = ours(IMAGES)["scores"]
    for other in (
        dmlax.litert.load(tmp_path / "network.dmlax"),
        pickle.loads(pickle.dumps(ours)),
        dmlax.litert.load(io.BytesIO((tmp_path / "network.dmlax").read_bytes())),
    ):
        assert np.array_equal(other(IMAGES)["scores"], wanted)
    changed = dmlax.litert.load(tmp_path / "network.dmlax", arithmetic="xnnpack")
    default = dmlax.litert.load(NETWORK)
    assert np.array_equal(changed(IMAGES)["scores"], default(IMAGES)["scores"])


def test_export_explain_inputs_and_params():
    ours = dmlax.litert.load(NETWORK)
    exported = ours.export()
    assert np.array_equal(
        exported.call(ours.params, {"image": IMAGES[:1]})["scores"], ours(IMAGES[:1])["scores"]
    )
    text = str(ours.explain())
    assert "litert.CONV_2D 1" in text
    assert "quantized_linear_convolution" in text
    assert ours.inputs["image"].shape == (1, 6, 6, 4)
    assert {"w", "m"} <= ours.params.keys()
    assert set(ours.params) <= ours.tensors()


def test_a_bundle_has_members():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as bundle:
        bundle.writestr("one.tflite", NETWORK)
        bundle.writestr("two.tflite", NETWORK)
    assert "scores" in dmlax.litert.load(file.getvalue(), member="one.tflite").outputs
    with pytest.raises(SpecError, match=r"member is None, expected one of 'one.tflite', 'two"):
        dmlax.litert.load(file.getvalue())
    with pytest.raises(SpecError, match="and the model is no bundle"):
        dmlax.litert.load(NETWORK, member="one.tflite")
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as bundle:
        bundle.writestr("inner.task", b"\0\0" + file.getvalue())  # as MediaPipe writes them
    nested = b"\0\0" + outer.getvalue()
    assert "scores" in dmlax.litert.load(nested, member="inner.task/one.tflite").outputs
    with pytest.raises(SpecError, match=r"member is None, expected one of 'inner.task/\.\.\.'"):
        dmlax.litert.load(nested)
    listed = r"member is 'inner.task/no', expected one of 'inner.task/one.tflite', 'inner"
    with pytest.raises(SpecError, match=listed):
        dmlax.litert.load(nested, member="inner.task/no")


def test_a_fused_concatenation_is_refused_as_litert_refuses_it():
    tensors = {"x": Tensor(np.float32, (1, 2)), "y": Tensor(np.float32, (1, 4))}
    operator = Op("CONCATENATION", ["x", "x"], ["y"], {"axis": 1, "activation": "RELU"})
    with pytest.raises(UnsupportedError, match="has a fused RELU: LiteRT's kernels refuse it"):
        dmlax.litert.load(model(Subgraph(tensors, [operator], ["x"], ["y"])))


def test_complex_tensors_are_compared_as_floats():
    x = np.array([1 + 1j, 2], np.complex64)
    found = difference_of("x", "RFFT2D", x, x + np.complex64(1e-6j))
    assert found.different == 2
    assert 0 < found.relative < 1e-6


def test_a_constant_may_have_no_element_and_an_empty_buffer():
    """The shape of a scalar, as BirdNET's files have it."""
    tensors = {
        "x": Tensor(np.float32, (1, 1)),
        "shape": Tensor(np.int32, (0,), np.zeros(0, np.int32)),
        "y": Tensor(np.float32, ()),
    }
    scalar = model(Subgraph(tensors, [Op("RESHAPE", ["x", "shape"], ["y"])], ["x"], ["y"]))
    assert np.array_equal(dmlax.litert.load(scalar)(np.ones((1, 1), np.float32))["y"], np.ones(()))


def counter(with_branch=False):
    """A variable to which the input is added; a branch adds it twice."""
    number = Tensor(np.float32, (1, 2))
    tensors = {
        "x": number,
        "handle": Tensor(np.int32, (), number=13),
        "old": number,
        "new": number,
        "y": number,
        "yes": Tensor(np.bool_, ()),
    }
    read = [
        Op("CALL_ONCE", [], [], {"init_graph": 1}),
        Op("VAR_HANDLE", [], ["handle"], {"shared_name": "total"}),
    ]
    add = [
        Op("READ_VARIABLE", ["handle"], ["old"]),
        Op("ADD", ["old", "x"], ["new"]),
        Op("ASSIGN_VARIABLE", ["handle", "new"], []),
    ]
    first = Subgraph(
        {"h": tensors["handle"], "zero": Tensor(np.float32, (1, 2), np.float32([[1, 2]]))},
        [
            Op("VAR_HANDLE", [], ["h"], {"shared_name": "total"}),
            Op("ASSIGN_VARIABLE", ["h", "zero"], []),
        ],
        [],
        [],
    )
    if not with_branch:
        return model(Subgraph(tensors, [*read, *add], ["x"], ["new"]), first)
    inner = {name: tensors[name] for name in ("handle", "x", "old", "new")}
    then = Subgraph(inner, add, ["handle", "x"], ["new"])
    other = Subgraph(inner, [], ["handle", "x"], ["x"])
    branch = Op("IF", ["yes", "handle", "x"], ["y"], {"then_graph": 2, "else_graph": 3})
    whole = Subgraph(tensors, [*read, branch], ["x", "yes"], ["y"])
    return model(whole, first, then, other)


def test_a_variable_is_a_state():
    ours = dmlax.litert.load(counter())
    assert ours.init_state()["total"].tolist() == [[1, 2]]
    assert set(ours.inputs) == {"x"}
    x = np.float32([[10, 20]])
    outputs, state = ours.step(ours.init_state(), x)
    assert outputs["new"].tolist() == [[11, 22]] == state["total"].tolist()
    outputs, state = ours.step(state, {"x": x})
    assert outputs["new"].tolist() == [[21, 42]]
    assert set(outputs) == {"new"}
    assert ours(x)["new"].tolist() == [[11, 22]]  # a call begins with the first state

    def step(state, x):
        outputs, state = ours.apply_step(ours.params, state, x)
        return state, outputs["new"]

    _, all_of_them = jax.lax.scan(step, ours.init_state(), jnp.stack([x] * 3))
    assert all_of_them[:, 0].tolist() == [[11, 22], [21, 42], [31, 62]]
    batch, state = ours.step(ours.init_state(), np.float32([[1, 2], [3, 4]]))
    assert batch["new"].tolist() == [[2, 4], [4, 6]]
    assert state["total"].shape == (2, 2)
    assert np.array_equal(ours.init_state(batch=2)["total"], [[1, 2], [1, 2]])
    batch, _ = ours.step(state, np.float32([[1, 2], [3, 4]]))
    assert batch["new"].tolist() == [[3, 6], [7, 10]]
    with pytest.raises(SpecError, match="state total is missing"):
        ours.step({}, x)
    with pytest.raises(SpecError, match="state sum is no variable"):
        ours.step({**ours.init_state(), "sum": x}, x)
    with pytest.raises(dmlax.SpecError, match="by position and by keyword"):
        ours.step(ours.init_state(), x, x=x)


def test_a_saved_state_keeps_its_first_values(tmp_path):
    ours = dmlax.litert.load(counter())
    ours.save(tmp_path / "counter.dmlax")
    again = dmlax.litert.load(tmp_path / "counter.dmlax")
    x = np.float32([[10, 20]])
    assert again.step(again.init_state(), x)[1]["total"].tolist() == [[11, 22]]


def test_a_branch_changes_a_variable():
    ours = dmlax.litert.load(counter(with_branch=True))
    x, state = np.float32([[10, 20]]), ours.init_state()
    outputs, state = ours.step(state, {"x": x, "yes": np.bool_(True)})
    assert outputs["y"].tolist() == [[11, 22]] == state["total"].tolist()
    outputs, state = ours.step(state, {"x": x, "yes": np.bool_(False)})
    assert outputs["y"].tolist() == [[10, 20]]
    assert state["total"].tolist() == [[11, 22]]


def test_a_while_repeats_a_subgraph():
    number, limit = Tensor(np.float32, (1,)), Tensor(np.float32, (1,), np.float32([100]))
    inner = {"a": number, "b": number, "limit": limit, "less": Tensor(np.bool_, (1,))}
    holds = Subgraph(inner, [Op("LESS", ["a", "limit"], ["less"])], ["a", "b"], ["less"])
    values = {"a": number, "b": number, "sum": number}
    double = Subgraph(values, [Op("ADD", ["a", "b"], ["sum"])], ["a", "b"], ["sum", "sum"])
    options = {"condition_graph": 1, "body_graph": 2}
    op = Op("WHILE", ["x", "y"], ["u", "v"], options)
    whole = dict.fromkeys("xyuv", number)
    ours = dmlax.litert.load(model(Subgraph(whole, [op], ["x", "y"], ["u"]), holds, double))
    assert ours(np.float32([1]), np.float32([2]))["u"].tolist() == [192]
    assert ours(np.float32([200]), np.float32([2]))["u"].tolist() == [200]


def custom(name="Twice"):
    tensor = Tensor(np.float32, (2,))
    tensors = {"x": tensor, "y": tensor, "z": tensor, "u": tensor}
    operators = [
        Op(name, ["x"], ["y"]),
        Op("ABS", ["y"], ["z"]),
        Op("LSH_PROJECTION", ["z"], ["u"]),
    ]
    return model(Subgraph(tensors, operators, ["x"], ["z", "u"]))


def test_what_is_not_known_is_listed_at_once_with_the_ways_out():
    with pytest.raises(UnsupportedError) as caught:
        dmlax.litert.load(custom())
    text = str(caught.value)
    assert "2 nodes of the model cannot be computed" in text
    assert "custom.Twice: is not known" in text
    assert "litert.LSH_PROJECTION: is not known" in text
    assert '"custom::Twice": f' in text
    assert '"litert::LSH_PROJECTION": f' in text
    functions = {"custom::Twice": lambda x, custom_options: 2 * x}
    ours = dmlax.litert.load(custom(), operators=functions, outputs=["z"])
    assert ours(np.float32([1, -2]))["z"].tolist() == [2, 4]


@pytest.mark.parametrize("name", ["ADD", "MUL", "SUB", "FULLY_CONNECTED"])
def test_xnnpack_rounds_limits_of_activations_after_the_zero_point(name):
    """6 / 4 + 69 is a tie: 70 of XNNPACK, 71 of the reference kernels (LiteRT 2.3.0)."""
    weights = np.eye(8, dtype=np.int8)
    tensors = {
        "x": Tensor(np.int8, (1, 8), None, [1.0], [0]),
        "w": Tensor(np.int8, (8, 8), weights, [1.0], [0]),
        "one": Tensor(np.int8, (1, 8), np.full((1, 8), name == "MUL", np.int8), [1.0], [0]),
        "y": Tensor(np.int8, (1, 8), None, [4.0], [69]),
    }
    operands = ["x", "w" if name == "FULLY_CONNECTED" else "one"]
    operator = Op(name, operands, ["y"], {"activation": "RELU6"})
    data = model(Subgraph(tensors, [operator], ["x"], ["y"]))
    x = np.full((1, 8), 100, np.int8)
    for resolver, most in {"xnnpack": 70, "reference": 71}.items():
        assert np.unique(dmlax.litert.load(data, arithmetic=resolver)(x)["y"]).tolist() == [most]


DETECTOR = {
    "max_detections": 3,
    "max_classes_per_detection": 1,
    "num_classes": 2,
    "nms_score_threshold": 0.5,
    "nms_iou_threshold": 0.5,
    **{f"{name}_scale": 1.0 for name in "yxhw"},
}


def detector(batch=1, dtype=np.float32, **options):
    """Three boxes, of which the second is nearly the first."""
    anchors = np.float32([[0.5, 0.5, 0.4, 0.4], [0.51, 0.5, 0.4, 0.4], [0.2, 0.2, 0.1, 0.1]])
    scaled = SCALED if dtype == np.int8 else {}
    tensors = {
        "x": Tensor(dtype, (batch, 3, 4), **scaled),
        "p": Tensor(np.float32, (batch, 3, 3)),
        "a": Tensor(np.float32, (3, 4), anchors),
        "boxes": Tensor(np.float32, (1, 3, 4)),
        **{name: Tensor(np.float32, (1, 3)) for name in ("classes", "scores")},
        "count": Tensor(np.float32, (1,)),
    }
    outputs = ["boxes", "classes", "scores", "count"]
    op = Op("TFLite_Detection_PostProcess", ["x", "p", "a"], outputs, {**DETECTOR, **options})
    return model(Subgraph(tensors, [op], ["x", "p"], outputs))


@pytest.mark.parametrize("is_regular", [False, True])
def test_detections_overlap_little_and_the_other_rows_are_zero(is_regular):
    scores = np.float32([[[0, 0.9, 0.1], [0, 0.8, 0.9], [0, 0.1, 0.6]]])
    ours = dmlax.litert.load(detector(use_regular_nms=is_regular))
    y = ours(np.zeros((1, 3, 4), np.float32), scores)
    rows = [(0.9, 0), (0.9, 1), (0.6, 1)] if is_regular else [(0.9, 0), (0.6, 1), (0, 0)]
    wanted = np.float32(rows)[None]
    assert y["scores"].tolist() == wanted[..., 0].tolist()
    assert y["classes"].tolist() == wanted[..., 1].tolist()
    assert y["count"].tolist() == [3 if is_regular else 2]
    np.testing.assert_allclose(y["boxes"][0, 0], [0.3, 0.3, 0.7, 0.7], rtol=1e-6)
    two = ours(np.zeros((2, 3, 4), np.float32), np.concatenate([scores, 0 * scores]))
    assert two["count"].tolist() == [*y["count"].tolist(), 0]
    assert not two["boxes"][1].any()
    whole = dmlax.litert.load(detector(dtype=np.int8, use_regular_nms=is_regular))
    of_bytes = whole(np.full((1, 3, 4), 3, np.int8), scores)
    assert of_bytes["boxes"].tolist() == y["boxes"].tolist()


def test_detectors_that_are_no_detectors_are_refused():
    for data, text in [
        (detector(batch=2), r"expected \[1, N, 4\], \[1, N, K\] and \[N, 4\] of one image"),
        (detector(num_classes=1), "no 1 classes are there"),
        (detector(max_detections=0), "a count of its options is not positive"),
        (detector(h_scale=0.0), "a scale of its options is not positive"),
        (detector(max_detections=np.nan), "options have no finite numbers"),
        (detector(max_detections=1 << 30), "it has 1073741824 detections of 1 classes, at most"),
    ]:
        with pytest.raises(ModelError, match=text):
            dmlax.litert.load(data)
    options = flexbuffer({**DETECTOR, "max_detections": 3}).tobytes()
    assert read_map(options, "it")["nms_iou_threshold"] == 0.5
    for i in range(len(options)):
        for changed in (options[:i], options[:i] + b"\xff" + options[i + 1 :]):
            with contextlib.suppress(ModelError):  # and no other error
                read_map(changed, "it")
    twice = {"custom::TFLite_Detection_PostProcess": lambda x, p, a, custom_options: (x, p, p, a)}
    ours = dmlax.litert.load(detector(), operators=twice, outputs=["boxes"])
    x = np.ones((1, 3, 4), np.float32)
    assert ours(x, x[..., :3])["boxes"].tolist() == x.tolist()


def test_a_state_s_zero_point_is_of_its_dtype():
    for seed in range(9):
        graph = cases.svdf(np.random.default_rng(seed))
        (state,) = (x for x in graph.tensors.values() if x.is_variable)
        if np.dtype(state.dtype).kind == "i":
            break
    state.zeros = [-(2**63)]
    with pytest.raises(ModelError, match="has the zero point -9223372036854775808"):
        dmlax.litert.load(model(graph))


def test_weights_of_float16_are_folded():
    half = RNG.uniform(-1, 1, (3, 4)).astype(np.float16)
    tensors = {
        "x": Tensor(np.float32, (2, 4)),
        "half": Tensor(np.float16, (3, 4), half),
        "w": Tensor(np.float32, (3, 4)),
        "y": Tensor(np.float32, (2, 3)),
    }
    operators = [
        Op("DEQUANTIZE", ["half"], ["w"]),
        Op("FULLY_CONNECTED", ["x", "w"], ["y"]),
    ]
    ours = dmlax.litert.load(model(Subgraph(tensors, operators, ["x"], ["y"])))
    assert ours.params["w"].dtype == np.float32
    x = RNG.uniform(-1, 1, (2, 4)).astype(np.float32)
    np.testing.assert_allclose(ours(x)["y"], x @ half.astype(np.float32).T, rtol=1e-5, atol=1e-6)
    assert "litert.DEQUANTIZE" not in str(ours.explain())


def test_an_svdf_of_a_byte_state_is_refused_with_the_reason():
    byte = {"scales": [0.1], "zeros": [0]}
    tensors = {
        "x": Tensor(np.int8, (1, 2), **byte),
        "f": Tensor(np.int8, (1, 2), np.int8([[1, 2]]), **byte),
        "t": Tensor(np.int8, (1, 2), np.int8([[1, 2]]), **byte),
        "s": Tensor(np.int8, (1, 2), is_variable=True, **byte),
        "y": Tensor(np.int8, (1, 1), **byte),
    }
    op = Op("SVDF", ["x", "f", "t", "", "s"], ["y"], {"rank": 1, "activation": "RELU"})
    with pytest.raises(UnsupportedError, match="its state is int8: LiteRT leaves that undefined"):
        dmlax.litert.load(model(Subgraph(tensors, [op], ["x"], ["y"])))


@pytest.mark.parametrize("name", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "RANGE"])
def test_sizes_that_need_more_memory_than_the_file_may_have_are_refused(name):
    size = 1 << 30
    known = [0, size, 1] if name == "RANGE" else [[1, size]]
    made = (np.int32, (size,)) if name == "RANGE" else (np.float32, (1, 1, size, 1))
    tensors = {f"k{i}": Tensor(np.int32, np.shape(k), np.int32(k)) for i, k in enumerate(known)}
    tensors["x"] = Tensor(np.float32, (1, 2, 2, 1))
    inputs = [*(["x"] if len(known) == 1 else []), *(f"k{i}" for i in range(len(known)))]
    tensors["y"] = Tensor(*made)
    file = model(Subgraph(tensors, [Op(name, inputs, ["y"])], ["x"], ["y"]))
    with pytest.raises(UnsupportedError, match="known while a program is traced"):
        dmlax.litert.load(file)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_ranges_of_no_finite_numbers_are_refused(value):
    known = {"start": 0, "end": value, "step": 1}
    tensors = {name: Tensor(np.float32, (), np.float32(x)) for name, x in known.items()}
    tensors |= {"x": Tensor(np.float32, (2,)), "y": Tensor(np.float32, (2,))}
    file = model(Subgraph(tensors, [Op("RANGE", [*known], ["y"])], ["x"], ["y"]))
    with pytest.raises(ModelError, match=f"from 0.0 to {value} by 1.0, expected finite numbers"):
        dmlax.litert.load(file)


@pytest.mark.parametrize("data", [b"", b"TFL3", b"\0\0\0\0TFL3", b"PK\3\4", b"\x18\0\0\0ONNX"])
def test_bytes_that_are_no_model_are_refused(data):
    with pytest.raises(ModelError):
        dmlax.litert.load(data)


@pytest.mark.parametrize("source", [NETWORK, counter(with_branch=True)], ids=["network", "branch"])
def test_changed_bytes_give_a_model_or_one_of_three_errors(source):
    """Single bytes, words that are offsets or counts, and files that end early."""
    rng = np.random.default_rng(1)
    for _ in range(250):
        data = bytearray(source)
        kind = rng.integers(3)
        if kind == 0:
            data = data[: rng.integers(8, len(data))]
        else:
            place = int(rng.integers(8, len(data) - 4))
            width = 1 if kind == 1 else 4
            words = [0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, len(data), 4, int(rng.integers(1 << 32))]
            value = int(rng.choice(words)) & ((1 << 8 * width) - 1)
            data[place : place + width] = value.to_bytes(width, "little")
        try:
            dmlax.litert.load(bytes(data))
        except (ModelError, UnsupportedError, SpecError):
            continue


def test_the_command_lists_a_file_and_needs_litert_to_compare(tmp_path, capsys):
    path = tmp_path / "network.tflite"
    path.write_bytes(NETWORK)
    assert main([str(path), "--arithmetic", "reference"]) == 0
    assert "litert.FULLY_CONNECTED 1" in capsys.readouterr().out
    try:
        import ai_edge_litert  # noqa: F401
    except ImportError:
        assert main([str(path), "--compare"]) == 2
        assert "pip install ai-edge-litert" in capsys.readouterr().err
    else:
        assert main([str(path), "--compare", "--nodes"]) == 0
    path.write_bytes(NETWORK[:100])
    assert main([str(path)]) == 2


def test_an_empty_tensor_of_huge_sizes_is_malformed():
    tensors = {"x": Tensor(np.float32, (2,)), "e": Tensor(np.float32, (0, 2**31 - 1, 2**31 - 1))}
    with pytest.raises(ModelError, match=r"'e'\) has the shape \[0, 2147483647, 2147483647\]"):
        dmlax.litert.load(model(Subgraph(tensors, [Op("ABS", ["x"], ["e"])], ["x"], ["e"])))


def test_a_list_of_scales_that_holds_a_text_is_refused():
    node = Node("y", "ABS", "litert", 1, ("x",), ("y",), {"scales": (0.5, 1, "2")})
    assert why_no_pass(node) == "its attribute scales is a tuple"
    assert why_no_pass(node.replace(attributes={"scales": (0.5, 1)})) is None


def test_changed_models_raise_no_other_error():
    outcome = litert_models.run(seconds=3, seed=20)
    assert outcome.failures == []
    assert outcome.cases > outcome.loaded > 0


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("CONV_2D", [[0] * 9, [2] * 9]), ("DEPTHWISE_CONV_2D", [[0] * 8 + [-1], [2] * 9])],
)
def test_halves_of_four_bit_weights_round_as_built_in_kernels(name, wanted):
    """XNNPACK refuses these weights. Depthwise, 8 channels round half up, the rest half away."""
    is_depthwise = name.startswith("DEPTH")
    weights = np.ones((1, 1, 1, 9) if is_depthwise else (9, 1, 1, 1), jnp.int4)
    channels = 9 if is_depthwise else 1
    tensors = {
        "x": Tensor(np.int8, (1, 1, 2, channels), None, [1.0], [0]),
        "w": Tensor(jnp.int4, weights.shape, weights, [1.0], [0]),
        "b": Tensor(np.int32, (9,), np.zeros(9, np.int32), [1.0], [0]),
        "y": Tensor(np.int8, (1, 1, 2, 9), None, [4.0], [0]),
    }
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
    options |= {"multiplier": 1} if is_depthwise else {}
    graph = Subgraph(tensors, [Op(name, ["x", "w", "b"], ["y"], options)], ["x"], ["y"])
    x = np.repeat(np.array([-2, 6], np.int8), channels).reshape(1, 1, 2, channels)
    assert dmlax.litert.load(model(graph))(x)["y"].reshape(2, 9).tolist() == wanted

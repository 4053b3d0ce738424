"""Operators that ONNX Runtime's optimiser and tools write, one by one beside ONNX Runtime."""

import numpy as np
import pytest

import dmlax
import dmlax.onnx
from support.onnx_files import RNG, File, levels

MICROSOFT = "com.microsoft"
TOLERANCE = 1e-5


def normal(*shape, dtype=np.float32):
    return RNG.normal(0, 1, shape).astype(dtype)


def add(file, op, *arrays, domain=MICROSOFT, outputs=1, **attributes):
    """A node whose arrays are inputs; every second output is asked for where there are several."""
    names = ["" if x is None else x if isinstance(x, str) else file.input(x) for x in arrays]
    found = file.node(op, *names, domain=domain, outputs=outputs, **attributes)
    for name in [found] if outputs == 1 else found:
        file.output(name, np.float32)
    return found


def test_activations_and_normalizations():
    file = File(17)
    x, skip, gamma, beta, bias = (file.input(each) for each in (
        normal(2, 5, 8), normal(2, 5, 8), normal(8), normal(8), normal(8)
    ))  # fmt: skip
    for operands in ((x,), (x, bias)):
        add(file, "FastGelu", *operands)
    add(file, "BiasGelu", x, bias)
    add(file, "Gelu", x)
    add(file, "QuickGelu", x)
    add(file, "QuickGelu", x, alpha=0.5)
    for op, *operands in (
        ("SkipLayerNormalization", x, skip, gamma),
        ("SkipLayerNormalization", x, skip, gamma, beta),
        ("SkipLayerNormalization", x, skip, gamma, beta, bias),
        ("SkipSimplifiedLayerNormalization", x, skip, gamma),
        ("SkipSimplifiedLayerNormalization", x, skip, gamma, bias),
    ):
        options = {"epsilon": 1e-5} if op == "SkipLayerNormalization" else {}
        y, _, _, total = file.node(op, *operands, domain=MICROSOFT, outputs=4, **options)
        file.output(y, np.float32)
        file.output(total, np.float32)
        file.nodes[-1].output[1:3] = ["", ""]
    add(file, "SimplifiedLayerNormalization", x, gamma, domain="", outputs=2)
    add(file, "SimplifiedLayerNormalization", x, normal(5, 8), domain="", axis=1, epsilon=0.1)
    add(file, "LayerNormalization", x, gamma, beta, domain="", outputs=3)
    file.compare(TOLERANCE)


@pytest.mark.parametrize("opset", [13, 16])
def test_normalizations_of_older_opsets(opset):
    file = File(opset)
    x = file.input(normal(2, 5, 8))
    add(file, "LayerNormalization", x, normal(8), normal(8), domain="")
    add(file, "SimplifiedLayerNormalization", x, normal(8), domain="")
    file.compare(TOLERANCE)


def test_embeddings():
    file = File(17)
    ids, segments, mask = (RNG.integers(0, n, (2, 5)).astype(np.int32) for n in (9, 2, 2))
    ids, segments, mask = map(file.input, (ids, segments, mask))
    words, positions, table = normal(9, 8), normal(7, 8), normal(2, 8)
    words, positions, table = map(file.constant, (words, positions, table))
    gamma, beta = map(file.constant, (normal(8), normal(8)))
    places = file.input(RNG.integers(0, 7, (2, 5)).astype(np.int32))
    for operands in (
        (ids, segments, words, positions, table, gamma, beta),
        (ids, "", words, positions, "", gamma, beta, mask),
        (ids, segments, words, positions, table, gamma, beta, mask, places),
    ):
        y, counts, total = file.node(
            "EmbedLayerNormalization", *operands, domain=MICROSOFT, outputs=3, epsilon=1e-5
        )
        for name, dtype in ((y, np.float32), (counts, np.int32), (total, np.float32)):
            file.output(name, dtype)
    for dtype in ("uint8", "int8"):
        for has_segments in (True, False):
            tables = [levels(shape, dtype) for shape in ((9, 8), (7, 8), (2, 8), (8,), (8,))]
            steps = [np.float32(each) for each in RNG.uniform(0.01, 0.1, 5)]
            points = [levels((), dtype) for _ in range(5)]
            names = [[file.constant(x) for x in each] for each in (tables, steps, points)]
            if not has_segments:
                for each in names:
                    each[2] = ""
            (words8, positions8, table8, *rest), steps, points = names
            own = segments if has_segments else ""
            operands = (ids, own, words8, positions8, table8, *rest, mask, *steps, *points)
            y, counts = file.node(
                "QEmbedLayerNormalization", *operands, domain=MICROSOFT, outputs=2, epsilon=1e-5
            )
            file.output(y, np.float32)
            file.output(counts, np.int32)
    file.compare(TOLERANCE)


def test_products_and_convolutions():
    file = File(17)
    a, b = normal(2, 3, 4, 5), normal(2, 3, 5, 6)
    at, bt = a.swapaxes(-1, -2), b.swapaxes(-1, -2)
    add(file, "FusedMatMul", a, b, alpha=0.3)
    add(file, "FusedMatMul", at, bt, transA=1, transB=1)
    add(file, "FusedMatMul", np.moveaxis(a, -2, 0), b, transBatchA=1)
    add(file, "FusedMatMul", np.moveaxis(a, -1, 0), b, transBatchA=1, transA=1)
    add(file, "FusedMatMul", a, np.moveaxis(b, -2, 0), transBatchB=1, alpha=-2.0)
    add(file, "FusedMatMul", a, np.moveaxis(b, -1, 0), transBatchB=1, transB=1)
    add(file, "TransposeMatMul", at[0, 0], b[0, 0], transA=1)
    for name, parameters in ACTIVATIONS.items():
        options = dict(zip(("activation_alpha", "activation_beta"), parameters, strict=False))
        options |= {"transB": 1, "activation": name}
        add(file, "FusedGemm", normal(4, 5), normal(6, 5), normal(6), **options)
        x, w = normal(1, 4, 6, 6), normal(4, 2, 3, 3)
        options = {"group": 2, "pads": [1] * 4, "activation": name}
        options |= {"activation_params": parameters} if parameters else {}
        add(file, "FusedConv", x, w, normal(4), **options)
        add(file, "FusedConv", x, w, normal(4), normal(1, 4, 6, 6), **options)
    file.compare(TOLERANCE)


ACTIVATIONS = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": (0.2,),
    "HardSigmoid": (0.3, 0.4),
}


def test_channels_last():
    file = File(17)
    x, w = normal(1, 6, 6, 4), normal(4, 4, 3, 3)
    options = {"pads": [1, 0, 1, 0], "strides": [2, 1]}
    model_options = dict(domain=MICROSOFT, **options)
    names = [file.input(each) for each in (x, w, normal(4), normal(1, 3, 4, 4))]
    file.output(file.node("NhwcConv", *names[:3], **model_options), np.float32)
    y = file.node("NhwcFusedConv", *names, activation="Relu", **model_options)
    file.output(y, np.float32)
    found = dmlax.onnx.load(file.model())(file.inputs)
    plain = File(17)
    swapped = [np.moveaxis(x, -1, 1), w, file.inputs[names[2]]]
    conv = plain.node("Conv", *map(plain.input, swapped), **options)
    plain.output(conv, np.float32)
    wanted = np.moveaxis(dmlax.onnx.load(plain.model())(plain.inputs)[conv], 1, -1)
    np.testing.assert_allclose(found[next(iter(found))], wanted, rtol=1e-5, atol=1e-5)
    residual = np.maximum(wanted + file.inputs[names[3]], 0)
    np.testing.assert_allclose(found[y], residual, rtol=1e-5, atol=1e-5)
    file = File(17)
    for dtype in ("int8", "uint8"):
        options = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
        x = file.input(levels((1, 6, 6, 4), dtype))
        file.output(file.node("NhwcMaxPool", x, domain=MICROSOFT, **options), dtype)
    file.compare()


MASKS = {
    "none": None,
    "ends": np.array([3, 5], np.int32),
    "ends and starts": np.array([4, 5, 1, 0], np.int32),
    "keys": np.array([[1, 1, 0, 1, 1], [0, 1, 1, 1, 0]], np.int32),
    "queries and keys": np.tril(np.ones((2, 5, 5), np.int32)),
}


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_of_a_projection(unidirectional):
    file = File(17)
    x = file.input(normal(2, 5, 8))
    w, bias = file.input(normal(8, 24)), file.input(normal(24))
    bytes_ = file.input(levels((2, 5, 8), "uint8"))
    # 7 bits saturate on no processor.
    weights = [file.constant(levels((8, 24), dtype) // 2) for dtype in ("int8", "uint8")]
    step = file.constant(np.float32(0.02))
    steps = file.constant(RNG.uniform(0.01, 0.02, 24).astype(np.float32))
    options = {"num_heads": 2, "unidirectional": unidirectional}
    for mask in MASKS.values():
        mask = "" if mask is None else file.input(mask)
        add(file, "Attention", x, w, bias, mask, outputs=2, **options)
        add(file, "Attention", x, w, "", mask, scale=0.7, mask_filter_value=-3.0, **options)
        point = file.constant(levels((), "uint8"))
        operands = (bytes_, weights[0], bias, step, step, mask, point)
        add(file, "QAttention", *operands, outputs=2, **options)
    points = [file.constant(levels(shape, "uint8")) for shape in ((), ())]
    add(file, "QAttention", bytes_, weights[1], bias, step, step, "", *points, **options)
    points = [point, file.constant(np.zeros(24, np.int8))]
    add(file, "QAttention", bytes_, weights[0], bias, step, steps, "", *points, **options)
    past = file.input(normal(2, 2, 2, 3, 4))
    add(file, "Attention", x, w, bias, "", past, outputs=2, **options)
    add(file, "Attention", x, w, bias, "", "", normal(1, 2, 5, 5), **options)
    add(file, "Attention", x, normal(8, 20), normal(20), qkv_hidden_sizes=[8, 8, 4], **options)
    file.compare(TOLERANCE)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_multi_head_attention(unidirectional):
    file = File(17)
    q, k, v, bias = map(
        file.input, (normal(2, 5, 8), normal(2, 5, 8), normal(2, 5, 12), normal(28))
    )
    options = {"num_heads": 2, "unidirectional": unidirectional}
    for mask in (*MASKS.values(), "bias"):
        if mask is None or isinstance(mask, str) or len(mask) != 4:
            rest = (None, normal(2, 1, 5, 5)) if isinstance(mask, str) else (mask,)
            add(file, "MultiHeadAttention", q, k, v, bias, *rest, outputs=3, **options)
    add(file, "MultiHeadAttention", q, k, v, scale=0.3, **options)
    past = normal(2, 2, 3, 4), normal(2, 2, 3, 4)
    add(file, "MultiHeadAttention", q, k, normal(2, 5, 8), "", "", "", *past, outputs=3, **options)
    if not unidirectional:
        heads = normal(2, 2, 7, 4), normal(2, 2, 7, 4)
        add(file, "MultiHeadAttention", q, *heads, normal(24), **options)
    file.compare(TOLERANCE)


def test_rotary_embeddings():
    for opset in (17, 23):
        file = File(opset)
        caches = RNG.uniform(-1, 1, (2, 9, 3)).astype(np.float32)
        cosines, sines = map(file.input, caches)
        positions = file.input(RNG.integers(0, 9, (2, 5)))
        rows, heads = file.input(normal(2, 5, 12)), file.input(normal(2, 2, 5, 6))
        wide = file.input(normal(2, 2, 5, 10))
        for interleaved in (0, 1):
            options = {"interleaved": interleaved}
            if opset == 17:
                for x, start in ((rows, positions), (rows, np.array([2])), (heads, positions)):
                    add(file, "RotaryEmbedding", x, start, cosines, sines, **options)
                partial = dict(options, rotary_embedding_dim=6, num_heads=2)
                add(file, "RotaryEmbedding", wide, positions, cosines, sines, **partial)
                continue
            options["domain"] = ""
            partial = dict(options, rotary_embedding_dim=6)
            add(file, "RotaryEmbedding", rows, cosines, sines, positions, num_heads=2, **options)
            add(file, "RotaryEmbedding", heads, cosines, sines, positions, **options)
            add(file, "RotaryEmbedding", heads, normal(2, 5, 3), normal(2, 5, 3), **options)
            add(file, "RotaryEmbedding", wide, cosines, sines, positions, **partial)
        file.compare(TOLERANCE)


@pytest.mark.parametrize("opset", [23, 24])
def test_attention_of_onnx(opset):
    file = File(opset)
    q, k, v = map(file.input, (normal(2, 4, 5, 6), normal(2, 2, 7, 6), normal(2, 2, 7, 3)))
    rows = [file.input(normal(2, n, size)) for n, size in ((5, 24), (7, 12), (7, 6))]
    past = [file.input(normal(2, 2, 3, size)) for size in (6, 3)]
    mask = RNG.integers(0, 2, (5, 7)).astype(bool)
    mask[:, 0] = True
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    add(file, "Attention", q, k, v, domain="")
    add(file, "Attention", *rows, domain="", **heads)
    add(file, "Attention", q, k, v, mask, domain="", softcap=0.7)
    add(file, "Attention", q, k, v, normal(2, 1, 5, 7), domain="", scale=0.4)
    add(file, "Attention", q, k, v, "", *past, domain="", outputs=3)
    add(file, "Attention", q, k, v, normal(5, 10), *past, domain="", outputs=3)
    square = map(file.input, (normal(2, 2, 5, 6), normal(2, 2, 5, 3)))
    add(file, "Attention", q, *square, domain="", is_causal=1)
    for mode in range(4):
        options = {"qk_matmul_output_mode": mode, "softcap": 0.9}
        add(file, "Attention", q, k, v, normal(5, 10), *past, domain="", outputs=4, **options)
    if opset == 24:
        counts = file.input(np.array([6, 7]))
        add(file, "Attention", q, k, v, "", "", "", counts, domain="")
    file.compare(TOLERANCE)


def test_other_options_are_refused():
    ones = np.ones
    x, w = ones((2, 5, 8), np.float32), ones((8, 24), np.float32)
    mask = ones((2, 1, 5, 5), np.int32)
    for op, operands, attributes, message in (
        ("Attention", (x, w), {"num_heads": 2, "do_rotary": 1}, "do_rotary is 1, expected 0"),
        ("Attention", (x, w), {"num_heads": 3}, "its rows of 8 elements have 3 heads"),
        ("Attention", (x, w, None, mask), {"num_heads": 2}, "its mask has the shape"),
        ("Attention", (x, w), {"num_heads": 2, "qkv_hidden_sizes": [8, 8]}, "qkv_hidden_sizes are"),
        ("MultiHeadAttention", (x,), {"num_heads": 2}, "its key or value is absent"),
        ("FusedGemm", (w, w.T), {"activation": "Cos"}, "its activation Cos is not known"),
    ):
        file = File(17)
        add(file, op, *operands, **attributes)
        with pytest.raises(dmlax.UnsupportedError, match=message):
            dmlax.onnx.load(file.model())

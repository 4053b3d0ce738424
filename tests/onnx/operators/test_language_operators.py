"""Operators of language models beside caches, with drawn attributes, beside ONNX Runtime."""

from typing import Any

import numpy as np
import pytest

from support.onnx_files import RNG, File

MICROSOFT = "com.microsoft"
TOLERANCE = 2e-6


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(0, 1, shape).astype(np.float32)


def flag() -> bool:
    return bool(RNG.integers(2))


def pick(*values: Any) -> Any:
    return values[RNG.integers(len(values))]


def add(file: File, op: str, *arrays: Any, outputs: Any = 1, **attributes: Any) -> None:
    """A node of inputs, and constants where a tuple holds the array; drops names that it lacks."""
    domain = attributes.pop("domain", MICROSOFT)
    names = [
        "" if x is None else file.constant(x[0]) if isinstance(x, tuple) else file.input(x)
        for x in arrays
    ]
    while not names[-1]:
        names.pop()
    count = outputs if isinstance(outputs, int) else len(outputs)
    found = file.node(op, *names, domain=domain, outputs=count, **attributes)
    for name in [found] if count == 1 else found:
        file.output(name, np.float32)


def seeded(seed: int, opset: int = 21) -> File:
    file = File(opset)
    RNG.bit_generator.state = np.random.default_rng(seed).bit_generator.state
    return file


@pytest.mark.parametrize("seed", range(12))
def test_attention_with_a_shared_past(seed: int, monkeypatch: Any) -> None:
    monkeypatch.setattr("dmlax.onnx.operators.caches._BLOCK", pick(3, 256))
    file = seeded(seed)
    heads, size = int(RNG.integers(1, 4)), int(pick(4, 8))
    beams = pick(1, 1, 2)
    batch, capacity = beams * int(RNG.integers(1, 3)), int(RNG.integers(6, 12))
    is_masked = flag()  # the operator of one query
    length = 1 if is_masked or beams > 1 else int(RNG.integers(1, 4))
    width, past = heads * size, int(RNG.integers(0, 6 - length + 1))
    total = past + length
    rows = [normal(batch, length, width) for _ in range(3)]
    caches = [normal(batch, heads, capacity, size) for _ in range(2)]
    mask = pick(None, RNG.integers(0, 2, (batch, total)).astype(np.int32))
    if mask is not None:
        mask[:, 0] = 1
    bias = normal(pick(1, batch), pick(1, heads), length, total) if flag() else None
    own_bias = normal(3 * width) if flag() else None
    is_known = flag()
    place = np.array([past], np.int32)
    start: Any = (place,) if is_known else place
    owners = RNG.integers(0, beams, (batch // beams, beams, capacity)).astype(np.int32)
    options = {"num_heads": heads, "scale": pick(0.0, 0.4)}
    count = 4 if is_known else 3
    if is_masked:
        indirect = (np.array([beams], np.int32), owners) if beams > 1 else (None, None)
        operands = (*rows, mask, bias, *caches, start, *indirect, own_bias)
        options |= {"past_present_share_buffer": 1, "output_qk": int(is_known)}
        add(file, "DecoderMaskedMultiHeadAttention", *operands, outputs=count, **options)
    else:
        operands = (*rows, own_bias, mask, bias, *caches, start, owners if beams > 1 else None)
        options |= {"unidirectional": int(beams == 1 and flag())}
        count = 3 if options["unidirectional"] else count
        add(file, "MultiHeadAttention", *operands, outputs=count, **options)
    file.compare(TOLERANCE)


def test_attention_to_the_keys_of_another_sequence() -> None:
    file = seeded(0)
    q, k, v = normal(2, 1, 8), normal(2, 2, 6, 4), normal(2, 2, 6, 4)
    mask = np.array([[1, 1, 0, 1, 1, 1], [1, 0, 0, 0, 0, 1]], np.int32)
    for operands in ((q, k, v), (q, k, v, mask)):
        add(file, "DecoderMaskedMultiHeadAttention", *operands, num_heads=2)
    file.compare(TOLERANCE)


@pytest.mark.parametrize("seed", range(8))
def test_rows_are_scattered(seed: int) -> None:
    file = seeded(seed, 24)
    rank, batch = int(RNG.integers(2, 5)), int(RNG.integers(1, 4))
    axis = int(RNG.integers(1, rank))
    shape = [batch, *RNG.integers(1, 5, rank - 1)]
    shape[axis] = capacity = int(RNG.integers(3, 9))
    rows = [*shape]
    rows[axis] = length = int(RNG.integers(1, 4))
    mode = pick("linear", "circular")
    last = capacity if mode == "circular" else capacity - length + 1
    places = RNG.integers(0, last, batch) if flag() else None
    options = {"mode": mode, "axis": pick(axis, axis - rank), "domain": ""}
    add(file, "TensorScatter", normal(*shape), normal(*rows), places, **options)
    file.compare()


@pytest.mark.parametrize("seed", range(12))
def test_mixtures_of_experts(seed: int) -> None:
    file = seeded(seed)
    experts, k = int(RNG.integers(2, 6)), int(RNG.integers(1, 3))
    tokens, size, inner = int(pick(1, 2, 9)), 32, int(pick(32, 64))
    activation = pick("relu", "gelu", "silu", "identity", "swiglu", "swiglu")
    options = {"k": k, "activation_type": activation, "normalize_routing_weights": int(flag())}
    factor = 1
    if activation == "swiglu":
        factor, options["swiglu_fusion"] = 2, 1
        options |= pick({}, {"activation_alpha": 1.702, "activation_beta": 1.0})
        options |= pick({}, {"swiglu_limit": 1.5})
    x = normal(tokens, size) if flag() else normal(1, tokens, size)
    scores = np.round(normal(tokens, experts) * pick(1, 4)) / 2  # some are equal
    shapes = (factor * inner, size), (size, inner)
    biases = [(normal(experts, n),) if flag() else None for n, _ in shapes]
    first, last = ((normal(experts, *shape) / 8,) for shape in shapes)
    add(file, "MoE", x, scores, first, biases[0], last, biases[1], **options)
    bits, block = pick((2, 0), (4, 0), (8, 0), (4, 32), (4, 16), (8, 32), (8, 16))
    operands: list[Any] = []
    points: list[Any] = []
    for (n, depth), bias in zip(shapes, biases, strict=True):
        held = RNG.integers(0, 256, (experts, n, depth * bits // 8)).astype(np.uint8)
        blocks = (depth // block,) if block else ()
        scale = RNG.uniform(0.002, 0.02, (experts, n, *blocks)).astype(np.float32)
        last_size = -(-(depth // block if block else n) * bits // 8)
        places = (experts, n, last_size) if block else (experts, last_size)
        points.append((RNG.integers(0, 256, places).astype(np.uint8),))
        operands += [(held,), (scale,), bias]
    operands += [None] * 3 + (points if flag() else [None] * 2)
    options |= {"expert_weight_bits": bits, "accuracy_level": pick(0, 4)}
    options |= {"block_size": block} if block else {}
    if flag():
        operands += [None, np.abs(scores) + 1]
    add(file, "QMoE", x, scores, *operands, **options)
    file.compare(TOLERANCE)


@pytest.mark.parametrize("quant_type", [0, 1])
def test_products_of_named_floats(quant_type: int) -> None:
    file = seeded(quant_type)
    for k, n, block in ((64, 16, 64), (48, 7, 16), (33, 5, 32)):
        if n * k % 2 and quant_type:
            continue
        held = RNG.integers(0, 256, -(-n * k // 2)).astype(np.uint8)
        scale = RNG.uniform(0.5, 2, -(-n * k // block)).astype(np.float32)
        sizes = {"K": k, "N": n, "block_size": block, "quant_type": quant_type}
        for shape in ((k,), (3, k), (2, 1, k)):
            add(file, "MatMulBnb4", normal(*shape), (held,), (scale,), **sizes)
    file.compare(TOLERANCE)


@pytest.mark.parametrize("seed", range(12))
def test_linear_attention(seed: int) -> None:
    file = seeded(seed)
    rule = ("linear", "gated", "delta", "gated_delta")[seed % 4]
    batch, length, size, columns = (
        int(pick(1, 2)),
        int(pick(1, 5)),
        int(pick(4, 8)),
        int(pick(4, 6)),
    )
    heads, groups = pick((2, 2), (4, 2), (2, 4))
    q, k = normal(batch, length, heads * size), normal(batch, length, groups * size) / 4
    v = normal(batch, length, groups * columns)
    state = normal(batch, groups, size, columns) if flag() else None
    decay = rate = None
    if "gated" in rule:
        decay = -np.abs(normal(batch, length, groups * pick(1, size)))
    if "delta" in rule:
        rate = np.abs(normal(batch, length, pick(1, groups))) / 4
    options = {"q_num_heads": heads, "kv_num_heads": groups, "update_rule": rule}
    options |= pick({}, {"scale": 0.3})
    add(file, "LinearAttention", q, k, v, state, decay, rate, outputs=2, **options)
    file.compare(TOLERANCE)


@pytest.mark.parametrize("seed", range(8))
def test_convolutions_with_a_state(seed: int) -> None:
    file = seeded(seed)
    batch, taps, dilation = int(pick(1, 2)), int(RNG.integers(1, 5)), int(pick(1, 2, 3))
    length, is_last = int(pick(1, 2, 7)), flag()
    channels = pick((6,), (3, 2)) if is_last else (6,)
    reach = (taps - 1) * dilation
    sizes = (batch, length, *channels) if is_last else (batch, 6, length)
    held = (batch, reach, *channels) if is_last else (batch, 6, reach)
    options = {"activation": pick("none", "silu", "swish"), "dilation": dilation}
    bias, state = (normal(6) if flag() else None), (normal(*held) if flag() else None)
    options["channels_last"] = int(is_last)
    operands = (normal(*sizes), normal(6, 1, taps), bias, state)
    add(file, "CausalConvWithState", *operands, outputs=2, **options)
    file.compare(TOLERANCE)


def test_gates_rotations_and_skips() -> None:
    file = seeded(3)
    for activation in ("silu", "swish", "sigmoid"):
        options = {"activation": activation, "epsilon": pick(1e-5, 0.1)}
        add(file, "GatedRMSNorm", normal(2, 3, 12), normal(4), normal(2, 3, 12), **options)
    a, bias, scale = normal(2, 3, 4), normal(4), -np.abs(normal(4))
    add(file, "LinearAttentionGate", a, bias, scale)
    add(file, "LinearAttentionGate", a, bias, scale, normal(2, 3, 4), outputs=2)
    places = RNG.integers(0, 9, (3, 2, 5))
    tables = normal(9, 8), normal(9, 8)
    for layout, section, interleaved in ((0, [3, 4, 1], 0), (1, [4, 2, 2], 1), (1, [3, 3, 2], 0)):
        options = {"mrope_section": section, "mrope_layout": layout, "interleaved": interleaved}
        add(file, "MRotaryEmbedding", normal(2, 3, 5, 16), places, *tables, **options)
        add(file, "MRotaryEmbedding", normal(2, 5, 48), places, *tables, num_heads=3, **options)
    for shape in ((2, 3, 8), (4, 8)):
        operands = (normal(*shape), normal(*shape), normal(8))
        add(file, "SkipSimplifiedLayerNormalization", *operands, outputs=4)
        add(file, "SkipSimplifiedLayerNormalization", *operands, normal(8), outputs=4)
    file.compare(TOLERANCE)

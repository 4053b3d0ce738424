"""Attention with caches, drawn at random, beside ONNX Runtime."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import dmlax
import dmlax.onnx
from dmlax._fused.cache_attention.plan import Caches
from dmlax.onnx import peer
from dmlax.onnx.operators import caches
from support import NATIVE, needs_kernels
from support.onnx_files import File

MICROSOFT = "com.microsoft"
TOLERANCE = {"float32": 2e-6, "float16": 2e-3}


class Draw:
    """A call of GroupQueryAttention: sizes, inputs and attributes that ONNX Runtime accepts."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.kind = rng.choice(["prompt", "step", "chunk", "padded", "shared", "window"])
        self.heads, self.groups = ((4, 2), (2, 1), (3, 3), (8, 2))[rng.integers(4)]
        self.size = int(rng.choice([8, 16, 32]))
        is_single = self.kind in ("chunk", "shared")
        self.batch = batch = 1 if is_single else int(rng.integers(1, 4))
        self.length = length = 1 if self.kind == "step" else int(rng.integers(1, 6))
        self.attributes: dict[str, Any] = {"num_heads": self.heads, "kv_num_heads": self.groups}
        self.counts = None
        if self.kind == "prompt":
            lengths = rng.integers(1, length + 1, batch)
            lengths[0] = length
            capacity, total = int(rng.choice([0, length, length + 5])), length
            self.valid = lengths
        elif self.kind == "padded":
            capacity = int(rng.integers(length + 1, 20))
            before = rng.integers(1, capacity - length + 1, batch)
            self.valid = self.counts = rng.integers(0, length + 1, batch)
            lengths = before + self.counts
            total = int(rng.integers(max(lengths.max(), length), capacity + 1))
        elif self.kind == "window":
            if length > 1:
                self.batch = batch = 1
            window = int(rng.integers(1, 6))
            capacity = window + int(rng.integers(0, 5))
            lengths = rng.integers(length, 18, batch)
            total, self.valid = int(lengths.max()), np.full(batch, length)
            if length > 1 and total == length and rng.integers(2):
                lengths[:] = total = length + 3
            self.attributes |= {"sliding_window_cache": 1, "local_window_size": window}
        else:
            new = 0 if self.kind == "shared" else length
            lengths = rng.integers(length + 1, 16, batch)
            total = int(lengths.max())
            growing = total - new
            capacity = int(rng.choice([growing, total + 3]))
            if self.kind != "shared" and capacity > growing:
                total = int(rng.choice([total, capacity]))
            self.valid = np.full(batch, length)
        self.capacity, self.total, self.lengths = capacity, total, lengths
        self.dtype = rng.choice(["float32"] * 4 + ["float16"])
        self.choose_attributes()

    def choose_attributes(self) -> None:
        rng, some = self.rng, self.attributes
        if self.kind != "window" and rng.integers(4) == 0:
            some["local_window_size"] = int(rng.integers(1, 6))
        if "local_window_size" not in some and self.counts is None and rng.integers(5) == 0:
            some["causal"] = 0
        if rng.integers(4) == 0:
            some["softcap"] = float(rng.choice([0.5, 20]))
        if rng.integers(4) == 0:
            some["scale"] = 0.3
        if rng.integers(5) == 0:
            some["smooth_softmax"] = 1
        self.is_packed = self.kind != "shared" and rng.integers(4) == 0
        self.bits = int(rng.choice([0, 0, 0, 4, 8])) if self.dtype == "float32" else 0
        if self.kind == "window" and self.size < 32:  # ONNX Runtime has these
            self.bits = min(self.bits, 0)
        self.is_by_channel = bool(rng.integers(2))
        if self.bits:
            kind = "PER_CHANNEL" if self.is_by_channel else "PER_TENSOR"
            some |= {"kv_cache_bit_width": self.bits, "k_quant_type": kind, "v_quant_type": kind}
        self.has_rotary = self.size > 8 and self.kind != "shared" and bool(rng.integers(2))
        if self.has_rotary:
            some |= {"do_rotary": 1, "rotary_interleaved": int(rng.integers(2))}
        self.has_positions = self.has_rotary and rng.integers(3) == 0
        self.has_bias = rng.integers(3) == 0
        self.has_sink = rng.integers(4) == 0
        self.scores = int(rng.choice([0, 0, 1, 2])) if self.kind != "window" else 0
        if self.scores:
            some["qk_output"] = self.scores

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.normal(0, 1, shape).astype(self.dtype)

    def cache(self) -> np.ndarray:
        shape = (self.batch, self.groups, self.capacity, self.size // (2 if self.bits == 4 else 1))
        if not self.bits:
            return self.normal(*shape)
        low, dtype = (0, np.uint8) if self.bits == 4 else (-128, np.int8)
        return self.rng.integers(low, low + 256, shape).astype(dtype)

    def file(self, total_is_input: bool) -> tuple[File, list[str]]:
        """The node, and the names of its outputs."""
        file, rng, size = File(21), self.rng, self.size
        width = self.groups * size
        new = 0 if self.kind == "shared" else self.length
        if self.is_packed:
            packed = self.normal(self.batch, self.length, (self.heads + 2 * self.groups) * size)
            names = [file.input(packed), "", ""]
        else:
            names = [file.input(self.normal(self.batch, self.length, self.heads * size))]
            names += [file.input(self.normal(self.batch, new, width)) for _ in range(2)]
        names += [file.input(self.cache()) for _ in range(2)]
        names.append(file.input((self.lengths - 1).astype(np.int32)))
        total = np.array(self.total, np.int32)
        names.append((file.input if total_is_input else file.constant)(total))
        optional: list[np.ndarray | None] = [None] * 10
        if self.has_rotary:
            half = 8 * int(rng.integers(1, size // 16 + 1))
            optional[:2] = (self.normal(40, half) for _ in range(2))
        if self.has_positions:
            optional[2] = rng.integers(0, 40, (self.batch, self.length))
        if self.has_bias:
            batch, heads = rng.choice([1, self.batch]), rng.choice([1, self.heads])
            optional[3] = self.normal(batch, heads, self.length, self.total)
        if self.has_sink:
            optional[4] = self.normal(self.heads)
        if self.bits:
            shape = (width,) if self.is_by_channel else (1,)
            scale = 0.02 if self.bits == 8 else 0.3
            optional[5:7] = ((scale * rng.uniform(0.5, 2, shape)).astype(np.float32) for _ in "kv")
        if self.counts is not None:
            optional[9] = self.counts.astype(np.int32)
        names += ["" if x is None else file.input(x) for x in optional]
        outputs = file.node(
            "GroupQueryAttention",
            *names,
            domain=MICROSOFT,
            outputs=4 if self.scores else 3,
            **self.attributes,
        )
        dtypes = [self.dtype, *[file.inputs[names[3]].dtype] * 2, self.dtype]
        for name, dtype in zip(outputs, dtypes, strict=False):
            file.output(name, dtype)
        return file, outputs

    def resident(self) -> np.ndarray:
        """The rows of the new cache that are specified."""
        if self.kind != "window":
            return self.lengths
        dropped = self.capacity - self.attributes["local_window_size"] + 1
        over = np.maximum(self.lengths - self.capacity, 0)
        return self.lengths - dropped * -(-over // dropped)


def compare(draw: Draw, found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert [x.shape for x in found] == [x.shape for x in wanted]
    assert [x.dtype for x in found] == [x.dtype for x in wanted]
    bound = TOLERANCE[draw.dtype]
    for b in range(draw.batch):
        rows = draw.valid[b]
        close(found[0][b, :rows], wanted[0][b, :rows], bound)
        for got, want in zip(found[1:3], wanted[1:3], strict=True):
            got, want = (x[b, :, : draw.resident()[b]] for x in (got, want))
            close(got, want, 0 if draw.bits else bound)
        if draw.scores:
            got, want = (x[3][b, :, :rows, : draw.lengths[b]] for x in (found, wanted))
            close(got, want, bound)


def close(got: np.ndarray, want: np.ndarray, bound: float) -> None:
    got, want = (np.asarray(x, np.float64) for x in (got, want))
    np.testing.assert_allclose(got, want, rtol=0, atol=bound * max(np.abs(want).max(initial=1), 1))


@pytest.mark.parametrize("seed", range(40))
def test_group_query_attention_beside_onnx_runtime(seed: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(caches, "_BLOCK", (256, 4, 3)[seed % 3])
    draw = Draw(seed)
    file, outputs = draw.file(total_is_input=seed % 10 == 0)
    model = file.model()
    wanted = peer.run(peer.start(model), file.inputs)
    found = dmlax.onnx.load(model)(file.inputs)
    compare(draw, *([np.asarray(x[name]) for name in outputs] for x in (found, wanted)))


def step(
    lengths: list[int], total: Any = 6, capacity: int = 6, length: int = 1, **changes: Any
) -> File:
    """A step of sequences whose caches hold 6 places; `changes` are attributes and more inputs."""
    file, batch = File(21), len(lengths)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(0, 1, (batch, length, n)).astype(np.float32) for n in (32, 16, 16)]
    arrays += [rng.normal(0, 1, (batch, 2, capacity, 8)).astype(np.float32) for _ in range(2)]
    names = [*map(file.input, arrays), file.input(np.array(lengths, np.int32) - 1)]
    size = np.array(total, np.int32)
    names.append(file.input(size) if changes.pop("is_input", False) else file.constant(size))
    for name, place in (("cosines", 7), ("k_scale", 12), ("q_norm", 14)):
        if name in changes:
            names += [""] * (place - len(names)) + [file.input(changes.pop(name))]
    options = {"num_heads": 4, "kv_num_heads": 2} | changes
    node = file.node("GroupQueryAttention", *names, domain=MICROSOFT, outputs=3, **options)
    for name in node:
        file.output(name, np.float32)
    return file


def result(file: File) -> np.ndarray:
    return np.asarray(next(iter(dmlax.onnx.load(file.model())(file.inputs).values())))


ONE = np.ones(1, np.float32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"total": 8}, "total_sequence_length is 8, its cache has 6 places and its chunk 1 rows"),
        ({"total": 2, "length": 3}, "is 2, its cache has 6 places and its chunk 3 rows, expected"),
        ({"do_rotary": 1}, "its cos_cache or sin_cache is absent"),
        ({"sliding_window_cache": 1}, "has 6 places and a window of -1, expected a window, and"),
        ({"sliding_window_cache": 1, "local_window_size": 7}, "has 6 places and a window of 7"),
        ({"k_quant_type": "PER_TENSOR"}, "are PER_TENSOR, NONE and 0, and its cache is float32"),
        ({"q_norm": ONE}, "its q_norm_weight or k_norm_weight is given, expected none"),
        ({"causal": 2}, "causal is 2, expected one of 0, 1"),
    ],
)
def test_calls_that_onnx_runtime_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(dmlax.UnsupportedError, match=message):
        dmlax.onnx.load(step([4], **options).model())


@pytest.mark.parametrize(
    ("lengths", "options"),
    [
        ([7, 4], {}),  # the lengths exceed the capacity
        ([0, 4], {}),
        ([2, 5], {"length": 3, "total": 6}),  # fewer than the rows of a chunk, which is no prompt
        ([0, 4], {"sliding_window_cache": 1, "local_window_size": 4}),
    ],
)
def test_a_wrong_length_gives_nan(lengths: list[int], options: dict[str, Any]) -> None:
    """A length is a value of the program: its sequence is NaN, and the others are as they were."""
    file = step(lengths, **options)
    y = result(file)
    assert np.isnan(y[0]).all()
    good = step([lengths[1]] * 2, **options)
    wanted = result(good)
    np.testing.assert_array_equal(y[1], wanted[1])


def test_a_total_length_that_is_an_input_makes_a_program_for_each_value() -> None:
    file = step([4], is_input=True)
    model = dmlax.onnx.load(file.model())
    total, (y, key, _) = [*file.inputs][6], [*file.outputs]
    for size, capacity in ((6, 6), (7, 7), (5, 6)):
        wanted = peer.run(peer.start(file.model()), {**file.inputs, total: np.int32(size)})
        found = model({**file.inputs, total: np.int32(size)})
        assert found[key].shape[2] == capacity
        np.testing.assert_allclose(found[y], wanted[y], rtol=0, atol=1e-6)
    found = model.apply(model.params, file.inputs)
    assert found[key].shape[2] == 6
    text = f"{total} is a size and traced here: give a number or an array of NumPy, or load"
    with pytest.raises(dmlax.SpecError, match=text):
        jax.jit(model.apply)(model.params, file.inputs)


def test_a_step_costs_by_its_length() -> None:
    """The program reads blocks up to the length, and no whole cache."""
    file = step([4], total=1 << 16, capacity=1 << 16)
    model = dmlax.onnx.load(file.model())
    caches = {name: jnp.asarray(x) for name, x in file.inputs.items() if x.ndim == 4}
    rest = {name: x for name, x in file.inputs.items() if name not in caches}
    compute = jax.jit(
        lambda caches, rest: model.apply(model.params, caches | rest), donate_argnums=0
    )
    lowered = compute.lower(caches, rest)
    memory = lowered.compile().memory_analysis()
    assert memory.temp_size_in_bytes < 1 << 20  # a cache has 4 MiB
    assert memory.alias_size_in_bytes >= 2 * (1 << 16) * 2 * 8 * 4


@needs_kernels
@pytest.mark.parametrize("arithmetic", ["float32", "exact"])
def test_a_kernel_attends_in_float32_alone(arithmetic: str) -> None:
    file = step([4], total=300, capacity=300)
    model = dmlax.onnx.load(file.model(), arithmetic=arithmetic)
    chosen = [
        choice.implementation
        for call in model.explain(file.inputs).program.calls
        if call.operator == "cache_attention"
        for choice in call.choices
        if choice.platform == "cpu"
    ]
    assert chosen == (["native_cpu"] if arithmetic == "float32" else [])


@pytest.mark.parametrize("arithmetic", ["float32", "exact"])
@pytest.mark.parametrize("capacity", [6, 300])
def test_nan_beyond_a_length_is_not_read(arithmetic: str, capacity: int) -> None:
    file = step([4, 2], total=capacity, capacity=capacity)
    model = dmlax.onnx.load(file.model(), arithmetic=arithmetic)
    spoiled = dict(file.inputs)
    for name in (name for name, x in file.inputs.items() if x.ndim == 4):
        spoiled[name] = file.inputs[name].copy()
        spoiled[name][0, :, 4:], spoiled[name][1, :, 2:] = np.nan, np.nan
    y = next(iter(model.outputs))
    np.testing.assert_array_equal(model(spoiled)[y], model(file.inputs)[y])


@pytest.mark.parametrize("parts", [(2, 2), (1, 4)])
def test_an_attention_is_split_over_devices(parts: tuple[int, int]) -> None:
    """By sequences and heads, though two groups are fewer than four devices."""
    rng = np.random.default_rng(0)
    q, keys, values = (
        rng.normal(size=(2, heads, rows, 16)).astype(np.float32)
        for heads, rows in ((8, 3), (2, 300), (2, 300))
    )
    last = np.array([[7, 8, 9], [280, 281, 282]], np.int32)
    operands = Caches(q, keys, values, np.stack([0 * last, last], -1), np.zeros((2, 0), np.float32))
    plan, operands = caches.ATTENTION.plan(jax.device_put(operands), 0.25, 0.0)
    wanted = caches.ATTENTION.call(plan, operands)
    axes = (AxisType.Auto,) * 2
    mesh = jax.make_mesh(parts, ("batch", "head"), axis_types=axes)
    heads = "head" if parts[1] == 2 else None
    specs = [("batch", "head"), *[("batch", heads)] * 2, ("batch",), ("batch",)]
    places = Caches(*(NamedSharding(mesh, PartitionSpec(*spec)) for spec in specs))
    split = jax.device_put(operands, places)
    compiled = jax.jit(functools.partial(caches.ATTENTION.call, plan)).lower(split).compile()
    np.testing.assert_array_equal(compiled(split), wanted)
    assert compiled.as_text().count('"dmlax_cache_attention') == len(NATIVE)

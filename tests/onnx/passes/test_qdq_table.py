"""Every operator of the table of QDQ groups, with drawn attributes, shapes, dtypes and readers."""

from typing import Any

import numpy as np
import onnx
import pytest

import dmlax.onnx
from dmlax.onnx import peer
from dmlax.onnx.passes.qdq import FUSIONS
from tests.onnx.passes.test_qdq import File

BYTES = (np.uint8, np.uint8, np.int8, np.int8)
WIDE = (np.uint16, np.int16)
MODES = ("align_corners", "asymmetric", "half_pixel", "pytorch_half_pixel", "tf_crop_and_resize")
NEAREST = ("ceil", "floor", "round_prefer_ceil", "round_prefer_floor")


class Draw:
    """Draws a file of one group around an operator."""

    def __init__(self, op: str, seed: int) -> None:
        self.op, self.rng = op, np.random.default_rng([seed, *map(ord, op)])
        self.opset = int(self.one_of(11, 13, 17, 18, 19, 21, 23))
        self.is_exact = self.chance(0.6)  # scales are powers of 2, so that floats are exact
        self.dtype = self.one_of(*BYTES, *(WIDE if self.opset >= 21 else ()))
        self.f = File(self.opset)
        self.dequantized: list[tuple[str, Any]] = []

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def one_of(self, *items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def size(self, low: int = 1, high: int = 5) -> int:
        return int(self.rng.integers(low, high + 1))

    def shape(self, low: int, high: int) -> list[int]:
        return [self.size() for _ in range(self.size(low, high))]

    def integers(self, *values: int) -> str:
        return self.f.constant(np.array(values, np.int64))

    def options(self, **choices: Any) -> dict[str, Any]:
        """Some of these attributes."""
        return {name: x for name, x in choices.items() if self.chance(0.5)}

    def parameters(self) -> tuple[Any, Any]:
        exponent = 2.0 ** self.rng.integers(-4, 1)
        scale = exponent if self.is_exact else exponent * self.rng.uniform(0.6, 1)
        limits = np.iinfo(self.dtype)
        zero = self.dtype(self.one_of(0, limits.min, self.rng.integers(-20, 100) % 100))
        scale = np.float32(scale * self.one_of(1, 1, 1, 1, 1, 1, -1))
        return (np.array([scale]), np.array([zero])) if self.chance(0.1) else (scale, zero)

    def x(self, shape: Any, parameters: Any = None) -> str:
        """A dequantized input, or one that is quantized first."""
        scale, zero = parameters or self.parameters()
        limits = np.iinfo(self.dtype)
        x = self.rng.integers(limits.min, limits.max + 1, shape).astype(self.dtype)
        if self.chance(0.6):
            real = (x.astype(np.float32) - zero.astype(np.float32)) * scale
            name = self.f.q(self.f.input(real.astype(np.float32)), scale, zero)
        else:
            name = self.f.input(x)
        name = self.f.d(name, scale, zero)
        self.dequantized.append((name, (scale, zero)))
        return name

    def weights(self, shape: Any, axis: int) -> tuple[str, np.ndarray]:
        """Dequantized weights, with scales of channels or one."""
        shape, dtype = tuple(shape), self.one_of(np.int8, np.int8, np.uint8)
        count = shape[axis] if self.chance(0.5) and self.opset > 12 else None
        scale = np.float32(2.0 ** self.rng.integers(-5, 0, count))
        scale = scale if self.is_exact else scale * np.float32(self.rng.uniform(0.6, 1, count))
        scale = np.where(self.rng.random(count) < 0.15, 0, scale).astype(np.float32)
        w = self.rng.integers(*((0, 255) if dtype == np.uint8 else (-128, 128)), shape)
        zero = np.asarray(self.rng.integers(0, 3, count), dtype)
        scale, w = np.asarray(scale), w.astype(dtype)
        if self.chance(0.3) and scale.all():  # the file quantizes floats
            sides = [-1 if i == axis % len(shape) else 1 for i in range(len(shape))]
            pairs = ((x if count is None else x.reshape(sides)) for x in (scale, zero))
            factor, start = (x.astype(np.float32) for x in pairs)
            floats = self.f.constant((w - start) * factor)
            levels = self.f.q(floats, scale, zero, **self.along(axis))
            return self.f.d(levels, scale, zero, **self.along(axis)), scale
        return self.f.w(w, scale, zero, **self.along(axis)), scale

    def along(self, axis: int) -> dict[str, int]:
        return {"axis": axis} if self.opset > 12 else {}

    def bias(self, count: int, scale: np.ndarray, x: str) -> str:
        x_scale = dict(self.dequantized)[x][0]
        steps = np.broadcast_to(x_scale.ravel() * scale.ravel(), (count,)).astype(np.float32)
        if self.chance(0.3) or self.opset < 13:
            steps = np.asarray(steps[0])
        values = self.rng.integers(-300, 300, count).astype(np.int32)
        make = self.f.d if self.chance(0.4) else self.f.w
        return make(values, steps, np.zeros(steps.shape, np.int32), **self.along(0))

    # --- the operators ------------------------------------------------------------------

    def node(self, *inputs: str, **attributes: Any) -> str:
        return self.f.node(self.op, *inputs, **attributes)

    def pool(self, rank: int | None = None) -> tuple[str, dict[str, Any]]:
        rank = rank or self.size(1, 2)
        shape = [self.size(1, 2), self.size(1, 4), *(self.size(4, 7) for _ in range(rank))]
        attributes = {"kernel_shape": [self.size(1, 3) for _ in range(rank)]}
        attributes |= self.options(strides=[self.size(1, 3) for _ in range(rank)])
        kernel = attributes["kernel_shape"]
        pads = [int(self.rng.integers(k)) for k in kernel * 2]
        attributes |= self.one_of(
            {}, {"pads": pads}, {"auto_pad": self.one_of("SAME_UPPER", "SAME_LOWER", "VALID")}
        )
        return self.x(shape), attributes

    def make(self) -> str:
        return getattr(self, f"make_{self.op}", self.make_other)()

    def make_other(self) -> str:
        return self.node(self.x(self.shape(1, 4)))

    def make_Add(self) -> str:
        shape = self.shape(0, 4)
        other = [1 if self.chance(0.3) else n for n in shape][self.size(0, len(shape)) :]
        names = [self.x(shape), self.x(other)]
        return self.node(*names[:: self.one_of(1, -1)])

    make_Mul = make_Add

    def make_AveragePool(self) -> str:
        x, attributes = self.pool()
        attributes |= self.options(count_include_pad=1)
        attributes |= {} if "auto_pad" in attributes else self.options(ceil_mode=1)
        if self.opset >= 19 and "auto_pad" not in attributes:
            attributes |= self.options(dilations=[2] * len(attributes["kernel_shape"]))
        return self.node(x, **attributes)

    def make_MaxPool(self) -> str:
        x, attributes = self.pool()
        attributes |= self.options(storage_order=1)
        if "auto_pad" not in attributes:
            attributes |= self.options(ceil_mode=1)
            attributes |= self.options(dilations=[2] * len(attributes["kernel_shape"]))
        outputs = self.size(1, 2)
        y = self.node(x, outputs=outputs, **attributes)
        return y

    def make_GlobalAveragePool(self) -> str:
        return self.node(self.x(self.shape(3, 5)))

    def make_Concat(self) -> str:
        shape = self.shape(1, 4)
        axis = self.size(-len(shape), len(shape) - 1)
        names = []
        for _ in range(self.size(1, 3)):
            sizes = list(shape)
            sizes[axis] = self.size()
            names.append(self.x(sizes, self.dequantized[0][1] if names else None))
        return self.node(*names, axis=axis)

    def make_Conv(self) -> str:
        rank = self.one_of(1, 2, 2, 2, 3)
        x, attributes = self.pool(rank)
        kernel = attributes.pop("kernel_shape")
        channels = self.f.inputs[[*self.f.inputs][-1]].shape[1]
        group = self.one_of(1, 1, channels)
        filters = group * self.size(1, 3)
        w, scale = self.weights((filters, channels // group, *kernel), 0)
        attributes |= self.options(kernel_shape=kernel)
        attributes |= {"group": group} if group > 1 else {}
        if "auto_pad" not in attributes and self.chance(0.3):
            attributes["dilations"] = [2 if k == 2 else 1 for k in kernel]
        names = [x, w] + ([self.bias(filters, scale, x)] if self.chance(0.5) else [])
        return self.node(*names, **attributes)

    def make_Gemm(self) -> str:
        m, k, n = self.size(), self.size(), self.size()
        a, b = self.one_of(0, 0, 1), self.one_of(0, 1)
        x = self.x((k, m) if a else (m, k))
        w, scale = self.weights((n, k) if b else (k, n), 0 if b else 1)
        attributes = ({"transA": 1} if a else {}) | ({"transB": 1} if b else {})
        names = [x, w] + ([self.bias(n, scale, x)] if self.chance(0.5) else [])
        attributes |= {"alpha": self.one_of(2.0, 0.5)} if self.chance(0.3) else {}
        attributes |= {"beta": self.one_of(1.0, 2.0)} if self.chance(0.3) else {}
        return self.node(*names, **attributes)

    def make_MatMul(self) -> str:
        batch, k, n = self.shape(0, 2), self.size(), self.size()
        a = self.one_of([k], [*batch, self.size(), k])
        b = self.one_of([k], [k, n], [k, n], [*batch, k, n])
        if self.chance(0.3):
            return self.node(self.x(a), self.x(b))
        x = self.x(a)
        return self.node(x, self.weights(b, len(b) - 1)[0])

    def make_LeakyRelu(self) -> str:
        return self.node(
            self.x(self.shape(0, 4)), **self.options(alpha=self.one_of(0.25, 2.0, -1.0))
        )

    def make_Softmax(self) -> str:
        shape = self.shape(1, 4)
        axis = self.size(-len(shape), len(shape) - 1)
        choices = self.options(axis=axis) if len(shape) > 1 or self.opset > 12 else {"axis": axis}
        return self.node(self.x(shape), **choices)

    def make_DepthToSpace(self) -> str:
        n, c, h, w = (self.size(1, 3) for _ in range(4))
        modes = self.options(mode=self.one_of("DCR", "CRD"))
        return self.node(self.x((n, 4 * c, h, w)), blocksize=2, **modes)

    def make_SpaceToDepth(self) -> str:
        n, c, h, w = (self.size(1, 3) for _ in range(4))
        return self.node(self.x((n, c, 2 * h, 2 * w)), blocksize=2)

    def make_Expand(self) -> str:
        shape = [1 if self.chance(0.5) else n for n in self.shape(0, 3)]
        wanted = [self.size() if n == 1 else self.one_of(1, n) for n in shape]
        return self.node(self.x(shape), self.integers(*self.shape(0, 1), *wanted))

    def make_Flatten(self) -> str:
        shape = self.shape(1, 4)
        return self.node(self.x(shape), **self.options(axis=self.size(-len(shape), len(shape))))

    def make_Gather(self) -> str:
        shape = self.shape(1, 3)
        axis = self.size(-len(shape), len(shape) - 1)
        index = self.rng.integers(-shape[axis], shape[axis], self.shape(0, 2))
        index = (self.f.input if self.chance(0.5) else self.f.constant)(index)
        return self.node(self.x(shape), index, axis=axis)

    def make_GatherElements(self) -> str:
        shape = self.shape(1, 3)
        axis = self.size(-len(shape), len(shape) - 1)
        index = self.rng.integers(-shape[axis], shape[axis], shape)
        return self.node(self.x(shape), self.f.constant(index), axis=axis)

    def make_Reshape(self) -> str:
        shape = self.shape(1, 4)
        wanted = self.one_of([-1], [0, -1], [*shape[::-1]])
        return self.node(self.x(shape), self.integers(*wanted))

    def make_Resize(self) -> str:
        rank = self.size(1, 2)
        shape = [self.size(1, 2), self.size(1, 3), *(self.size(2, 5) for _ in range(rank))]
        mode = self.one_of("nearest", "nearest", "linear", "cubic")
        attributes = self.options(coordinate_transformation_mode=self.one_of(*MODES))
        attributes |= self.options(extrapolation_value=self.one_of(0.0, 3.0))
        attributes |= {"mode": mode} if mode != "nearest" else self.options(mode=mode)
        attributes |= self.options(nearest_mode=self.one_of(*NEAREST)) if mode == "nearest" else {}
        news = [*shape[:2], *(self.size(1, 9) for _ in range(rank))]
        if rank == 1 and mode == "cubic":
            shape, news = [*shape, 3], [*news, 4]
        is_moved = [new != old for new, old in zip(news, shape, strict=True)]
        ends = [-0.25 * x for x in is_moved] + [1 + 0.2 * x for x in is_moved]
        roi = self.f.constant(np.float32(ends))
        if self.chance(0.5):
            scales = np.float32([new / old for new, old in zip(news, shape, strict=True)])
            return self.node(self.x(shape), roi, self.f.constant(scales), **attributes)
        return self.node(self.x(shape), roi, "", self.integers(*news), **attributes)

    def make_Slice(self) -> str:
        shape = self.shape(1, 3)
        axis = self.size(-len(shape), len(shape) - 1)
        step = self.one_of(1, 2, -1)
        ends = (shape[axis], -(1 << 40)) if step < 0 else (0, shape[axis])
        starts = [self.integers(*each) for each in ([ends[0]], [ends[1]], [axis], [step])]
        return self.node(self.x(shape), *starts)

    def make_Tile(self) -> str:
        shape = self.shape(1, 3)
        return self.node(self.x(shape), self.integers(*(self.size(1, 3) for _ in shape)))

    def make_Transpose(self) -> str:
        shape = self.shape(1, 4)
        perm = self.rng.permutation(len(shape)).tolist()
        return self.node(self.x(shape), **self.options(perm=perm))

    def make_Squeeze(self) -> str:
        x, axes = self.x([1, self.size(), 1]), [self.one_of(0, -1)]
        return self.node(x, self.integers(*axes)) if self.opset > 12 else self.node(x, axes=axes)

    def make_Unsqueeze(self) -> str:
        x, axes = self.x(self.shape(0, 2)), [0]
        return self.node(x, self.integers(*axes)) if self.opset > 12 else self.node(x, axes=axes)

    def model(self) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        y = self.make()
        x, parameters = self.dequantized[0]
        parameters = parameters if self.chance(0.7) else self.parameters()
        self.step = abs(float(np.ravel(parameters[0])[0]))
        outputs = [self.f.q(y, *parameters)]
        for _ in range(self.one_of(0, 1, 1, 2)):
            outputs.append(self.f.d(outputs[0], *parameters))
        outputs = outputs[1:] or outputs
        if self.chance(0.15):
            outputs.append(self.f.node("Neg", x))
        return self.f.write(*outputs), self.f.inputs


BUSY = ("AveragePool", "Conv", "Gemm", "MatMul", "MaxPool", "Resize")  # these have many attributes
CASES = [(op, seed) for op in sorted(FUSIONS) for seed in range(8 if op in BUSY else 2)]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("op", "seed"), CASES, ids=lambda x: str(x))
def test_a_group_has_onnxruntimes_values(op, seed):
    """At one of its levels; "exact" has those of the nodes as they are."""
    draw = Draw(op, seed)
    model, inputs = draw.model()
    by_nodes, extended = (
        peer.run(peer.start(model, optimised=level, threads=1), inputs) for level in (False, True)
    )
    for arithmetic in ("float32", "exact"):
        loaded = dmlax.onnx.load(model, arithmetic=arithmetic)
        near = op in ("Softmax", "Sigmoid") if draw.is_exact else op in loaded.explain().after
        for name, found in loaded(inputs).items():
            found = np.asarray(found)
            wanted = by_nodes[name]
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            same = (found == wanted) | (arithmetic == "float32") & (found == extended[name])
            step = draw.step if found.dtype.kind == "f" else 1
            is_near = np.abs(found.astype(np.float64) - wanted) <= step * 1.01
            is_loose = near or (arithmetic == "exact" and not draw.is_exact)
            assert np.all(same | (is_loose & is_near)), loaded.explain().after


def gap(f, x):
    return f.node("GlobalAveragePool", x)


def weighted(op, *shape, **attributes):
    """An operator with int8 weights."""

    def make(f, x):
        w = np.random.default_rng(2).integers(-100, 100, shape).astype(np.int8)
        return f.node(op, x, f.w(w, 0.0213, np.int8(0)), **attributes)

    return make


TIES = 0.0179 * 0.0213 * 256  # products at this scale are often half a step
SIGNED = {  # the shape of the input, the operator, and the scale of its output
    "Add": ((4, 60, 40), lambda f, x: f.node("Add", x, draw_int8(f, (4, 60, 40))), 0.03),
    "Mul": ((4, 60, 40), lambda f, x: f.node("Mul", x, draw_int8(f, (4, 60, 40))), 0.03),
    "AveragePool": (
        (4, 8, 30, 30),
        lambda f, x: f.node("AveragePool", x, kernel_shape=[3, 3]),
        0.012,
    ),
    "GlobalAveragePool": ((64, 128, 7, 7), gap, 0.00223),
    "Concat": ((9, 90), lambda f, x: f.node("Concat", x, draw_int8(f, (9, 90)), axis=1), 0.03),
    "Sigmoid": ((90, 90), lambda f, x: f.node("Sigmoid", x), 1 / 256),
    "LeakyRelu": ((90, 90), lambda f, x: f.node("LeakyRelu", x, alpha=0.1), 0.0133),
    "Softmax": ((90, 90), lambda f, x: f.node("Softmax", x), 1 / 256),
    "Conv": ((2, 1, 70, 80), weighted("Conv", 32, 1, 1, 1), TIES),
    "Conv of windows": ((2, 32, 20, 21), weighted("Conv", 32, 32, 3, 3, pads=[1] * 4), 0.323),
    "Gemm": ((90, 1), weighted("Gemm", 1, 800), TIES),
    "MatMul": ((90, 1), weighted("MatMul", 1, 800), TIES),
    "MatMul of depth": ((90, 200), weighted("MatMul", 200, 80), 0.323),
}


def draw_int8(f, shape):
    x = np.random.default_rng(len(f.inputs)).normal(size=shape).astype(np.float32)
    return f.d(f.q(f.input(x), 0.0179, np.int8(3)), 0.0179, np.int8(3))


@pytest.mark.parametrize("readers", ["one", "an output"])
@pytest.mark.parametrize("op", SIGNED)
def test_int8_has_the_bits_of_the_extended_level(op, readers):
    """ONNX Runtime makes uint8 of int8 that one node reads, and leaves other int8."""
    f = File(17)
    shape, make, scale = SIGNED[op]
    x = draw_int8(f, shape)
    y = f.q(make(f, x), scale, np.int8(22))
    outputs = [y if readers == "an output" else f.d(y, scale, np.int8(22))]
    file = f.write(*outputs)
    theirs = peer.run(peer.start(file, threads=1), f.inputs)
    ours = dmlax.onnx.load(file)(f.inputs)
    for name, wanted in theirs.items():
        np.testing.assert_array_equal(ours[name], wanted)


WEIGHTS = {"Conv": (0, (8, 16, 3, 3)), "Gemm": (1, (16, 24)), "MatMul": (1, (16, 24))}


@pytest.mark.parametrize("has_channels", [True, False])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("op", WEIGHTS)
def test_weights_that_the_file_quantizes_are_those_of_a_quantized_file(op, dtype, has_channels):
    """As PyTorch writes them, and `quantize_static` with AddQDQPairToWeight."""
    axis, shape = WEIGHTS[op]
    f, rng = File(21), np.random.default_rng(3)
    scale = np.float32(rng.uniform(0.01, 0.02, shape[axis] if has_channels else None))
    zero, along = np.zeros(scale.shape, dtype), {"axis": axis} if has_channels else {}
    floats = f.constant(rng.normal(size=shape).astype(np.float32))
    w = f.d(f.q(floats, scale, zero, **along), scale, zero, **along)
    x = f.input(rng.normal(size=(99, 16, *shape[2:])).astype(np.float32))
    x = f.d(f.q(x, 0.0179, dtype(3)), 0.0179, dtype(3))
    y = f.d(f.q(f.node(op, x, w), 0.0631, dtype(100)), 0.0631, dtype(100))
    file = f.write(y)
    loaded = dmlax.onnx.load(file)
    assert not {"Conv", "Gemm", "MatMul", "dmlax.Conv"} & set(loaded.explain().after)
    assert {x.dtype for x in loaded.params.values()} == {np.dtype(dtype)}
    theirs = peer.run(peer.start(file, threads=1), f.inputs)[y]
    np.testing.assert_array_equal(loaded(f.inputs)[y], theirs)


@pytest.mark.parametrize("readers", ["x", "y"])
@pytest.mark.parametrize("op", SIGNED)
def test_int8_of_several_readers_is_at_most_a_step_from_the_extended_level(op, readers):
    """ONNX Runtime computes floats there; the operators with many ties differ most."""
    f = File(17)
    shape, make, scale = SIGNED[op]
    x = draw_int8(f, shape)
    y = f.d(f.q(make(f, x), scale, np.int8(22)), scale, np.int8(22))
    file = f.write(y, f.node("Neg", x if readers == "x" else y))
    loaded = dmlax.onnx.load(file)
    fused = {op for op in loaded.explain().after if "QLinear" in op or "QGemm" in op}
    assert len(fused) == 1, loaded.explain().after
    ours, theirs = loaded(f.inputs)[y], peer.run(peer.start(file, threads=1), f.inputs)[y]
    steps = np.abs(np.rint((ours - theirs) / np.float32(scale)))
    assert steps.max() <= 1
    most = {"Add": 0.0015, "Conv": 0.0034, "Gemm": 0.0036, "MatMul": 0.0036}
    assert steps.mean() <= most.get(op, 0)


def test_an_inner_int8_changes_nothing():
    f = File(17)
    shape, make, scale = SIGNED["AveragePool"]
    inner = f.q(make(f, draw_int8(f, shape)), scale, np.int8(22))
    output = f.d(inner, scale, np.int8(22))
    model = dmlax.onnx.load(f.write(output))
    both = model.apply(model.params, f.inputs, outputs=(inner, output))
    assert both[inner].dtype == np.int8
    np.testing.assert_array_equal(both[output], model(f.inputs)[output])


RESIZE = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 0.0}


@pytest.mark.parametrize("arithmetic", ["float32", "exact"])
def test_a_resize_that_computes_stays_floats(arithmetic):
    f = File(13)
    line, none = np.array([[[2, 5, 4]]], np.uint8), f.constant(np.float32([]))
    sizes, roi = f.integers(1, 1, 6), f.constant(np.float32([0, 0, -1, 1, 1, 1]))
    linear = f.node("Resize", f.d(line), none, none, sizes, mode="linear")
    x = f.d(line, 1, np.uint8(128))
    cropped = f.node("Resize", x, roi, none, sizes, **RESIZE)
    cubic = f.node("Resize", f.d(line.repeat(3, 2)), none, none, sizes, mode="cubic")
    outputs = f.q(linear), f.d(f.q(cropped, 1, np.uint8(128)), 1, np.uint8(128)), f.q(cubic)
    found = f.run(*outputs, arithmetic=arithmetic)
    assert found[0].tolist() == [[[2, 3, 4, 5, 4, 4]]]
    assert found[1][0, 0, :3].tolist() == [0, 0, 0]
    assert found[2].shape == (1, 1, 6)


def test_a_gather_behind_the_last_coordinate_reads_the_float_0():
    f = File(17)
    places = f.node("Reshape", f.node("NonZero", f.input(np.float32([0, 1, 0, 2]))), f.integers(-1))
    x = f.d(np.array([10, 20, 30, 40], np.uint8), 1, np.uint8(128))
    y = f.d(f.q(f.node("Gather", x, places), 1, np.uint8(128)), 1, np.uint8(128))
    (found,) = f.run(y, nonzero_size=4)
    assert found.tolist() == [-108, -88, 0, 0]


def test_scales_of_a_vector_are_no_channels():
    f = File(17)
    x = f.d(np.array([[1, 1]], np.uint8), 1, np.uint8(0))
    w = f.w(np.int8([1, 2]), np.float32([1, 10]), np.int8([0, 0]), axis=0)
    (found,) = f.run(f.q(f.node("MatMul", x, w)))
    assert found.tolist() == [21]


def dead(op, is_input, **attributes):
    """A product whose first channel has the scale 0, with a bias; it has quantized operands."""
    f = File(17)
    is_convolution = op == "QLinearConv"
    x = np.arange(1, 5, dtype=np.uint8).reshape((2, 2, 1, 1) if is_convolution else (2, 2))
    w = np.ones((2, 2, 1, 1) if is_convolution else (2, 2), np.int8)
    first = [f.input(x), *map(f.constant, (np.float32(0.5), np.uint8(1)))]
    second = [*map(f.constant, (w, np.float32([0, 0.25]), np.int8([0, 0])))]
    bias = [(f.input if is_input else f.constant)(np.int32([100, 4]))]
    end = [*map(f.constant, (np.float32(0.5), np.uint8(7)))]
    if op == "QGemm":
        y = f.node(op, *first, *second, *bias, *end, domain="com.microsoft", **attributes)
    else:
        y = f.node(op, *first, *second, *end, *(bias if is_convolution else []))
    return f, y


@pytest.mark.parametrize("is_input", [False, True], ids=["constant", "input"])
@pytest.mark.parametrize("op", ["QLinearConv", "QGemm", "QGemm transB", "QLinearMatMul"])
@pytest.mark.parametrize("arithmetic", ["float32", "exact"])
def test_a_dead_channel_is_the_zero_point(op, is_input, arithmetic):
    """The bias counts in steps of 0, whether the file or a caller gives it."""
    op, *transposed = op.split()
    f, y = dead(op, is_input, **dict.fromkeys(transposed, 1))
    (found,) = f.run(y, arithmetic=arithmetic)
    wanted = peer.run(peer.start(f.write(y), threads=1), f.inputs)[y]
    assert (wanted.reshape(2, 2)[:, 0] == 7).all()
    np.testing.assert_array_equal(found, wanted)


def test_products_of_batches_of_matrices_stay_apart():
    f = File(17)
    x = f.d(np.arange(12, dtype=np.uint8).reshape(2, 2, 3), 0.5, np.uint8(3))
    widths = (4, 5)
    w = [f.w(np.ones((2, 3, n), np.int8), 0.25, np.int8(0)) for n in widths]
    outputs = [f.node("MatMul", x, each) for each in w]
    theirs = peer.run(peer.start(f.write(*outputs), threads=1), f.inputs)
    for name, found in zip(outputs, f.run(*outputs), strict=True):
        np.testing.assert_array_equal(found, theirs[name])

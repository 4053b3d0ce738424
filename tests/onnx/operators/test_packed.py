"""Weights of 2, 4 and 8 bits in blocks: products and rows, and the memory that they take."""

import jax
import ml_dtypes
import numpy as np
import pytest
from onnx import helper

import dmlax
import dmlax.onnx
from dmlax._core.byte_packing import unpack_bits
from dmlax.onnx import peer
from dmlax.onnx.operators import n_bits
from dmlax.onnx.operators.packed import PackedIntegers
from support import needs_kernels
from support.onnx_files import NUMBERS, RNG, File, levels, scales

MICROSOFT = "com.microsoft"


def n_bits_product(
    file, x, k, n, bits=4, block=16, dtype=np.float32, points=None, level=0, **inputs
):
    """A MatMulNBits of random weights; points is None, "packed" or "float"."""
    blocks = -(-k // block)
    operands = [
        file.constant(RNG.integers(0, 256, (n, blocks, block * bits // 8), np.uint8)),
        file.constant(scales((n, blocks), dtype)),
        "",
        "",
        "",
    ]
    if points == "packed":
        operands[2] = file.constant(RNG.integers(0, 256, (n, -(-blocks * bits // 8)), np.uint8))
    if points == "float":
        operands[2] = file.constant(RNG.uniform(0, 1 << bits, (n, blocks)).astype(dtype))
    if "g_idx" in inputs:
        operands[3] = file.constant(inputs["g_idx"])
    if inputs.get("bias"):
        operands[4] = file.constant(RNG.normal(0, 1, n).astype(dtype))
    while not operands[-1]:
        operands.pop()
    sizes = {"K": k, "N": n, "bits": bits, "block_size": block}
    sizes |= {"accuracy_level": level} if level else {}
    y = file.node("MatMulNBits", x, *operands, domain=MICROSOFT, **sizes)
    file.output(y, dtype)
    return y


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("bits", "group_bytes"), [(2, 1 << 22), (4, 1 << 22), (8, 1 << 22), (4, 1 << 11)]
)
def test_products_of_blocks(bits, group_bytes, monkeypatch):
    monkeypatch.setattr(n_bits, "_GROUP_BYTES", group_bytes)
    file = File(21)
    for k, n, block in ((48, 21, 16), (40, 17, 32), (64, 24, 64)):
        x = file.input(RNG.normal(0, 1, (2, 3, k)).astype(np.float32))
        for points in (None, "packed", "float")[: 2 if bits == 8 else 3]:  # ONNX Runtime has these
            n_bits_product(file, x, k, n, bits, block, points=points, bias=points == "packed")
    file.compare(1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_rows_are_rounded_at_level_4(seed):
    """Blocks of 8-bit integers, beside ONNX Runtime; it takes floats where it has no kernel."""
    file, rng = File(21), np.random.default_rng(seed)
    bits, dtype = (2, 4, 8)[seed % 3], (np.float16 if seed % 5 == 4 else np.float32)
    for _ in range(4):
        block, rows = int(16 << rng.integers(0, 5 if bits == 2 else 7)), int(rng.choice([1, 5, 33]))
        k, n = 2 * block - int(rng.choice([0, 8])), int(rng.choice([1, 7, 24]))
        points = (None, "packed", "float")[int(rng.integers(2 if bits == 8 else 3))]
        a = rng.normal(0, 1, (rows, k)).astype(dtype)
        a[0, :block] = 0  # a block without a largest element
        level, has_bias = int(rng.choice([4, 4, 4, 1, 2, 3])), bool(rng.integers(2))
        x = file.input(a)
        n_bits_product(file, x, k, n, bits, block, dtype, points, level, bias=has_bias)
    file.compare(1e-3 if dtype == np.float16 else 3e-6)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_exact_rows_of_8_bits_are_added_in_one_order(bits):
    """A row's bits do not depend on the rows beside it, and the integers are ONNX Runtime's."""
    for block, points in ((32, None), (128, "packed"), (64 if bits == 2 else 1024, "packed")):
        file = File(21)
        k = 2 * block
        a = RNG.normal(0, 1, (9, k)).astype(np.float32)
        y = n_bits_product(file, file.input(a), k, 21, bits, block, points=points, level=4)
        model = dmlax.onnx.load(file.model(), arithmetic="exact", input_shapes={"x0": ["n", k]})
        found = np.asarray(model(a)[y])
        held, scale, *rest = file.constants.values()
        width = min(block, 256)
        parts = a.reshape(9, -1, width)
        top = np.abs(parts).max(-1, keepdims=True)
        levels = np.rint(parts * (np.float32(127) / top)).astype(np.int64)
        integers = unpack_bits(held.reshape(21, -1), bits, k).astype(np.int64)
        zero = np.full((21, 2), 1 << (bits - 1))
        if rest:
            zero = unpack_bits(rest[0], bits, 2).astype(np.int64)
        integers = (integers - np.repeat(zero, block, 1)).reshape(21, -1, width)
        sums = np.einsum("rbi,nbi->rnb", levels, integers)
        steps = (top[..., 0] / np.float32(127))[:, None] * np.repeat(scale, block // width, 1)
        wanted = (sums * steps.astype(np.float64)).sum(-1)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=3e-7 * np.abs(wanted).max())
        alone = np.concatenate([model(a[i : i + 1])[y] for i in range(2)])
        np.testing.assert_array_equal(alone, found[:2])


@pytest.mark.parametrize("rows", [(), (1,), (2, 4)])
def test_few_rows_on_gpus(rows):
    """GPUs sum element by element, in another order."""
    count, blocks, size = 21, 3, 32
    a = RNG.normal(0, 1, (*rows, blocks * size)).astype(np.float32)
    held = RNG.integers(0, 256, (count, blocks * size // 2), np.uint8)
    scale = RNG.uniform(0.5, 1.5, (count, blocks)).astype(np.float32)
    for zero_point in (np.float32([[8]]), RNG.integers(0, 16, scale.shape, np.uint8)):
        got = jax.jit(n_bits.multiply_few_rows)(a, held, scale, zero_point)
        integers = np.stack([held & 15, held >> 4], -1).reshape((*scale.shape, size))
        weights = (integers - zero_point[..., None].astype(np.float64)) * scale[..., None]
        wanted = a @ weights.reshape((count, -1)).T
        np.testing.assert_allclose(got, wanted, atol=1e-5 * np.std(wanted))


def test_columns_of_groups_by_an_index_and_float16():
    file = File(21)
    x = file.input(RNG.normal(0, 1, (3, 48)).astype(np.float32))
    g_idx = RNG.integers(0, 3, 48).astype(np.int32)
    n_bits_product(file, x, 48, 8, points="float", g_idx=g_idx)  # it ignores packed ones then
    n_bits_product(file, x, 48, 8, g_idx=g_idx)
    file.compare(1e-6)
    file = File(21)
    x = file.input(RNG.normal(0, 1, (3, 48)).astype(np.float16))
    n_bits_product(file, x, 48, 8, points="packed", dtype=np.float16, bias=True)
    file.compare(2e-3)


def dequantized(file, shape, dtype, axis, block, x_dtype=np.float32, points=True):
    """A DequantizeLinear of constant weights in blocks, of columns (0) or as a whole (None)."""
    sizes = [-(-size // block) if block and i == axis % 2 else size for i, size in enumerate(shape)]
    parameters = tuple(sizes) if block else (() if axis is None else (shape[axis],))
    inputs = [file.constant(levels(shape, dtype)), file.constant(scales(parameters, x_dtype))]
    inputs += [file.constant(levels(parameters, dtype))] if points else []
    attributes = {} if axis is None else {"axis": axis}
    attributes |= {"block_size": block} if block else {}
    return file.node("DequantizeLinear", *inputs, **attributes)


@pytest.mark.parametrize("group_bytes", [1 << 22, 1 << 11])
def test_products_and_rows_of_dequantized_weights(group_bytes, monkeypatch):
    monkeypatch.setattr(n_bits, "_GROUP_BYTES", group_bytes)
    file = File(21)
    x = file.input(RNG.normal(0, 1, (5, 40)).astype(np.float32))
    indices = file.input(RNG.integers(-21, 21, (2, 3)).astype(np.int64))
    cases = (("int4", 0, 8), ("uint4", 0, 16), ("int4", 1, 0), ("uint4", None, 0), ("int4", 1, 8))
    for dtype, axis, block in (*cases, ("int4", 0, 0), ("int8", 0, 16), ("uint8", -2, 16)):
        w = dequantized(file, (40, 21), dtype, axis, block)
        file.output(file.node("MatMul", x, w), np.float32)
        transposed = None if axis is None else 1 - axis % 2
        w = dequantized(file, (21, 40), dtype, transposed, block, points=False)
        bias = file.constant(RNG.normal(0, 1, 21).astype(np.float32))
        file.output(file.node("Gemm", x, w, bias, transB=1), np.float32)
        if transposed is not None:
            w = dequantized(file, (21, 40), dtype, transposed, block)
            file.output(file.node("Gather", w, indices), np.float32)
    loaded = file.compare(1e-6, optimised=True)
    ops = {node.op for node in loaded._graph.nodes}
    assert {"DequantizedMatMul", "GatherBlockQuantized"} <= ops


@pytest.mark.parametrize(
    ("scale_dtype", "output_dtype", "arithmetic"),
    [
        ("float16", "float16", "float32"),
        ("bfloat16", "bfloat16", "exact"),
        ("float32", "float16", "float32"),
        ("float16", "float32", "float32"),
        ("float16", "bfloat16", "exact"),
    ],
)
def test_dequantized_weights_are_rounded_before_a_product(scale_dtype, output_dtype, arithmetic):
    """Differences of weights, which float32 sums exactly: a product shows the weights' rounding."""
    wide, narrow = (np.dtype(getattr(ml_dtypes, x, x)) for x in (scale_dtype, output_dtype))
    file, wanted = File(23), {}
    places = np.int64([1, -1, 3])
    signs = RNG.choice([1, -1], (3, 8)).astype(narrow)
    rows, x = file.input(places), file.input(signs)
    consumers = (
        ("MatMul", (8, 6), lambda w: signs @ w, {}),
        ("Gemm", (6, 8), lambda w: signs @ w.T, {"transB": 1}),
        ("Gather", (6, 8), lambda w: w[places], {}),
    )
    for dtype, block in (("int4", 0), ("uint4", 4), ("int8", 4), ("uint8", 0)):
        for op, shape, compute, attributes in consumers:
            axis = shape.index(8)
            sizes = [2 if i == axis else 6 for i in range(2)] if block else []
            w, scale, zero = levels(shape, dtype), scales(sizes, wide), levels(sizes, dtype)
            inputs = (file.constant(array) for array in (w, scale, zero))
            layout = {"axis": axis, "block_size": block, "output_dtype": NUMBERS[narrow.name]}
            real = file.node("DequantizeLinear", *inputs, **layout)
            operands = (real, rows) if op == "Gather" else (x, real)
            y = file.node(op, *operands, **attributes)
            file.output(y, narrow)
            spread = [np.repeat(p, 4, axis) if block else p for p in (scale, zero)]
            steps = w.astype(np.float32) - np.float32(spread[1].astype(np.float32))
            rounded = (steps * spread[0].astype(np.float32)).astype(narrow)
            wanted[y] = compute(rounded.astype(np.float64)).astype(np.float32).astype(narrow)
    found = dmlax.onnx.load(file.model(), arithmetic=arithmetic)(file.inputs)
    for name, want in wanted.items():
        assert found[name].dtype == narrow
        np.testing.assert_array_equal(found[name], want, err_msg=name)


@pytest.mark.parametrize("dtype", ["uint8", "int4", "uint4"])
def test_rows_of_packed_tables(dtype):
    file = File(21)
    indices = file.input(np.array([[0, 4, -1], [-5, 2, 2]], np.int64))
    for bits in (2, 4, 8) if dtype == "uint8" else (4,):
        for zero_points in (False, True):
            per_byte = 8 // bits if dtype == "uint8" else 1
            table = file.constant(levels((5, 40 // per_byte), dtype))
            inputs = [table, indices, file.constant(scales((5, 3), np.float32))]
            if zero_points:
                inputs.append(file.constant(levels((5, -(-3 // per_byte)), dtype)))
            attributes = {"block_size": 16, "quantize_axis": 1} | (
                {"bits": bits} if dtype == "uint8" else {}
            )
            y = file.node("GatherBlockQuantized", *inputs, domain=MICROSOFT, **attributes)
            file.output(y, np.float32)
    if dtype != "uint8":
        for shape, gathered, quantized in (((32, 6), 1, 0), ((3, 6, 32), 1, 2)):
            sizes = [size // 16 if i == quantized else size for i, size in enumerate(shape)]
            inputs = [file.constant(levels(shape, dtype)), indices]
            inputs += [
                file.constant(scales(sizes, np.float32)),
                file.constant(levels(sizes, dtype)),
            ]
            attributes = {"gather_axis": gathered, "quantize_axis": quantized, "block_size": 16}
            y = file.node("GatherBlockQuantized", *inputs, domain=MICROSOFT, **attributes)
            file.output(y, np.float32)
    file.compare()


def bytes_of(tree):
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


def test_weights_stay_packed_in_memory():
    """Neither params nor a program hold the floats of 4-bit weights."""
    size, block = 2048, 32
    file = File(21)
    x = file.input(RNG.normal(0, 1, (4, size)).astype(np.float32))
    for _ in range(2):
        x = n_bits_product(file, x, size, size, block=block, points="packed")
        x = file.node("MatMul", x, dequantized(file, (size, size), "int4", 0, block))
    table = dequantized(file, (size, size), "int4", 1, block)
    indices = file.input(np.array([3, -1], np.int64))
    x = file.node("MatMul", file.node("Gather", table, indices), file.node("Transpose", x))
    file.outputs = {x: 1}
    loaded = dmlax.onnx.load(file.model())
    weights = 5 * size * size
    assert bytes_of(loaded.params) < weights * (1 / 2 + 1 / 2 / block + 4 / block) * 1.01
    lowered = jax.jit(loaded.apply).lower(loaded.params, file.inputs)
    memory = lowered.compile().memory_analysis()
    assert memory.temp_size_in_bytes < 16 << 20  # one matrix has 16 MiB of floats
    assert len(lowered.as_text()) < 200_000  # no weights are constants of the program
    held = [x for x in loaded.params.values() if isinstance(x, PackedIntegers)]
    assert len(held) > 2
    assert all(each.nbytes * 2 == each.size for each in held)


def test_packed_params_are_saved_mapped_exported_and_differentiated(tmp_path):
    file = File(21)
    x = file.input(RNG.normal(0, 1, (4, 33)).astype(np.float32))
    w = dequantized(file, (33, 7), "int4", 0, 16)
    y = file.node("MatMul", x, w)
    file.output(y, np.float32)
    file.output(file.node("Transpose", w), np.float32)
    loaded = file.compare(1e-6)
    wanted = np.asarray(loaded(file.inputs)[y])
    name = next(name for name, x in loaded.params.items() if isinstance(x, PackedIntegers))
    integers = loaded.apply(loaded.params, file.inputs, outputs=[name])[name]
    np.testing.assert_array_equal(integers, loaded.params[name].to_host())
    loaded.save(tmp_path / "model.dmlax")
    again = dmlax.onnx.load(tmp_path / "model.dmlax")
    np.testing.assert_array_equal(again(file.inputs)[y], wanted)
    params, x = loaded.params, file.inputs[x]
    mapped = jax.vmap(lambda x: loaded.apply(params, x)[y])(np.stack([x, 2 * x]))
    np.testing.assert_allclose(mapped[1], 2 * wanted, rtol=1e-6, atol=1e-5)
    exported = jax.export.export(jax.jit(loaded.apply))(params, x)
    restored = jax.export.deserialize(exported.serialize())
    np.testing.assert_allclose(restored.call(params, x)[y], wanted, rtol=1e-6, atol=1e-5)
    gradient = jax.grad(lambda x: loaded.apply(params, x)[y].sum())(x)
    full = np.asarray(loaded(file.inputs)[[*file.outputs][1]]).T
    np.testing.assert_allclose(gradient, np.tile(full.sum(1), (4, 1)), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_integers_are_packed_and_unpacked(dtype):
    for shape in ((), (5,), (3, 6), (2, 3, 7)):
        array = levels(shape, dtype)
        held = PackedIntegers.pack(array)
        per_byte = 8 // ml_dtypes.iinfo(array.dtype).bits
        assert held.nbytes == np.prod(shape[:-1], dtype=int) * -(-(shape or (1,))[-1] // per_byte)
        np.testing.assert_array_equal(held.to_host(), array)
        np.testing.assert_array_equal(np.asarray(held.unpack()), array)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bits": 3}, "its bits are 3 and weight_prepacked is 0, expected 2, 4 or 8 bits and 0"),
        ({"weight_prepacked": 1}, "its bits are 4 and weight_prepacked is 1"),
        ({"block_size": 24}, "its K, N and block_size are 48, 8 and 24, expected sizes, and a"),
        ({"N": 9}, r"its B has the shape \[8, 3, 8\], expected 216 elements"),
        ({"K": 49}, r"its A has the shape \[3, 48\], expected rows of 49"),
    ],
)
def test_malformed_products_are_refused(changes, message):
    file = File(21)
    x = file.input(RNG.normal(0, 1, (3, 48)).astype(np.float32))
    n_bits_product(file, x, 48, 8)
    (node,) = file.nodes
    kept = [each for each in node.attribute if each.name not in changes]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(*each) for each in changes.items())])
    with pytest.raises(dmlax.UnsupportedError, match=message):
        dmlax.onnx.load(file.model())


@needs_kernels
def test_few_rows_take_the_kernel_and_more_rows_do_not():
    file = File(21)
    x = file.input(RNG.normal(0, 1, (33, 64)).astype(np.float32))
    n_bits_product(file, x, 64, 24, points="packed")
    n_bits_product(file, file.node("Gather", x, file.constant(np.int64([1]))), 64, 24)
    told = str(file.compare(1e-6).explain())
    assert "it has 33 rows" in told
    assert "block_product" in told


@needs_kernels
@pytest.mark.parametrize("bits", [4, 8])
def test_level_4_has_the_bits_of_integers_under_either_arithmetic(bits):
    """One kernel serves both, for one row and for many; a row's bits depend on no other row."""
    file, k = File(21), 200
    a = RNG.normal(0, 1, (33, k)).astype(np.float32)
    y = n_bits_product(file, file.input(a), k, 19, bits, 32, points="packed", level=4)
    found = {}
    for arithmetic in ("exact", "float32"):
        shapes = {"x0": ["n", k]}
        model = dmlax.onnx.load(file.model(), arithmetic=arithmetic, input_shapes=shapes)
        found[arithmetic] = np.asarray(model(a)[y])
        np.testing.assert_array_equal(model(a[:1])[y], found[arithmetic][:1])
        assert (
            "dmlax_level_product" in jax.jit(model.apply).lower(model.params, {"x0": a}).as_text()
        )
    np.testing.assert_array_equal(found["exact"], found["float32"])
    file.compare(1e-6)


@pytest.mark.parametrize("bits", [4, 8])
def test_embeddings_that_are_a_products_weights_are_held_once(bits):
    """The embeddings are rows of the product's packed weights, behind a Reshape."""
    file, n, k = File(21), 40, 64
    held = file.constant(RNG.integers(0, 256, (n, k // 32, 4 * bits), np.uint8))
    scale = file.constant(scales((n, k // 32), np.float32))
    ids = file.input(RNG.integers(0, n, (2, 3)))
    rows = file.node("Reshape", held, file.constant(np.array([n, k * bits // 8])))
    options = {"bits": bits, "block_size": 32}
    axes = {"gather_axis": 0, "quantize_axis": 1}
    x = file.node("GatherBlockQuantized", rows, ids, scale, domain=MICROSOFT, **options, **axes)
    sizes = {"K": k, "N": n, "accuracy_level": 4}
    y = file.node("MatMulNBits", x, held, scale, domain=MICROSOFT, **options, **sizes)
    file.output(y, np.float32)
    params = file.compare(1e-6).params
    assert sum(x.nbytes for x in params.values() if x.size > 100) == n * k * bits // 8


@pytest.mark.parametrize("seed", range(8))
def test_products_of_dequantized_weights_are_rounded_as_onnxruntimes(seed):
    """ONNX Runtime makes some of them products of level 4; "exact" rounds no row."""
    file, rng = File(21), np.random.default_rng(seed)
    for _ in range(4):
        dtype = str(rng.choice(["int4", "uint4", "int8", "uint8"]))
        axis: int | None = int(rng.integers(-2, 2))
        block = int(rng.choice([0, 0, 0, 8, 16, 32, 64, 256, 512]))
        axis = None if not block and not rng.integers(3) else axis  # one scale
        k = int(rng.choice([32, 96, 2 * max(block, 16) - 8]))
        x = file.input(rng.normal(0, 1, (int(rng.choice([1, 5])), k)).astype(np.float32))
        if not block and "8" in dtype:
            dtype = "int4"  # weights of one scale for a column are floats then
        w = dequantized(file, (k, 24), dtype, axis, block, points=bool(rng.integers(2)))
        readers = 1 + int(rng.integers(4) == 0)
        for _ in range(readers):
            file.output(file.node(str(rng.choice(["MatMul", "Gemm"])), x, w), np.float32)
    file.compare(2e-6, optimised=True)
    exact = dmlax.onnx.load(file.model(), arithmetic="exact")(file.inputs)
    for name, want in peer.run(peer.start(file.model(), optimised=False), file.inputs).items():
        bound = 2e-6 * np.abs(want).max()
        np.testing.assert_allclose(exact[name], want, rtol=0, atol=bound)

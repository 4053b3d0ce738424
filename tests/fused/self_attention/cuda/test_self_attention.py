"""Attentions of a tensor with itself on Hopper: heads are read where a product stores them."""

from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

from dmlax._fused.self_attention.call import SELF_ATTENTION
from dmlax.onnx.graph import Node
from dmlax.onnx.operators import fused
from dmlax.onnx.operators.fused import Function
from dmlax.onnx.operators.table import flatten
from support import shaped
from support.emulated import kernels as emulated_kernels
from support.emulated import threads as emulated_threads

SCALE, ZERO = np.asarray(0.02, np.float32), np.asarray(3, np.uint8)
OTHER_ZERO = np.asarray(130, np.uint8)
WEIGHTS = np.asarray(1 / 256, np.float32), np.asarray(0, np.uint8)
HEADS, WIDTH = 3, 16  # columns of a head
NAMES = ("scale", "zero", "other_zero")
SQUARED = Function(
    (
        Node("d", "DequantizeLinear", "", 13, ("x", "scale", "zero"), ("f",), {}),
        Node("s", "Mul", "", 13, ("f", "f"), ("g",), {}),
        Node("q", "QuantizeLinear", "", 13, ("g", "scale", "other_zero"), ("y",), {}),
    ),
    ("x", *NAMES),
)
ITSELF = Function((), ("x",))


def attend_of(functions, rows, heads_last=0, width=WIDTH, zero=OTHER_ZERO, row=-1, others=ZERO):
    """An attention as a function of rows, of a weight and of a bias.

    The functions' results have the zero point `zero`, all other tensors `others`.
    """
    q_zero, k_zero, v_zero = (zero if each is SQUARED else others for each in functions)

    def attend(a, b, bias):
        return flatten(fused.quantized_self_attention)(
            *(a, SCALE, others, b, SCALE, None, bias, SCALE, others),
            *(SCALE, q_zero, SCALE, k_zero, SCALE, others),
            *(*WEIGHTS, SCALE, v_zero, SCALE, others),
            *(SCALE, others, zero),
            functions=functions,
            names=NAMES,
            sizes=(rows, HEADS, width),
            row=row,
            heads_last=heads_last,
            arithmetic="float32",
        )

    return attend


def operands(rows, columns=3 * HEADS * WIDTH, images=2):
    of_weight = shaped(32, columns, dtype="int8"), shaped(columns, dtype="int32")
    return shaped(images * rows, 32), *of_weight


def test_nothing_is_moved_between_the_kernels(lowered):
    text = lowered(attend_of((SQUARED, SQUARED, ITSELF), 50), *operands(50))
    assert text.count("custom_call @mosaic_gpu") == 5 + 3  # small tiles have no room for tables
    assert text.count("stablehlo.transpose") == 1  # the weight is transposed


def test_wide_tiles_look_up_what_each_third_of_the_columns_needs(lowered):
    given = shaped(197 * 128, 768), shaped(768, 2304, dtype="int8"), shaped(2304, dtype="int32")
    attend = attend_of((SQUARED, SQUARED, ITSELF), 197, 1, width=256)
    text = lowered(attend, *given)
    # Values of 256 columns do not fit the kernel that packs.
    assert text.count("custom_call @mosaic_gpu") == 4
    assert "tensor<768xui8>" in text


@pytest.mark.parametrize(
    ("rows", "row"), [(32, -1), (33, -1), (128, -1), (197, -1), (256, -1), (257, -1), (197, 0)]
)
def test_heads_of_64_columns_are_one_kernel_where_a_block_takes_all_rows(lowered, rows, row):
    given = operands(rows, 3 * HEADS * 64)
    text = lowered(attend_of((SQUARED, SQUARED, ITSELF), rows, 1, width=64, row=row), *given)
    at_once = 32 < rows <= 256 and row < 0
    assert ("dmlax_attention" in text) == at_once
    assert ("dmlax_softmax" in text) != at_once


@pytest.mark.parametrize(("rows", "warpgroups", "blocks"), [(50, 1, 4), (128, 1, 2), (208, 2, 2)])
def test_several_blocks_of_an_attention_fit_a_multiprocessor(written, rows, warpgroups, blocks):
    from dmlax._fused.self_attention.cuda import kernel as attention

    sizes = attention.Sizes(1, 1, rows, True)
    assert sizes.block.warpgroups == warpgroups
    assert blocks * (attention.shared_bytes(sizes) + 1024) <= 228 * 1024


@pytest.mark.parametrize("rows", [50, 300])
def test_values_of_many_rows_are_packed_by_xla(lowered, rows):
    given = operands(rows, 3 * HEADS * 256)
    text = lowered(attend_of((ITSELF,) * 3, rows, width=256), *given)
    assert ("dmlax_pack_columns" in text) == (rows == 50)


def test_vmap_is_one_kernel_of_each(lowered):
    attend = attend_of((SQUARED,) * 3, 50)
    a, b, bias = operands(50)
    mapped = jax.vmap(attend, (0, None, None))
    text = lowered(mapped, shaped(5, *a.shape), b, bias)
    assert text.count("custom_call @mosaic_gpu") == 8


@pytest.mark.parametrize("width", [8, 24])
def test_heads_of_part_of_a_chunk_are_computed_one_by_one(lowered, width):
    text = lowered(attend_of((ITSELF,) * 3, 7, width=width), *operands(7, 3 * HEADS * width))
    assert "stablehlo.transpose" in text


def test_other_platforms_run_one_after_another(attached):
    trace = jax.jit(attend_of((SQUARED,) * 3, 7)).trace(*operands(7))
    text = trace.lower(lowering_platforms=("cpu",)).as_text()
    assert "mosaic_gpu" not in text


def test_one_query_is_one_row_of_scores(lowered):
    text = lowered(attend_of((ITSELF,) * 3, 50, 1, row=7), *operands(50))
    assert "tensor<2x3x1x64xui8>" in text  # 50 scores, whole chunks
    assert "tensor<2x3x50x64xui8>" not in text


@pytest.mark.parametrize("row", [0, 5])
def test_one_query_has_the_bits_of_its_row(row):
    rng, rows = np.random.default_rng(row), 7
    a = rng.integers(0, 256, (2 * rows, 32), np.uint8)
    b = rng.integers(-60, 60, (32, 3 * HEADS * WIDTH)).astype(np.int8)
    all_rows, one = (
        np.asarray(attend_of((SQUARED,) * 3, rows, 1, row=each)(a, b, None)) for each in (-1, row)
    )
    assert np.array_equal(one, all_rows[:, row : row + 1])


def random_operands(seed, images, rows, width):
    """The rows of images, which are twice as many, a weight and a bias."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 256, (images, 2 * rows, 32), np.uint8)
    b = rng.integers(-60, 60, (32, 3 * HEADS * width)).astype(np.int8)
    return a, b, rng.integers(-999, 999, b.shape[1]).astype(np.int32)


def check_kernels(run, given, wanted):
    found = np.asarray(jax.jit(lambda *given: run(*given))(*given))
    assert found.dtype == wanted.dtype
    assert np.array_equal(found, wanted)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("functions", "mapped", "heads_last", "zero", "row"),
    [
        ((SQUARED, SQUARED, ITSELF), 0, 1, OTHER_ZERO, -1),
        ((ITSELF, ITSELF, SQUARED), 0, 0, np.asarray(-5, np.int8), -1),
        ((SQUARED,) * 3, 1, 1, np.asarray(-5, np.int8), -1),
        ((SQUARED, ITSELF, SQUARED), 0, 1, OTHER_ZERO, 4),
        ((ITSELF,) * 3, 1, 1, OTHER_ZERO, 0),
    ],
    ids=["uint8", "int8", "mapped", "one query", "one query, mapped"],
)
def test_the_kernels_change_no_bit(
    monkeypatch,
    written,
    attached,
    choose_kernels,
    run_without_gpu,
    functions,
    mapped,
    heads_last,
    zero,
    row,
):
    from dmlax._fused.softmax.cuda import kernel as softmax
    from dmlax._operators.matmul.cuda import kernel, pack

    rows, calls = 7, []
    a, b, bias = random_operands(heads_last, 2, rows, WIDTH)
    attend = attend_of(functions, rows, heads_last, zero=zero, row=row)
    run = jax.vmap(attend, (0, None, None)) if mapped else attend
    given = a if mapped else a[0], b, bias
    wanted = run_without_gpu(run, *given)
    assert len(np.unique(wanted)) > 9
    plans = choose_kernels(SELF_ATTENTION)
    for module, name in ((kernel, "multiply"), (softmax, "softmax"), (pack, "pack_heads")):
        emulated = getattr(emulated_kernels, name)

        def called(*given, emulated=emulated, **how):
            calls.append(emulated)
            return emulated(*given, **how)

        monkeypatch.setattr(module, name, called)
    check_kernels(run, given, wanted)
    assert plans
    assert calls


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("functions", "mapped", "heads_last", "zero", "rows", "of_scores"),
    [
        ((SQUARED, SQUARED, ITSELF), False, 1, OTHER_ZERO, 33, 3),
        ((ITSELF, ITSELF, SQUARED), False, 0, np.asarray(-5, np.int8), 16, 0),
        ((SQUARED,) * 3, True, 1, np.asarray(-5, np.int8), 7, 3),
        ((ITSELF,) * 3, False, 1, OTHER_ZERO, 300, 3),
    ],
    ids=["uint8", "int8, zero point 0", "mapped", "more rows than a block's lanes"],
)
def test_the_threads_of_one_kernel_change_no_bit(
    monkeypatch,
    written,
    attached,
    choose_kernels,
    run_without_gpu,
    functions,
    mapped,
    heads_last,
    zero,
    rows,
    of_scores,
):
    from dmlax._fused.self_attention.cuda import kernel as attention
    from dmlax._operators.matmul.cuda import kernel

    runs, attend_alone = [], attention._attend
    a, b, bias = random_operands(rows, 2, rows, 64)
    a = a[:, : rows if rows > 99 else None]
    elsewhere = ThreadPoolExecutor(1)
    elsewhere.submit(int).result()  # its thread begins here
    others = np.asarray(of_scores, np.uint8)
    attend = attend_of(functions, rows, heads_last, width=64, zero=zero, others=others)
    run = jax.vmap(attend, (0, None, None)) if mapped else attend
    given = a if mapped else a[0], b, bias
    wanted = run_without_gpu(run, *given)
    assert len(np.unique(wanted)) > 9

    def emulate(problem, *given):
        def on_host(*given):
            runs.append(problem.sizes)
            with monkeypatch.context() as patched:
                patched.setattr(attention, "launch", emulated_threads.launch(patched))
                return attend_alone(problem, *jax.tree.map(np.asarray, given))

        def call_back(*given):
            """XLA's threads make subnormal floats 0, and those that they begin do."""
            return elsewhere.submit(on_host, *given).result()

        shape = jax.ShapeDtypeStruct(problem.sizes.output, problem.values.types.output)
        return jax.pure_callback(call_back, shape, *given)

    plans = choose_kernels(SELF_ATTENTION)
    monkeypatch.setattr(kernel, "multiply", emulated_kernels.multiply)
    monkeypatch.setattr(attention, "_attend", emulate)
    monkeypatch.setattr(attention, "is_faster", lambda sizes, columns: True)
    check_kernels(run, given, wanted)
    assert plans
    assert runs

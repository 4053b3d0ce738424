"""Attentions on Hopper: kernels whose rows are whole chunks, lowered on a CPU."""

import re

import jax
import numpy as np
import pytest

from dmlax._fused.attention.call import ATTENTION
from dmlax.onnx.operators import fused
from dmlax.onnx.operators.table import flatten
from support import shaped
from support.emulated import kernels as emulated_kernels

SCALE, ZERO = np.asarray(0.02, np.float32), np.asarray(3, np.uint8)
WEIGHTS = np.asarray(1 / 256, np.float32), np.asarray(0, np.uint8)


def attend(q, k, v, arithmetic="float32", heads_last=0):
    return flatten(fused.quantized_attention)(
        *(q, SCALE, ZERO, k, SCALE, ZERO, SCALE, ZERO, *WEIGHTS, v, SCALE, ZERO, SCALE, ZERO),
        heads_last=heads_last,
        arithmetic=arithmetic,
    )


def operands(rows):
    return shaped(2, 3, rows, 64), shaped(2, 3, 64, rows), shaped(2, 3, rows, 64)


def kernels(text):
    return re.findall(r"custom_call @mosaic_gpu.* -> tensor<(.*)>", text)


@pytest.mark.parametrize(("rows", "size"), [(197, 208), (192, 192), (7, 16)])
def test_scores_and_weights_have_rows_of_whole_chunks(lowered, rows, size):
    found = kernels(lowered(attend, *operands(rows)))
    assert len(found) == 3
    assert [each.rpartition("x")[0] for each in found][1] == str(6 * rows * size)
    text = lowered(attend, *operands(rows))
    assert f"tensor<2x3x{rows}x{rows}xui8>" not in text or rows == size


@pytest.mark.parametrize("heads_last", [0, 1])
def test_vmap_maps_each_kernel(lowered, heads_last):
    mapped = [shaped(5, *each.shape) for each in operands(50)]
    text = lowered(jax.vmap(lambda *given: attend(*given, heads_last=heads_last)), *mapped)
    assert text.count("custom_call @mosaic_gpu") == 4  # the fourth packs the values


@pytest.mark.parametrize(("columns", "packs"), [(64, 1), (24, 0)])
def test_a_kernel_packs_values_of_whole_chunks(lowered, columns, packs):
    q, k, _ = operands(50)
    text = lowered(attend, q, k, shaped(2, 3, 50, columns))
    assert text.count("custom_call @mosaic_gpu") == 3 + packs


def test_heads_are_stored_last_without_a_transposition(lowered):
    text = lowered(lambda *given: attend(*given, heads_last=1), *operands(50))
    assert "tensor<2x50x3x64xui8>" in text
    assert "(tensor<2x3x50x64xui8>) -> tensor<2x50x3x64xui8>" not in text


def test_other_platforms_run_one_after_another(attached):
    trace = jax.jit(attend).trace(*operands(7))
    text = trace.lower(lowering_platforms=("cpu",)).as_text()
    assert "mosaic_gpu" not in text


def test_exact_arithmetic_has_no_such_kernel(lowered):
    text = lowered(lambda *given: attend(*given, "exact"), *operands(7))
    assert text.count("custom_call @mosaic_gpu") == 2


@pytest.mark.parametrize(("rows", "heads_last"), [(7, 0), (16, 1), (50, 1)])
def test_whole_rows_change_no_bit(
    monkeypatch, written, attached, choose_kernels, run_without_gpu, rows, heads_last
):
    from dmlax._fused.softmax.cuda import kernel as softmax
    from dmlax._operators.matmul.cuda import kernel, pack

    monkeypatch.setattr(kernel, "multiply", emulated_kernels.multiply)
    monkeypatch.setattr(softmax, "softmax", emulated_kernels.softmax)
    monkeypatch.setattr(pack, "pack_heads", emulated_kernels.pack_heads)
    rng = np.random.default_rng(rows)
    q, k, v = (rng.integers(0, 256, each.shape, np.uint8) for each in operands(rows))
    wanted = run_without_gpu(attend, q, k, v)
    if heads_last:
        wanted = wanted.swapaxes(1, 2)
    plans = choose_kernels(ATTENTION)
    found = jax.jit(lambda *given: attend(*given, heads_last=heads_last))(q, k, v)
    assert np.array_equal(found, wanted)
    assert plans

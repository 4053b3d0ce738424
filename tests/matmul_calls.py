"""Matrix products as NumPy's integers and fractions give them, and each lowering that runs here."""

from fractions import Fraction

import numpy as np

from dmlax._core import dispatch
from dmlax._matmul import api, xla
from support import NATIVE

PADDED = "xla on cuda"  # its branch, which a CPU computes as well
LOWERINGS = [*NATIVE, "xla", "reference", PADDED]


def lower_padded(plan, operands):
    return xla._multiply(plan, True, operands)


def run_padded(monkeypatch):
    """Has `xla` pad the contraction, as on CUDA."""
    monkeypatch.setattr(xla, "run", lower_padded)
    lowerings = (dispatch.Lowering("xla", lower_padded),)
    for name in ("INTEGER", "QUANTIZED", "TO_FLOAT"):
        operator = getattr(api, name)
        padded = dispatch.Operator(operator.name, lowerings, partition=operator.partition)
        monkeypatch.setattr(api, name, padded)


def sums(a, b, a_zero_point=0, b_zero_point=0):
    """int32 sums, wrapped."""
    left = a.astype(np.int64) - np.asarray(a_zero_point, np.int64)
    right = b.astype(np.int64) - np.asarray(b_zero_point, np.int64)
    return np.matmul(left, right).astype(np.int32)


def rounded(value, dtype):
    """A fraction, rounded once to float32 or float16."""
    info = np.finfo(dtype)
    if value == 0:
        return dtype(0)
    top = value.numerator.bit_length() - value.denominator.bit_length()
    top -= abs(value) < Fraction(2) ** top
    unit = Fraction(2) ** (max(top, info.minexp) - info.nmant)
    result = round(value / unit) * unit
    sign = -1 if value < 0 else 1
    size = abs(result)
    return dtype(sign * (np.inf if size >= Fraction(2) ** info.maxexp else float(size)))

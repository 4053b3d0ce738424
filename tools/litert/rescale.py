"""The suite's formulas of multipliers beside the reference model of TOSA.

`python tools/litert/rescale.py` needs tosa-tools 2026.8.0, NumPy and jsonschema, and no `dmlax`.
It takes random sums, and every product of the golden vectors that TOSA does not refuse.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "conformance/src"))

from dmlax_conformance.format import vectors
from dmlax_conformance.oracle import OPERATORS, fixed_point

_COUNT = 20_000
_MODES = {"fixed_point_single": 1, "fixed_point_double": 3}  # SINGLE_ROUND, DOUBLE_ROUND


def of_vectors() -> dict[str, list[tuple[int, int, int]]]:
    """The products of the golden vectors: integers, multipliers and exponents by mode."""
    products: dict[str, list[tuple[int, int, int]]] = {mode: [] for mode in _MODES}

    def noted(mode: str) -> Any:
        own = fixed_point.MULTIPLIED[mode]

        def scale(x: int, by: fixed_point.Multiplier) -> int:
            scaled = own(x, by)
            is_defined = -29 < by.exponent < 30 and abs(x * by.value) >> (31 - by.exponent) < 2**31
            if by.value >= 2**30 and is_defined and abs(x) << max(by.exponent, 0) < 2**31:
                products[mode].append((x, *by))
            return scaled

        return scale

    held = dict(fixed_point.MULTIPLIED) | {mode: noted(mode) for mode in _MODES}
    with mock.patch.object(fixed_point, "MULTIPLIED", held):
        for vector in vectors.load_all():
            if vector.attributes.get(fixed_point.FIELD) in _MODES and vector.is_valid:
                given = vector.attributes, vector.inputs, vector.outputs
                OPERATORS[vector.operator].compute(*given)
    return products


def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums, multipliers of 31 bits and exponents, with many ties and no overflow."""
    exponent = rng.integers(-28, 11, _COUNT)
    value = rng.integers(2**30, 2**31, _COUNT)
    value[::5], value[1::7], value[2::9] = 2**30, 2**31 - 1, 2**30 + 1
    x = (rng.uniform(-1, 1, _COUNT) * np.minimum(2.0**30, 2.0 ** (30 - exponent))).astype(np.int64)
    small = rng.random(_COUNT) < 0.3
    x = np.where(small, rng.integers(-5000, 5000, _COUNT), x)
    odd = 2 * rng.integers(-300, 300, _COUNT) + 1
    ties = np.clip(odd << np.maximum(-exponent, 0), -(2**30), 2**30)
    is_tie = (value == 2**30) & (exponent < 0) & (rng.random(_COUNT) < 0.5)
    x = np.where(is_tie, ties, x)
    fits = np.abs(x) * 2.0**exponent < 2.0**30
    return np.where(fits, x, x >> 12), value, exponent


def rescale(mode: int, x: np.ndarray, value: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """The int32 of TOSA's RESCALE."""
    count = len(x)
    from serializer import tosa_serializer as ts
    from tosa.Op import Op

    with tempfile.TemporaryDirectory() as folder:
        writer = ts.TosaSerializer(folder, ts.ConstMode.EMBED)
        dtype, size = ts.DType, [count]
        zero = np.zeros(1, np.int32)
        operands = [
            writer.addPlaceholder(size, dtype.INT32, x.astype(np.int32)),
            writer.addConst(size, dtype.INT32, value.astype(np.int32)),
            writer.addConst(size, dtype.INT8, (31 - exponent).astype(np.int8)),
            *(writer.addConst([1], dtype.INT32, zero) for _ in range(2)),
        ]
        output = writer.addOutput(size, dtype.INT32)
        attribute = ts.TosaSerializerAttribute()
        attribute.RescaleAttribute(True, mode, True, False, False)
        writer.addOperator(Op.RESCALE, [t.name for t in operands], [output.name], attribute)
        Path(folder, "rescale.tosa").write_bytes(writer.serialize())
        description = Path(folder, "desc.json")
        description.write_text(writer.writeJson("rescale.tosa"))
        model = shutil.which("tosa_reference_model", path=str(Path(sys.executable).parent))
        assert model, "tosa_reference_model is not beside Python"
        subprocess.run([model, f"--test_desc={description}"], check=True)
        (result,) = Path(folder).glob("ref-*.npy")
        return np.load(result)


def main() -> int:
    """Prints counts; returns 1 if a number differs."""
    differ, found = 0, of_vectors()
    drawn = np.stack(draw(np.random.default_rng(0)), axis=1)
    for mode, number in _MODES.items():
        products = np.concatenate([drawn, np.array(found[mode], np.int64)])
        wanted = [
            fixed_point.MULTIPLIED[mode](x, fixed_point.Multiplier(value, exponent))
            for x, value, exponent in products.tolist()
        ]
        count = int((rescale(number, *products.T) != wanted).sum())
        print(f"{mode}: {_COUNT} random and {len(found[mode])} of vectors, {count} differ")
        differ += count
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())

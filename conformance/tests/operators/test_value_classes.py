"""What value classes are read off is the oracle's: quotients that round to the expected words."""

import numpy as np
import pytest

from dmlax_conformance.format.vectors import Vector
from dmlax_conformance.operators import OPERATORS
from dmlax_conformance.operators._shared.cross import takes_part
from dmlax_conformance.operators._shared.output_structures import QuotientView
from dmlax_conformance.operators._shared.pooling_structures import AverageView
from dmlax_conformance.operators._shared.rescale_structures import RescaleView
from dmlax_conformance.operators._shared.rounding import rounded
from dmlax_conformance.operators.answer import with_elements
from dmlax_conformance.operators.matrix_multiply_integer.structures import CROSS as SUMS

TABLES = {name: row.cross for name, row in OPERATORS.items() if row.cross is not None}


def words_of(view: object, dtype: str) -> list[int]:
    """Return what the quotients of a view round to."""
    if isinstance(view, QuotientView):
        return list(rounded(view.quotients, dtype))
    if isinstance(view, AverageView):
        own, places = view.distinct
        pairs = list(zip(view.quotients, (point for _, point in own), strict=True))
        return np.array(rounded(pairs, dtype))[places].tolist()
    assert isinstance(view, RescaleView)
    first, inverse = view.distinct
    pairs = list(zip(view.quotients, np.asarray(view.zero_points)[first].tolist(), strict=True))
    return np.array(rounded(pairs, dtype))[inverse].tolist()


OF_QUOTIENTS = (
    *("quantized_linear_matrix_multiply", "element_wise_quantized_linear_add"),
    *("quantized_linear_average_pooling", "dynamic_quantize_linear"),
)


@pytest.mark.parametrize("operator", OF_QUOTIENTS)
def test_quotients_round_to_what_is_expected(operator: str, suite: list[Vector]) -> None:
    calls = [v for v in suite if v.operator == operator and "covering" in v.topic and takes_part(v)]
    assert len(calls) > 20
    for vector in map(with_elements, calls[::3]):
        expect, view = vector.expect["OutputTensor"], TABLES[operator].view(vector)
        assert words_of(view, expect.dtype) == list(expect.words), vector.id


def test_sums_of_a_product_are_what_is_expected(suite: list[Vector]) -> None:
    calls = [v for v in suite if v.operator == "matrix_multiply_integer" and takes_part(v)]
    for vector in (with_elements(v) for v in calls if "covering" in v.topic):
        view = SUMS.view(vector)
        assert view.sums.tolist() == list(vector.expect["OutputTensor"].words), vector.id

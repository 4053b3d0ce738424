"""The native kernels of matrix products: every instruction set's tiles."""

import pytest

from cpu.instruction_sets import NAMES


@pytest.mark.parametrize("name", NAMES)
def test_products_end_anywhere_in_a_tile(name, check_random_calls):
    check_random_calls(name, "matmul_tiles", 0, 12)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_more_products_end_anywhere_in_a_tile(name, check_random_calls):
    check_random_calls(name, "matmul_tiles", 12, 48)

"""The page on Flax, Equinox and Orbax, with these libraries."""

from pathlib import Path

import jax
import pytest

from support import run_page

PAGE = Path(__file__).parent.parent / "docs/integrations.md"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what these libraries use
def test_other_libraries_hold_save_and_load_a_prepared_filter():
    with jax.numpy_dtype_promotion("standard"):
        run_page(PAGE)

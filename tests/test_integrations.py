"""The page on Flax, Equinox and Orbax, with these libraries."""

from pathlib import Path

import pytest

from support import run_page

PAGE = Path(__file__).parent.parent / "docs/integrations.md"


@pytest.mark.usefixtures("readers_jax")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what these libraries use
def test_other_libraries_hold_save_and_load_a_prepared_filter():
    run_page(PAGE)

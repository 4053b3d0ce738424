"""The examples of the documentation, as modules."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "docs/examples"


def load(name: str) -> Any:
    """Imports a new module of an example."""
    specification = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    return module

"""The vectors as tests: `pytest --dml-implementation=module:Class`, in any repository.

Without that option this does nothing, and it imports nothing that takes time.
"""

import pytest

from .options import FILTERS, add_options


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, all of which begin with `--dml`."""
    group = parser.getgroup("dmlax-conformance", "conformance vectors of DirectML operators")
    chosen = group.addoption
    text = "run the vectors against this: a built-in name, module:Class or process:command"
    chosen("--dml-implementation", metavar="NAME", help=text)
    names = ("variant", *FILTERS, "min-cases", "min-share", "time-limit", "expected-failures")
    add_options(chosen, names, "--dml-")
    chosen("--dml-only", action="store_true", help="collect no other tests")


def pytest_configure(config: pytest.Config) -> None:
    """Register the rest of the plugin if there is something to test."""
    name = config.getoption("--dml-implementation")
    if name is not None:
        from .pytest_vectors import Vectors

        config.pluginmanager.register(Vectors(config, name), "dmlax-conformance-vectors")

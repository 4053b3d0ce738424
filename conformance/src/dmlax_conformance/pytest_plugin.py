"""The vectors as tests: `pytest --dml-implementation=module:Class`, in any repository.

Without that option this does nothing, and it imports nothing that takes time.
"""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, all of which begin with `--dml`."""
    group = parser.getgroup("dmlax-conformance", "conformance vectors of DirectML operators")
    chosen = group.addoption
    names = "run the vectors against this: a built-in name, module:Class or process:command"
    chosen("--dml-implementation", metavar="NAME", help=names)
    chosen("--dml-variant", metavar="NAME", help="one of the adapter's variants, or all")
    chosen("--dml-operator", metavar="NAME", action="append", help="only this operator")
    chosen("--dml-id", metavar="ID", action="append", help="only this vector")
    chosen("--dml-flag", metavar="NAME", action="append", help="only vectors with this flag")
    chosen("--dml-vectors", metavar="DIR", type=Path, help="another folder of vectors")
    chosen("--dml-min-cases", metavar="N", type=int, default=1, help="fewest applicable cases")
    chosen("--dml-time-limit", metavar="SECONDS", type=float, help="for one answer of a program")
    failures = 'JSON {"id[variant]": "reason"} of failures that are known'
    chosen("--dml-expected-failures", metavar="FILE", type=Path, help=failures)
    chosen("--dml-only", action="store_true", help="collect no other tests")


def pytest_configure(config: pytest.Config) -> None:
    """Register the rest of the plugin if there is something to test."""
    name = config.getoption("--dml-implementation")
    if name is not None:
        from .pytest_vectors import Vectors

        config.pluginmanager.register(Vectors(config, name), "dmlax-conformance-vectors")

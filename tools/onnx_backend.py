"""Runs ONNX's own backend tests whole, and counts what passes: `python -m tools.onnx_backend`.

Ends with 1 if fewer pass than FEWEST, which the documentation says for the version of `onnx`.
"""

import collections
import sys
import unittest
import warnings

import onnx
from onnx.backend.test import BackendTest

from dmlax.onnx.backend import DmlaxBackend

FEWEST = 1504


def main() -> int:
    """Runs them; arguments are patterns of names."""
    warnings.simplefilter("ignore")
    tests = BackendTest(DmlaxBackend, __name__)
    for pattern in sys.argv[1:]:
        tests.include(pattern)
    suite = tests.test_suite
    count = suite.countTestCases()
    result = unittest.TextTestRunner(sys.stderr, verbosity=1, buffer=True).run(suite)
    failed = [*result.failures, *result.errors]
    why = {test.id(): text.strip().splitlines() for test, text in failed}
    kinds = {name: _kind(lines) for name, lines in why.items()}
    skipped = sum("_cuda" not in test.id() for test, _ in result.skipped)
    here = count - len(result.skipped) + skipped
    passed = here - skipped - len(failed)
    for name, kind in sorted(kinds.items(), key=lambda item: (item[1], item[0])):
        if kind != "UnsupportedError":
            print(f"{kind}: {name.rpartition('.')[2]}")
    counts = ", ".join(f"{n} {k}" for k, n in collections.Counter(kinds.values()).most_common())
    print(f"onnx {onnx.__version__}: {passed} of {here} pass; {skipped} skipped; {counts}")
    return int(not sys.argv[1:] and passed < FEWEST)


def _kind(lines: list[str]) -> str:
    """The exception's class, in the last line that begins at the margin with one."""
    found = [x.partition(":")[0] for x in lines if x[:1].isalpha() and "Error" in x.split(":")[0]]
    return found[-1].rpartition(".")[2] if found else "another"


if __name__ == "__main__":
    sys.exit(main())

"""Random calls of every native kernel on every instruction set of this machine."""

import pytest

from support.instruction_sets import NAMES, is_here, run_on

MODULES = {  # random calls: how many run by default, and how many there are
    "binary": (4, 2000),
    "block_product": (4, 48),
    "cache_attention": (12, 300),
    "convolution": (6, 1000),
    "convolution_tiles": (6, 240),
    "depthwise_tiles": (6, 240),
    "dynamic_quantize": (2, 2000),
    "elementwise": (5, 2000),
    "float_convolution": (12, 1000),
    "level_product": (12, 300),
    "matmul_few_rows": (12, 300),
    "matmul_tiles": (4, 48),
    "nonzero": (4, 60),
    "ordered_product": (6, 200),
    "pooling": (3, 2000),
}
CODE = """
import importlib
from dmlax._cpu import library
print(library.instruction_set())
for name, first, last in {ranges}:
    module = importlib.import_module(f"support.calls.{{name}}")
    print(*module.mismatches("native_cpu", first, last), sep="\\n", end="")
"""
every_set = pytest.mark.parametrize("name", NAMES)


def check(name, ranges):
    """Runs the calls in a process, since the library reads the set's name once."""
    if not is_here(name):
        pytest.skip(f"this machine has no {name}")
    assert run_on(name, CODE.format(ranges=ranges)).splitlines() == [name]


def test_at_least_two_instruction_sets_are_here():
    assert sum(map(is_here, NAMES)) >= 2


@every_set
def test_random_calls_on_every_instruction_set(name):
    """One process checks all modules, as most of its time is JAX's start."""
    check(name, [(module, 0, few) for module, (few, _) in MODULES.items()])


def test_an_attention_to_a_cache_has_the_same_bits_on_every_set():
    code = "from support.calls import cache_attention; print(cache_attention.checksum(12))"
    assert len({run_on(name, code) for name in NAMES if is_here(name)}) == 1


@pytest.mark.slow
@every_set
@pytest.mark.parametrize("module", MODULES)
def test_many_random_calls_on_every_instruction_set(name, module):
    check(name, [(module, *MODULES[module])])

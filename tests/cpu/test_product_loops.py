"""The compiled library: accumulators stay in registers, instruction sets in their namespaces."""

import os
import platform
import re
import subprocess

import pytest

from dmlax._cpu import library
from support.disassembly import AARCH64, DIALECT, X86_64, find_spills, read_loops
from support.instruction_sets import NAMES

SPILLED = """\
    10:\tvpbroadcastd (%rbx,%rax,4),%zmm0
    18:\tvmovdqa64 0x40(%rsp),%zmm4
    20:\tvpdpbusd %zmm0,%zmm3,%zmm4
    28:\tvmovdqa64 %zmm4,0x40(%rsp)
    30:\tadd    $0x1,%rax
    38:\tjg     18 <loop+0x8>
"""


SPILLED_ON_AARCH64 = """\
    10:\tldp\tq2, q3, [x1]
    18:\tldr\tq6, [sp, #176]
    20:\tusdot\tv6.4s, v2.16b, v1.16b
    28:\tstp\tq6, q3, [sp, #176]
    30:\tcbnz\tx1, 18 <loop+0x8>
    38:\tb.ne\t10 <loop>  // b.any
"""


def find_namespace(function: str) -> str:
    """Return the namespace within dmlax of a function, which may begin with its result's type."""
    found = re.match(r"(?:[^(]* )?dmlax::(\w+)::", function)
    return found[1] if found else ""


@pytest.fixture(scope="module")
def functions() -> list[tuple[str, str]]:
    """Return the names and the instructions of the library's functions."""
    if DIALECT is None:
        pytest.skip(f"no set has loops of its own on {platform.machine()}")
    options = ["--disassemble", "--no-show-raw-insn", "--demangle"]
    objdump = os.environ.get("OBJDUMP", "objdump")
    command = [objdump, *options, str(library._find())]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.findall(r"^[0-9a-f]+ <(.*)>:\n((?:.+\n)*)", text, re.MULTILINE)


@pytest.mark.parametrize("isa", NAMES[:-1])
def test_no_accumulator_is_stored_on_the_stack(functions, isa):
    loops = [
        loop
        for name, text in functions
        if find_namespace(name) == isa
        for loop in read_loops(text, DIALECT)
        if any(re.match(DIALECT.product, each) for each in loop)
    ]
    assert len(loops) > 1, "the library has no loop of this instruction set"
    assert [find_spills(loop, DIALECT) for loop in loops] == [[]] * len(loops)


def test_only_an_instruction_sets_own_functions_need_it(functions):
    """One that two sets share would be linked from either, and not every machine can run it."""
    users = [name for name, text in functions if re.search(DIALECT.not_everywhere, text)]
    assert len(users) > len(NAMES)
    assert [name for name in users if find_namespace(name) not in NAMES] == []


def test_a_spilled_accumulator_is_found():
    (loop,) = read_loops(SPILLED, X86_64)
    assert len(loop) == 5
    assert find_spills(loop, X86_64) == ["vmovdqa64 %zmm4,0x40(%rsp)"]
    (loop,) = read_loops(SPILLED_ON_AARCH64, AARCH64)
    assert len(loop) == 4
    assert find_spills(loop, AARCH64) == ["stp q6, q3, [sp, #176]"]


def test_another_register_on_the_stack_is_none():
    (loop,) = read_loops(SPILLED.replace("vmovdqa64 %zmm4", "vmovdqa64 %zmm0"), X86_64)
    assert find_spills(loop, X86_64) == []
    (loop,) = read_loops(SPILLED_ON_AARCH64.replace("stp\tq6", "stp\tq2"), AARCH64)
    assert find_spills(loop, AARCH64) == []

"""The compiled library: accumulators stay in registers, instruction sets in their namespaces."""

import platform
import re
import subprocess
from collections.abc import Iterator

import pytest

from cpu.instruction_sets import NAMES
from dmlax._cpu import library

PRODUCT = re.compile(r"(\{vex\} )?(vpmaddwd|vpdpbusd|tdpb..d) ")
ACCUMULATES = re.compile(r"(\{vex\} )?(vpaddd|vpdpbusd|tdpb..d) .*%([xyzt]mm\d+)$")
WRITES = re.compile(r".*,%([xyzt]mm\d+)$")
STORES_ON_STACK = re.compile(r"(?:vmov\w+|tilestored) %([xyzt]mm\d+),.*\(%r[sb]p\b")

SPILLED = """\
    10:\tvpbroadcastd (%rbx,%rax,4),%zmm0
    18:\tvmovdqa64 0x40(%rsp),%zmm4
    20:\tvpdpbusd %zmm0,%zmm3,%zmm4
    28:\tvmovdqa64 %zmm4,0x40(%rsp)
    30:\tadd    $0x1,%rax
    38:\tjg     18 <loop+0x8>
"""


def read_loops(text: str) -> Iterator[list[str]]:
    """Yield the instructions of every innermost loop of a disassembly."""
    rows = re.findall(r"^\s+([0-9a-f]+):\t(.*?)\s*$", text, re.MULTILINE)
    position = {address: i for i, (address, _) in enumerate(rows)}
    begin_of_last = -1
    for i, (_, instruction) in enumerate(rows):
        jump = re.match(r"j\w+ +([0-9a-f]+)", instruction)
        begin = position.get(jump[1], i + 1) if jump else i + 1
        if begin <= i and begin > begin_of_last:  # a loop that holds another one begins before it
            begin_of_last = begin
            yield [instruction for _, instruction in rows[begin : i + 1]]


def find_spills(loop: list[str]) -> list[str]:
    """Return the stores of an accumulator on the stack."""
    spills = []
    for i, instruction in enumerate(loop):
        if store := STORES_ON_STACK.match(instruction):
            before = loop[i - 1 :: -1] + loop[:i:-1] if i else loop[::-1]
            writers = (each for each in before if (w := WRITES.match(each)) and w[1] == store[1])
            if ACCUMULATES.match(next(writers, "")):
                spills.append(instruction)
    return spills


def find_namespace(function: str) -> str:
    """Return the namespace within dmlax of a function, which may begin with its result's type."""
    found = re.match(r"(?:[^(]* )?dmlax::(\w+)::", function)
    return found[1] if found else ""


@pytest.fixture(scope="module")
def functions() -> list[tuple[str, str]]:
    """Return the names and the instructions of the library's functions."""
    if platform.machine() != "x86_64":
        pytest.skip("these are the loops of x86-64")
    options = ["--disassemble", "--no-show-raw-insn", "--demangle"]
    command = ["objdump", *options, str(library._find())]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.findall(r"^[0-9a-f]+ <(.*)>:\n((?:.+\n)*)", text, re.MULTILINE)


@pytest.mark.parametrize("isa", NAMES[:-1])
def test_no_accumulator_is_stored_on_the_stack(functions, isa):
    loops = [
        loop
        for name, text in functions
        if find_namespace(name) == isa
        for loop in read_loops(text)
        if any(PRODUCT.match(each) for each in loop)
    ]
    assert len(loops) > 1, "the library has no loop of this instruction set"
    assert [find_spills(loop) for loop in loops] == [[]] * len(loops)


def test_only_an_instruction_sets_own_functions_use_its_registers(functions):
    """One that two sets share would be linked from either, and not every machine can run it."""
    users = [name for name, text in functions if re.search(r"%[yzt]mm\d", text)]
    assert len(users) > len(NAMES)
    assert [name for name in users if find_namespace(name) not in NAMES] == []


def test_a_spilled_accumulator_is_found():
    (loop,) = read_loops(SPILLED)
    assert len(loop) == 5
    assert find_spills(loop) == ["vmovdqa64 %zmm4,0x40(%rsp)"]


def test_another_register_on_the_stack_is_none():
    (loop,) = read_loops(SPILLED.replace("vmovdqa64 %zmm4", "vmovdqa64 %zmm0"))
    assert find_spills(loop) == []

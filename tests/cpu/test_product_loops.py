"""The compiled library: accumulators stay in registers, instruction sets in their namespaces."""

import os
import platform
import re
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from cpu.instruction_sets import NAMES
from dmlax._cpu import library


class Dialect(NamedTuple):
    """The patterns that these tests look for in a disassembly; registers are groups."""

    jump: str  # to an address
    product: str
    accumulates: str
    writes: str
    stores_on_stack: str
    not_everywhere: str  # what only some of the processor's machines can run


X86_64 = Dialect(
    jump=r"j\w+ +([0-9a-f]+)",
    product=r"(?:\{vex\} )?(?:vpmaddwd|vpdpbusd|tdpb..d) ",
    accumulates=r"(?:\{vex\} )?(?:vpaddd|vpdpbusd|tdpb..d) .*%([xyzt]mm\d+)$",
    writes=r".*,%([xyzt]mm\d+)$",
    stores_on_stack=r"(?:vmov\w+|tilestored) %([xyzt]mm\d+),.*\(%r[sb]p\b",
    not_everywhere=r"%[yzt]mm\d",
)
AARCH64 = Dialect(
    jump=r"(?:b|b\.\w+|cbn?z \w+,|tbn?z \w+, #\d+,) ([0-9a-f]+) <",
    product=r"(?:usdot|sdot|smull2?) ",
    accumulates=r"(?:usdot|sdot|add) v(\d+)\.4s,",
    writes=r"(?!st)\w+ [vq](\d+)\b(?:, q(\d+), \[)?",
    stores_on_stack=r"st[rp] q(\d+)(?:, q(\d+))?, \[(?:sp|x29)\b",
    not_everywhere=r"\b(?:us|s|u)dot\b",
)
DIALECT = {"x86_64": X86_64, "aarch64": AARCH64}.get(platform.machine())

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


def read_loops(text: str, dialect: Dialect) -> Iterator[list[str]]:
    """Yield the instructions of every innermost loop of a disassembly."""
    found = re.findall(r"^\s+([0-9a-f]+):\t(.*?)\s*$", text, re.MULTILINE)
    rows = [(address, instruction.replace("\t", " ")) for address, instruction in found]
    position = {address: i for i, (address, _) in enumerate(rows)}
    begin_of_last = -1
    for i, (_, instruction) in enumerate(rows):
        jump = re.match(dialect.jump, instruction)
        begin = position.get(jump[1], i + 1) if jump else i + 1
        if begin <= i and begin > begin_of_last:  # a loop that holds another one begins before it
            begin_of_last = begin
            yield [instruction for _, instruction in rows[begin : i + 1]]


def find_spills(loop: list[str], dialect: Dialect) -> list[str]:
    """Return the stores of an accumulator on the stack."""
    spills = []
    for i, instruction in enumerate(loop):
        before = loop[i - 1 :: -1] + loop[:i:-1] if i else loop[::-1]
        for register in registers(dialect.stores_on_stack, instruction):
            writers = (each for each in before if register in registers(dialect.writes, each))
            if registers(dialect.accumulates, next(writers, "")):
                spills.append(instruction)
    return spills


def registers(pattern: str, instruction: str) -> list[str]:
    """Return the registers of an instruction that a pattern matches."""
    found = re.match(pattern, instruction)
    return [register for register in found.groups() if register] if found else []


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

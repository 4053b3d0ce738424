"""Loops of a compiled library, read in its disassembly."""

import platform
import re
from collections.abc import Iterator
from typing import NamedTuple


class Dialect(NamedTuple):
    """The patterns that these tests look for in a disassembly; registers are groups."""

    jump: str  # the address of a jump's target
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

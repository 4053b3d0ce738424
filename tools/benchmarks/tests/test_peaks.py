"""The loops that measure a processor's peak: no compiler may merge or drop their products."""

import ctypes
import os
import platform
import re
import subprocess
from typing import NamedTuple

import pytest

from dmlax._cpu import library
from support.disassembly import X86_64, read_loops, registers
from support.instruction_sets import is_here
from tools.benchmarks import peaks

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the loops are written for x86-64"
)


class Loop(NamedTuple):
    """A loop of peaks.cc."""

    instruction: str
    count: int  # executions of the instruction
    sums: int
    products: int  # products of bytes by one instruction


LOOPS = {
    "avx2": Loop("vpmaddwd", 12, 6, 16),
    "avx_vnni": Loop("vpdpbusd", 12, 12, 32),
    "avx512_vnni": Loop("vpdpbusd", 12, 12, 64),
    "amx_int8": Loop("tdpbsud", 4, 4, 16 * 16 * 64),
}


@pytest.fixture(params=peaks.FLAGS)
def isa(request):
    """An instruction set that the compiler knows."""
    compiler = peaks.compiler()
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    command = [compiler, *peaks.FLAGS[request.param], "-E", "-x", "c++", os.devnull]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip(f"{compiler} does not know {request.param}")
    return request.param


def test_every_product_is_in_the_loop(isa, tmp_path):
    """GCC merges sums that are equal: one product of twelve is then left."""
    wanted = LOOPS[isa]
    built = peaks.build(peaks.FLAGS[isa], tmp_path)
    command = [os.environ.get("OBJDUMP", "objdump"), "-d", "--no-show-raw-insn", str(built)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    loops = [loop for loop in read_loops(text, X86_64) if multiplications(loop)]
    assert [len(multiplications(loop)) for loop in loops] == [wanted.count]
    assert all(wanted.instruction in each for each in multiplications(loops[0]))
    sums = {register for row in loops[0] for register in registers(X86_64.accumulates, row)}
    assert len(sums) == wanted.sums
    assert not [row for row in loops[0] if "(%" in row], "the loop reads or writes memory"


def multiplications(loop):
    return [row for row in loop if re.match(X86_64.product, row)]


def test_the_products_are_counted(isa, tmp_path):
    """The rate is the number that the loop returns over its time."""
    if library.why_not("cpu") or not is_here(isa):
        pytest.skip(f"this machine has no {isa}")
    found = ctypes.CDLL(str(peaks.build(peaks.FLAGS[isa], tmp_path)))
    found.multiply.restype, found.multiply.argtypes = ctypes.c_int64, [ctypes.c_int64]
    wanted = LOOPS[isa]
    assert found.multiply(1000) == 1000 * wanted.count * wanted.products

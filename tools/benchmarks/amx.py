"""Refuses AMX to this process, so that ONNX Runtime runs as on a processor without it.

A library asks Linux for the tile registers by `arch_prctl`. A seccomp filter refuses the request,
and ONNX Runtime then takes its kernels for AVX-512 VNNI.
"""

import ctypes
import os
import platform
import struct

_TILE_DATA = 18  # the component of the processor's state; Linux: Documentation/arch/x86/xstate
_ARCH_PRCTL, _GET_PERMITTED, _REQUEST = 158, 0x1022, 0x1023
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_NOT_PERMITTED = 0x00050000 | 1  # SECCOMP_RET_ERRNO, EPERM
_ALLOW = 0x7FFF0000
_LOAD, _EQUALS, _RETURN = 0x20, 0x15, 0x06  # opcodes of the classic BPF
_ARCHITECTURE_X86_64 = 0xC000003E
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENT = 0, 4, 16  # offsets in seccomp_data


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse_unless_chosen() -> None:
    """Refuse AMX to this process and its children if `DMLAX_NATIVE_ISA` names another set."""
    if os.environ.get("DMLAX_NATIVE_ISA", "amx_int8") != "amx_int8" and _has_arch_prctl():
        refuse()


def refuse() -> None:
    """Refuse AMX for good to this thread and to the threads and processes that it starts."""
    code = b"".join(  # a code, steps if equal, steps if not, and an operand
        struct.pack("HBBI", *instruction)
        for instruction in (
            (_LOAD, 0, 0, _AT_ARCHITECTURE),
            (_EQUALS, 0, 5, _ARCHITECTURE_X86_64),
            (_LOAD, 0, 0, _AT_NUMBER),
            (_EQUALS, 0, 3, _ARCH_PRCTL),
            (_LOAD, 0, 0, _AT_ARGUMENT),
            (_EQUALS, 0, 1, _REQUEST),
            (_RETURN, 0, 0, _NOT_PERMITTED),
            (_RETURN, 0, 0, _ALLOW),
        )
    )
    program = _Program(len(code) // 8, code)
    _prctl(_NO_NEW_PRIVILEGES, 1)
    _prctl(_SET_SECCOMP, _FILTER, ctypes.addressof(program))


def is_granted() -> bool:
    """Ask Linux for the tile registers: whether this process may use them."""
    if not _has_arch_prctl():
        return False
    libc = ctypes.CDLL(None)
    libc.syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA)
    permitted = ctypes.c_uint64()
    failed = libc.syscall(_ARCH_PRCTL, _GET_PERMITTED, ctypes.byref(permitted))
    return not failed and bool(permitted.value >> _TILE_DATA & 1)


def _prctl(option: int, *arguments: int) -> None:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    if prctl(option, *arguments, *[0] * (4 - len(arguments))) != 0:
        raise OSError(ctypes.get_errno(), f"prctl refuses option {option}")


def _has_arch_prctl() -> bool:
    return platform.system() == "Linux" and platform.machine() == "x86_64"

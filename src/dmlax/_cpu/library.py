"""The native CPU kernels' library: loaded once, if it was built and this machine can run it."""

import ctypes
import functools
import re
import sys
from pathlib import Path

import jax
import jaxlib.version

from dmlax._core import compat
from dmlax._cpu import allocator

# A handler that reads its operands, its attributes or prepared weights in another way gets the next
# version, so that an export of the former one does not run.
TARGETS = (
    "dmlax_nonzero_coordinates_v1",
    "dmlax_convolution_v1",
    "dmlax_matrix_multiply_v1",
    "dmlax_requantize_sums_v1",
    "dmlax_scale_sums_v1",
    "dmlax_quantize_linear_v1",
    "dmlax_dequantize_linear_v1",
    "dmlax_quantized_add_v1",
    "dmlax_quantized_multiply_v1",
    "dmlax_lookup_v1",
    "dmlax_max_pooling_v1",
    "dmlax_average_pooling_v1",
    "dmlax_dynamic_quantize_v1",
    "dmlax_normalize_rows_v1",
    "dmlax_softmax_rows_v1",
    "dmlax_average_bytes_v1",
    "dmlax_quantized_softmax_v1",
    "dmlax_block_product_v1",
    "dmlax_level_product_v1",
    "dmlax_cache_attention_v1",
    "dmlax_float_convolution_v1",
    "dmlax_ordered_product_v1",
    "dmlax_ordered_sum_v1",
    "dmlax_exact_function_v1",
)
_LIBRARY = "_native.so"
_ABSENT = "_native_absent.txt"  # the build's reason
_OVERRIDE = "DMLAX_NATIVE_ISA"


class _AbsentError(Exception):
    """The reason why there is no library, in a sentence."""


def why_not(platform: str) -> str | None:
    """Return why the native kernels cannot run on a platform, or None."""
    if platform != "cpu":
        return "it runs on cpu only"
    return _loaded()[1]


def why_not_for(plan: object, platform: str) -> str | None:
    """Says why the kernels of an operator that take every plan do not run."""
    return why_not(platform)


def instruction_set() -> str:
    """The name of the instruction set in use, "" where the library is absent."""
    return _loaded()[0]


@functools.cache
def reads_panels() -> bool:
    """True where programs run on the CPU and its kernels multiply prepared panels as they are."""
    if jax.default_backend() != "cpu" or why_not("cpu"):
        return False
    return bool(ctypes.CDLL(str(_find())).dmlax_reads_panels())


def instruction_sets() -> tuple[str, ...]:
    """The names of all that this machine has, of which the library uses one."""
    if why_not("cpu"):
        return ()
    return tuple(_text(ctypes.CDLL(str(_find())).dmlax_isas).split(", "))


@functools.cache
def _loaded() -> tuple[str, str | None]:
    """The instruction set, and why there is none."""
    allocator.keep_if_asked()
    try:
        return _load(), None
    except _AbsentError as absent:
        return "", str(absent)


def _load() -> str:
    """Registers every kernel with XLA."""
    try:
        library = ctypes.CDLL(str(_find()))
        targets = {name: getattr(library, name.rpartition("_v")[0]) for name in TARGETS}
    except (OSError, AttributeError) as error:
        raise _AbsentError(f"the native library does not load: {error}") from error
    built_with = _text(library.dmlax_jaxlib_version)
    if _version(jaxlib.version.__version__) < _version(built_with):  # XLA would refuse to start
        raise _AbsentError(
            f"the native library was built with jaxlib {built_with}, newer than the installed "
            f"{jaxlib.version.__version__}"
        )
    chosen = _text(library.dmlax_isa)
    if not chosen:
        known = _text(library.dmlax_isas)
        raise _AbsentError(f"{_OVERRIDE} names none of what this machine has: {known}")
    for name, function in targets.items():
        compat.register_kernel(name, function)
    return chosen


def _text(function: "ctypes._NamedFuncPointer") -> str:
    function.restype = ctypes.c_char_p
    return str(function().decode())


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", text)[:3])


def _find() -> Path:
    """The library, beside this package or where an editable install puts it."""
    for folder in map(Path, sys.modules["dmlax"].__path__):
        if (folder / _LIBRARY).exists():
            return folder / _LIBRARY
        if (folder / _ABSENT).exists():
            raise _AbsentError((folder / _ABSENT).read_text(encoding="utf-8").strip())
    raise _AbsentError("the native library was not built: dmlax runs from its source")

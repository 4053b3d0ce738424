"""Functions with exact floats, whose products, sums and functions a CPU's kernels compute."""

from dmlax._core import exact, float_functions, ordered_products
from dmlax._fused.exact_floats.cpu import lowering as native_cpu

ordered_products.kernels["cpu"] = ordered_products.Kernel(
    native_cpu.multiply, native_cpu.total, native_cpu.takes
)
float_functions.kernels["cpu"] = float_functions.Kernel(native_cpu.apply, native_cpu.has)

exact_function = exact.of
"""`exact.of`, once the kernels are known."""

"""Functions with exact floats, whose products a CPU's kernel multiplies."""

from dmlax._core import exact, ordered_products
from dmlax._fused.ordered_product.cpu import lowering as native_cpu

ordered_products.kernels["cpu"] = ordered_products.Kernel(native_cpu.run, native_cpu.takes)

exact_function = exact.of
"""`exact.of`, once the kernels are known."""

"""Plain `jax.numpy` and `jax.lax`."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from .base import Case
from .common import window_pairs
from .formulas import Formulas, Given

LAYOUTS = {3: ("NCW", "OIW", "NCW"), 4: ("NCHW", "OIHW", "NCHW")}


class Jnp(Formulas):
    """Quantization in float32, which is what `jax.numpy` computes in.

    JAX narrows 64-bit arrays unless x64 is on; that is how `jax.numpy` answers, so it shows.
    """

    name = "jnp"
    variants = ("eager", "jit")
    packages = ("jax", "jaxlib")
    refusals = (TypeError, ValueError, ZeroDivisionError)

    def __init__(self) -> None:
        """Import JAX."""
        self._jax: Any = import_module("jax")
        self.xp = import_module("jax.numpy")
        self.concurrent = self._jax.devices()[0].platform == "cpu"  # others belong to one process
        super().__init__()

    def computed(self, call: Callable[..., Any], case: Case, variant: str) -> Any:
        """Call eager or jitted."""
        traced = {name: self.xp.asarray(array) for name, array in self.parameters(case).items()}
        call = partial(call, case)
        return self._jax.jit(call)(traced) if variant == "jit" else call(traced)

    def real(self, array: Any) -> Any:
        """Return an array in float32."""
        return array.astype("float32")

    def nonzero_coordinates(self, case: Case, given: Given) -> Any:
        """Return the rows and their number."""
        x, size = given["InputTensor"], case.outputs["OutputCoordinatesTensor"].sizes[-2]
        rows = self.xp.nonzero(x, size=size)
        return self.xp.stack(rows, axis=-1), self.xp.count_nonzero(x)

    def convolved(self, case: Case, x: Any, w: Any) -> Any:
        """Return the integer convolution."""
        return self._jax.lax.conv_general_dilated(
            x,
            w,
            window_strides=case.attributes["Strides"],
            padding=window_pairs(case),
            rhs_dilation=case.attributes["Dilations"],
            dimension_numbers=LAYOUTS.get(x.ndim),
            feature_group_count=case.attributes["GroupCount"],
            preferred_element_type="int32",
        )

    def element_wise_dequantize_linear(self, case: Case, given: Given) -> Any:
        """Subtract and multiply."""
        names = ("InputTensor", "ZeroPointTensor", "ScaleTensor")
        x, zero_point, scale = (given[name].astype("float32") for name in names)
        return ((x - zero_point) * scale).astype(given["ScaleTensor"].dtype)

    def quantized_lookup(self, case: Case, given: Given) -> Any:
        """Take entries."""
        x = given["InputTensor"]
        places = x.astype("int32") - self.xp.iinfo(x.dtype).min
        return self.xp.take(given["TableTensor"], places)

    def pooled(self, case: Case, x: Any, is_max: bool) -> Any:
        """Return the sum or the largest element of each window."""
        options, lax = case.attributes, self._jax.lax
        start = self.xp.array(self.xp.iinfo(x.dtype).min if is_max else 0, x.dtype)
        pairs = [(0, 0), (0, 0), *window_pairs(case)]
        names = ("WindowSize", "Strides", "Dilations")
        windows, strides, dilations = ((1, 1, *options[name]) for name in names)
        return lax.reduce_window(
            *(x, start, lax.max if is_max else lax.add),
            *(windows, strides, pairs),
            window_dilation=dilations,
        )

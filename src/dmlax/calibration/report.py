"""The error of each layer, as a table."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike

from dmlax._core.arguments import Rules
from dmlax._explain import table


class LayerError(NamedTuple):
    """One layer's error."""

    name: str
    signal_to_noise: float  # decibels, infinite where nothing differs
    greatest: float
    mean: float  # the mean of `actual - expected`, which bias correction removes


class ErrorReport(NamedTuple):
    """The error of every layer; printed, a table."""

    layers: tuple[LayerError, ...]

    def __str__(self) -> str:
        rows = [("layer", "signal to noise", "greatest error", "mean error")]
        rows += [
            (row.name, f"{row.signal_to_noise:.1f} dB", f"{row.greatest:.4g}", f"{row.mean:.4g}")
            for row in self.layers
        ]
        return "\n".join(table(rows))


def error_report(expected: Mapping[str, ArrayLike], actual: Mapping[str, ArrayLike]) -> ErrorReport:
    """Compares the tensors of a float network with those of its quantized form.

    Args:
      expected: the float tensors by name.
      actual: the tensors of the quantized network, dequantized, by the same names.

    Returns:
      An `ErrorReport`: print it, or read its `layers`.

    Raises:
      SpecError: code `option` for different names, `sizes` for different shapes.

    Example:
      >>> import jax.numpy as jnp
      >>> from dmlax import calibration
      >>> expected = {"first": jnp.float32([3.0, 4.0]), "last": jnp.float32([1.0])}
      >>> actual = {"first": jnp.float32([3.3, 4.4]), "last": jnp.float32([1.0])}
      >>> print(calibration.error_report(expected, actual))
      layer  signal to noise  greatest error  mean error
      first  20.0 dB          0.4             0.35
      last   inf dB           0               0
    """
    rules = Rules("error_report")
    extra = [name for name in actual if name not in expected]
    missing = [name for name in expected if name not in actual]
    names = f"has the extra names {extra}, and lacks {missing} of `expected`"
    rules.expect(not extra and not missing, "option", "actual", names)
    return ErrorReport(tuple(_layer(rules, n, expected[n], actual[n]) for n in expected))


def _layer(rules: Rules, name: str, expected: ArrayLike, actual: ArrayLike) -> LayerError:
    x, y = np.asarray(expected, np.float64), np.asarray(actual, np.float64)
    shapes = f"has shape {y.shape} for {name!r}, expected {x.shape}"
    rules.expect(x.shape == y.shape, "sizes", "actual", shapes)
    error = y - x
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = 10 * np.log10(np.square(x).sum() / np.square(error).sum())
    return LayerError(name, float(ratio), float(np.abs(error).max(initial=0)), float(error.mean()))

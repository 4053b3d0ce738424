"""Random convolutions with an addend, and what they should give by the suite's oracle."""

import functools
import itertools
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

import dmlax
from support import draw, oracle, random_calls, wild_floats
from support.calls import convolution as convolution_calls

_MOST_SEEDS = 10_000_000


@dataclass(frozen=True)
class Call:
    """One call."""

    convolution: convolution_calls.Call
    convolved: np.ndarray  # the convolution's result
    addend: np.ndarray
    scales: tuple[np.ndarray, np.ndarray]  # the addend's and the sum's
    zero_points: tuple[np.ndarray | None, np.ndarray | None]
    sum_dtype: str
    addend_first: bool

    @property
    def x(self) -> np.ndarray:
        """The input."""
        return self.convolution.x

    def __call__(self, implementation: str) -> jax.Array:
        """Outputs by dmlax."""
        x, w, options = self.convolution.arguments()
        bias = options.pop("bias", None)
        result: jax.Array = dmlax.quantized_linear_convolution_add(
            *(x, w, bias, self.addend),
            **options,
            output_dtype=self.convolution.output_dtype,
            addend_scale=self.scales[0],
            addend_zero_point=self.zero_points[0],
            sum_scale=self.scales[1],
            sum_zero_point=self.zero_points[1],
            sum_dtype=self.sum_dtype,
            addend_first=self.addend_first,
            implementation=implementation,
        )
        return result

    def expected(self) -> np.ndarray:
        """Outputs by rational arithmetic."""
        given = self.convolution.parameters
        inputs: dict[str, Any] = {
            "ATensor": self.convolved,
            "AScaleTensor": given["output_scale"],
            "AZeroPointTensor": given.get("output_zero_point"),
            "BTensor": self.addend,
            "BScaleTensor": self.scales[0],
            "BZeroPointTensor": self.zero_points[0],
            "OutputScaleTensor": self.scales[1],
            "OutputZeroPointTensor": self.zero_points[1],
        }
        asked = {"OutputTensor": (self.sum_dtype, self.convolved.shape)}
        return oracle("element_wise_quantized_linear_add", inputs, asked)["OutputTensor"]


def call(seed: int) -> Call:
    """A random exact convolution, and an addend with scales near its own or of any exponent."""
    rng = np.random.default_rng(seed)
    calls = (convolution_calls.call(each) for each in itertools.count(seed, _MOST_SEEDS))
    convolution = next(each for each in calls if each.output_dtype != "int32")
    convolution = replace(convolution, parameters=convolution.parameters | {"arithmetic": "exact"})
    convolved = convolution.expected()
    dtypes = [str(dtype) for dtype in rng.choice(convolution_calls.BYTES, 2)]
    wild = wild_floats(seed, 2)
    with np.errstate(over="ignore", under="ignore"):
        near = rng.choice([0.25, 0.5, 1, 3, -1.5], 2).astype(np.float32)
        near *= convolution.parameters["output_scale"]
    is_scale = np.isfinite(near) & (near != 0)
    scales = wild if rng.random() < 0.3 else np.where(is_scale, near, wild)
    zero_points = [draw(seed + i, dtype) for i, dtype in enumerate(dtypes)]
    given = rng.random(2) < 0.7
    return Call(
        convolution,
        convolved,
        draw(seed + 2, dtypes[0], convolved.shape),
        (scales[0], scales[1]),
        (zero_points[0] if given[0] else None, zero_points[1] if given[1] else None),
        dtypes[1],
        bool(rng.random() < 0.5),
    )


mismatches = functools.partial(random_calls.find_mismatches, call)

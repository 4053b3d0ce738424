"""Puts LiteRT's operators into the table of operators, and describes a call's tensors."""

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from dmlax._core.fixed_point import round_half_away
from dmlax.errors import UnsupportedError
from dmlax.litert.schema import CUSTOM_OPTIONS, OPTIONS
from dmlax.onnx.errors import ModelError
from dmlax.onnx.operators import table
from dmlax.onnx.operators.table import Known as Known
from dmlax.onnx.operators.table import Tensor as Tensor

Resolver = Literal["xnnpack", "reference", "exact"]
_Function = TypeVar("_Function", bound=Callable[..., Any])
BOUNDS: dict[str, tuple[int | None, int | None]] = {
    "": (None, None),
    "RELU": (0, None),
    "RELU6": (0, 6),
    "RELU_N1_TO_1": (-1, 1),
    "RELU_0_TO_1": (0, 1),
}
TRAINED = "is_trained"
"""The attribute of a node that computes its float twin."""
_DESCRIBED: dict[str, Any] = {
    "dtypes": tuple[str, ...],
    "scale_counts": tuple[int, ...],
    "scale_axes": tuple[int, ...],
    "scales": tuple[float, ...],
    "zero_points": tuple[int, ...],
    "resolver": str,
    TRAINED: bool,
}


@dataclass(frozen=True)
class Info:
    """The dtype and the quantization of a tensor, `real = scale * (x - zero_point)`."""

    dtype: np.dtype
    scales: np.ndarray  # float32
    zero_points: np.ndarray  # int32
    axis: int

    @property
    def is_quantized(self) -> bool:
        """True for integers with a scale."""
        return self.dtype.kind in "iu" and self.scales.size > 0

    @property
    def scale(self) -> np.float32:
        """The scale of the whole tensor."""
        if self.scales.size != 1:
            text = f"{self.scales.size or 'no'} scales of a tensor, expected one"
            raise UnsupportedError(f"it has {text}")
        return np.float32(self.scales[0])

    @property
    def real(self) -> float:
        """The scale as a float64."""
        return float(self.scale)

    @property
    def zero_point(self) -> int:
        """The zero point of the whole tensor."""
        return int(self.zero_points[0]) if self.zero_points.size else 0

    def has_parameters_of(self, other: "Info") -> bool:
        """True for tensors of equal integers that are equal numbers."""
        pairs = ((self.scales, other.scales), (self.zero_points, other.zero_points))
        return self.dtype == other.dtype and all(np.array_equal(x, y) for x, y in pairs)


@dataclass(frozen=True)
class Call:
    """The options of a node, and what the file says of its tensors."""

    options: Mapping[str, Any]
    infos: tuple[Info | None, ...]
    operand_count: int
    output_count: int

    @classmethod
    def of(cls, attributes: Mapping[str, Any], operands: int, outputs: int) -> "Call":
        """Splits the attributes that describe tensors."""
        infos, start = list[Info | None](), 0
        dtypes, counts, axes, all_scales, all_zeros = (
            attributes.get(key, ()) for key in list(_DESCRIBED)[:5]
        )
        for name, count, axis in zip(dtypes, counts, axes, strict=True):
            scales, zeros = (x[start : start + count] for x in (all_scales, all_zeros))
            start += count
            dtype = getattr(jnp, "bool_" if name == "bool" else name, None) if name else None
            parameters = np.array(scales, np.float32), np.array(zeros, np.int32), axis
            infos.append(None if dtype is None else Info(np.dtype(dtype), *parameters))
        return cls(attributes, tuple(infos), operands, outputs)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.options[name]
        except KeyError:
            raise AttributeError(name) from None

    def info(self, place: int) -> Info:
        """The description of an operand; those of outputs follow."""
        info = self.infos[place] if place < len(self.infos) else None
        if info is None:
            raise UnsupportedError(
                f"its tensor {place + 1} is absent, or has a dtype of no numbers"
            )
        return info

    @property
    def output(self) -> Info:
        """The description of the first output."""
        return self.info(self.operand_count)

    @property
    def resolver(self) -> Resolver:
        """The kernels whose bits are computed."""
        resolver: Resolver = self.options["resolver"]
        return resolver

    @property
    def is_quantized(self) -> bool:
        """True if the output has quantized integers."""
        return self.output.is_quantized

    @property
    def fused(self) -> str:
        """The fused activation."""
        return str(self.options.get("activation", ""))

    def limits(
        self, info: Info | None = None, activation: str = "", is_delegated: bool = False
    ) -> tuple[int, int]:
        """The least and the greatest integer of an output, which an activation narrows.

        XNNPACK, to which a node is delegated, rounds after it adds the zero point, ties to even.
        """
        info, activation = info or self.output, activation or self.fused
        least, most = np.iinfo(info.dtype).min, np.iinfo(info.dtype).max
        if activation not in BOUNDS:
            raise UnsupportedError(f"its fused {activation} is not computed for integers")
        low, high = BOUNDS[activation]

        def place(value: float) -> int:
            if is_delegated:
                return int(np.rint(np.float32(value) / info.scale + np.float32(info.zero_point)))
            return info.zero_point + int(round_half_away(np.float32(value) / info.scale))

        least = least if low is None else max(int(least), place(low))
        most = most if high is None else min(int(most), place(high))
        return int(least), int(most)

    def activate(self, x: Array) -> Array:
        """Applies the fused activation to floats."""
        if self.fused == "TANH":
            return jnp.tanh(x)
        if self.fused not in BOUNDS:
            raise UnsupportedError(f"its fused {self.fused} is not computed")
        return jnp.clip(x, *BOUNDS[self.fused])


def operator(*names: str, prepare: table.Prepare | None = None) -> Callable[[_Function], _Function]:
    """Puts a function of a `Call` and the operands into the table, under its operators' names.

    Args:
      *names: the operators, whose function gets `name` first if there are several.
      prepare: packs constant weights, the second operand.
    """

    def register(function: _Function) -> _Function:
        for name in names:
            single = functools.partial(function, name) if len(names) > 1 else function
            row = table.operator(name, 1, domain="litert", prepare=_unless_trained(prepare))
            row(_by_attributes(name, single))
        return function

    return register


def _unless_trained(prepare: table.Prepare | None) -> table.Prepare | None:
    """Packs no weights that are trained."""
    if prepare is None:
        return None
    return lambda node, x: None if node.attributes.get(TRAINED) else prepare(node, x)


def _by_attributes(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function so that it takes a node's attributes as keywords."""
    fields = OPTIONS.get(name, ()) or CUSTOM_OPTIONS.get(name, ())
    types = _DESCRIBED | {field.name: field.type for field in fields}
    types |= {"groups": int, "output_count": int}

    def call(*operands: Tensor | None, output_count: int, **attributes: Any) -> Any:
        with np.errstate(all="ignore"):  # of quotients of a file's scales
            described = Call.of(attributes, len(operands), output_count)
            is_scaled = any(info is not None and info.is_quantized for info in described.infos)
            if attributes.get(TRAINED) and is_scaled:
                training = importlib.import_module("dmlax.litert.operators.training")
                return training.compute(name, function, described, operands)
            return function(described, *operands)

    first, *others = inspect.signature(function).parameters.values()
    assert first.annotation is Call
    keywords = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
        for key, kind in types.items()
    ]
    call.__signature__ = inspect.Signature([*others, *keywords])  # type: ignore[attr-defined]
    return call


def expect_rank(x: Tensor, *ranks: int) -> None:
    """Raises unless a tensor has one of the ranks."""
    if len(x.shape) not in ranks:
        raise ModelError(f"an operand has rank {len(x.shape)}, expected one of {ranks}")

"""A float function becomes a quantized one, by rules."""

from dmlax.quantization.quantize import Quantized, quantize
from dmlax.quantization.rules import Rule

__all__ = ["Quantized", "Rule", "quantize"]

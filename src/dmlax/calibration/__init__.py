"""Scales and zero points from observed values, quantized weights, and a report of errors."""

from dmlax.calibration.calibrate import (
    Quantization,
    QuantizedWeights,
    corrected_bias,
    fold_batch_norm,
    keywords,
    min_max,
    moving_average,
    mse,
    percentile,
    quantization,
    quantize_bias,
    quantize_weights,
)
from dmlax.calibration.observers import Histogram, Range
from dmlax.calibration.report import ErrorReport, LayerError, error_report

__all__ = [
    "ErrorReport",
    "Histogram",
    "LayerError",
    "Quantization",
    "QuantizedWeights",
    "Range",
    "corrected_bias",
    "error_report",
    "fold_batch_norm",
    "keywords",
    "min_max",
    "moving_average",
    "mse",
    "percentile",
    "quantization",
    "quantize_bias",
    "quantize_weights",
]

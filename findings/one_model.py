"""Runs a model in ONNX's text form with ONNX Runtime: the scripts import this."""

import onnx
import onnxruntime


def run(text, feeds, optimize=True):
    """Return the first output."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = onnx.parser.parse_model(text).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]

"""The error of a model that is no model."""


class ModelError(ValueError):
    """An ONNX or `.dmlax` file is malformed: the message names the tensor, node or file."""

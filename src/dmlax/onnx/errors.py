"""The error of a malformed model, and the check that raises it."""


class ModelError(ValueError):
    """An ONNX or `.dmlax` file is malformed: the message names the tensor, node or file."""


def expect(holds: bool, message: str) -> None:
    """Raises `ModelError` unless a rule holds."""
    if not holds:
        raise ModelError(message)

"""Times dmlax against its peers: `python -m benchmarks --help`."""

from benchmarks import amx

amx.refuse_unless_chosen()  # before ONNX Runtime is imported and looks at the processor

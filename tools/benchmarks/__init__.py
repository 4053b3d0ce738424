"""Times dmlax against its peers: `python -m tools.benchmarks --help`."""

from tools.benchmarks import amx

amx.refuse_unless_chosen()  # before ONNX Runtime is imported and looks at the processor

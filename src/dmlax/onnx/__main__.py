"""Lists a model's operators, compares it with ONNX Runtime, and times both."""

import sys

from dmlax.onnx.command import main

if __name__ == "__main__":
    sys.exit(main())

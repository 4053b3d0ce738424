"""Lets `python -m dmlax_conformance` stand in for the script."""

import sys

from .cli import main

sys.exit(main())

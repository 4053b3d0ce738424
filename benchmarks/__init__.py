"""Times dmlax against its peers: `python -m benchmarks --help`."""

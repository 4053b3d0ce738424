"""ONNX files of known networks, for the tests and the benchmarks."""

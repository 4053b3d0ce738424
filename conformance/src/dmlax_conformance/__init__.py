"""Conformance vectors, oracle and runner for DirectML operators."""

__version__ = "0.1.0"

"""Operators that only whole models call, a folder each."""

"""Vectors for programs that run elsewhere, and judging what they wrote."""

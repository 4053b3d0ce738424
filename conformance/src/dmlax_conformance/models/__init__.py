"""Whole models: small quantized graphs with the right value of every tensor."""

"""QUANTIZED_LOOKUP, a function that DirectML lacks."""

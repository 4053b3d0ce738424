"""Quantized convolution with an addend, which DirectML lacks."""

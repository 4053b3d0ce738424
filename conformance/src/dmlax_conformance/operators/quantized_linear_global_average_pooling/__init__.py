"""Quantized global average pooling, which DirectML lacks."""

"""MAX_POOLING, of 8-bit elements."""

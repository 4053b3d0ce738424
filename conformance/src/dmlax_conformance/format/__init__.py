"""The published format: vectors, tensors, descs and the files that hold them."""

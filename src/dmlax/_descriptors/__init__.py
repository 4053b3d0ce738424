"""The grammar of DirectML's descriptors: fields, tensors, rules and support tables."""

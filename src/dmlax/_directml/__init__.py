"""DirectML's contract, as operators describe theirs: fields, tensors, rules, support tables."""

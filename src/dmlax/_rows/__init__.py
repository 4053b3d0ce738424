"""Float operators of rows: layer and root-mean-square normalization, and softmax."""

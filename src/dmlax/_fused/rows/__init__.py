"""Float operators of rows: layer and root-mean-square normalization, softmax, averages."""

#!/usr/bin/env bash
# JAX (XLA) | 0.10.2 (0.12.0.1 too), CPU | mean | The mean of an image depends on how many images are in the batch: XLA
# orders a float32 sum by the shape of the whole array. | The same bits for the same image.
. "$(dirname "$0")/environment.sh"
install jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
python - <<'PY'
import jax
import numpy as np

mean = jax.jit(lambda x: x.mean((2, 3)))
x = np.random.default_rng(0).normal(size=(16, 64, 4, 4)).astype(np.float32)
single = np.concatenate([np.asarray(mean(image[None])) for image in x])
differ = int((np.asarray(mean(x)) != single).sum())
print(f"{differ} of {single.size} means differ between a batch of 16 and 16 batches of 1")
assert differ > 0
PY

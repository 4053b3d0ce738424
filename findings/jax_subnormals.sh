#!/usr/bin/env bash
# JAX (XLA) | 0.10.2 (0.12.0.1 too), CPU | x != 0, nonzero | False for a float32 subnormal, so `jnp.nonzero` drops it.
# | True, as in NumPy.
. "$(dirname "$0")/environment.sh"
install jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
python - <<'PY'
import jax.numpy as jnp
import numpy as np

x = np.float32([1e-40, 0, 1])
(ours,), (theirs,) = jnp.nonzero(jnp.asarray(x)), np.nonzero(x)
print(f"jnp.nonzero {ours.tolist()}, np.nonzero {theirs.tolist()}")
assert (ours.tolist(), theirs.tolist()) == ([2], [0, 2])
PY

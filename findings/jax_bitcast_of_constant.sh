#!/usr/bin/env bash
# JAX (XLA) | 0.10.2 (0.12.0.1 too), CPU | bitcast_convert_type | Inside `jit` the bitcast of a constant that lies
# transposed in memory has its elements in a wrong order: XLA folds it in the order of the bytes. | The order of the
# elements, which an argument has.
. "$(dirname "$0")/environment.sh"
install jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
python - <<'PY'
import jax
import jax.numpy as jnp
import numpy as np

x = np.arange(120, dtype=np.float32).reshape(5, 3, 2, 4)
transpose = jax.jit(jnp.transpose)
cast = jax.jit(lambda x: jax.lax.bitcast_convert_type(x, jnp.uint32))
found = np.asarray(jax.jit(lambda: cast(transpose(x.T) + np.float32(0)))())
differ = int((found != x.view(np.uint32)).sum())
print(f"{differ} of {x.size} elements are at another place")
assert (np.asarray(cast(x)) == x.view(np.uint32)).all()
assert differ > 100
PY

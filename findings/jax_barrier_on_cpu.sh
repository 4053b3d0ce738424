#!/usr/bin/env bash
# JAX (XLA) | 0.10.2, CPU | optimization_barrier | A barrier between a product and a sum does not keep XLA from
# contracting them to a fused multiply-add: XLA drops it before it makes code. | Two roundings.
. "$(dirname "$0")/environment.sh"
install jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
python - <<'PY'
import jax
import numpy as np

a, b, c = np.random.default_rng(0).normal(size=(3, 1 << 20)).astype(np.float32)
found = jax.jit(lambda a, b, c: jax.lax.optimization_barrier(a * b) + c)(a, b, c)
differ = int((np.asarray(found) != a * b + c).sum())
print(f"{differ:,} of {a.size:,} sums behind a barrier differ from two roundings")
assert differ > a.size // 10
PY

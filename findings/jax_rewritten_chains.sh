#!/usr/bin/env bash
# JAX (XLA) | 0.10.2, CPU | (x * k) * t, (x + k) + t | `jit` joins the constants, so a float32 result is rounded once.
# | Two roundings, as IEEE arithmetic demands.
. "$(dirname "$0")/environment.sh"
install jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
python - <<'PY'
import jax
import numpy as np

x = np.random.default_rng(0).normal(size=1 << 17).astype(np.float32)
k, t = np.float32(0.1), np.float32(0.7)
for name, function in (("(x * k) * t", lambda x: (x * k) * t), ("(x + k) + t", lambda x: (x + k) + t)):
    differ = int((np.asarray(jax.jit(function)(x)) != function(x)).sum())
    print(f"{name}: {differ:,} of {x.size:,} differ from NumPy")
    assert differ > x.size // 20
PY

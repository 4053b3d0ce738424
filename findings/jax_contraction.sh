#!/usr/bin/env bash
# JAX 0.10.2 on a CPU (0.12.0.1 too): `jit` contracts `a * b + c` in float32 to a fused multiply-add. A quarter of
# random results differ from the two roundings that the same expression has outside of `jit`.
. "$(dirname "$0")/environment.sh"
install jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
python - <<'PY'
import jax
import numpy as np


def f(a, b, c):
    return a * b + c


a, b, c = map(jax.numpy.asarray, np.random.default_rng(0).normal(size=(3, 1 << 20)).astype("f4"))
differ = int((jax.jit(f)(a, b, c) != f(a, b, c)).sum())
print(f"{differ:,} of {a.size:,} elements differ between jit and eager")
assert differ > a.size // 10
PY

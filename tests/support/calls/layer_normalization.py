"""Random layer normalizations of bytes, beside float64.

    PYTHONPATH=src:tests python3 -m support.calls.layer_normalization 0 60

computes those of these seeds on the device, and prints how many elements there were.
"""

import sys
from collections import Counter
from collections.abc import Iterator

import jax
import numpy as np

from dmlax.onnx.operators import fused
from dmlax.onnx.operators.table import flatten
from support import draw

_COUNTS = (4, 16, 64, 100, 128, 132, 192, 768, 1024, 2052, 4096)
_NEAR = 1e-3  # sums of another order round to either side so near a tie


def wrong_elements(seed: int, arithmetic: str, elements: Counter[str]) -> Iterator[str]:
    """A line where an element is not the nearest integer to float64's quotient, far from ties."""
    rng = np.random.default_rng(seed)
    dtype, y_dtype = (np.dtype(str(rng.choice(["uint8", "int8"]))) for _ in range(2))
    count = int(rng.choice(_COUNTS))
    x = draw(rng, dtype, (3, int(rng.integers(1, 40)), count))
    x[0, 0] = x[0, 0, 0]  # a row of no variance
    x[1, 0], x[1, 0, -1] = np.iinfo(dtype).min, np.iinfo(dtype).max
    scale = rng.normal(1, 0.3, count).astype(np.float32)
    bias = rng.normal(0, 0.3, count).astype(np.float32) if rng.random() < 0.8 else None
    x_scale = np.float32(rng.choice([-0.5, 0.003, 0.02, 40]))
    x_zero, y_zero = draw(rng, dtype, ()), draw(rng, y_dtype, ())
    y_scale = np.float32(rng.uniform(0.01, 0.1))
    epsilon = float(np.float32(rng.choice([1e-6, 1e-5, 1e-3])))

    @jax.jit
    def normalize(x: jax.Array, scale: jax.Array, bias: jax.Array | None) -> jax.Array:
        given = x, x_scale, x_zero, scale, bias, y_scale, y_zero
        compute = flatten(fused.normalize)
        return compute(*given, epsilon=epsilon, arithmetic=arithmetic)

    real = float(x_scale) * (x.astype(np.float64) - int(x_zero))
    centred = real - real.mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    y = centred / deviation * scale + (0 if bias is None else bias)
    quotient = y / float(y_scale)
    limits = np.iinfo(y_dtype)
    wanted = np.clip(np.rint(quotient) + int(y_zero), limits.min, limits.max)
    is_far = abs(abs(quotient - np.rint(quotient)) - 0.5) > _NEAR * (1 + abs(quotient) / 256)
    found = np.asarray(normalize(x, scale, bias))
    elements["far from ties"] += int(is_far.sum())
    elements["all"] += found.size
    wrong = (found != wanted) & is_far
    if found.dtype != y_dtype or wrong.any():
        yield f"seed {seed}: {wrong.sum()} of {found.size} elements of rows of {count}"


def main() -> None:
    """The program."""
    elements: Counter[str] = Counter()
    lines = [
        line
        for seed in range(*map(int, sys.argv[1:]))
        for line in wrong_elements(seed, "float32", elements)
    ]
    print("\n".join(lines))
    print(f"{jax.devices()[0]}: {dict(elements)}, {len(lines)} calls are wrong")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()

"""The logistic function and tanh on the device: ONNX Runtime's rational functions.

MLAS divides an odd polynomial by an even one, both by fused multiply-adds. XLA contracts the plain
sums and products to the same operations where the processor has them.
"""

import jax.numpy as jnp
from jax import Array

# The coefficients of numerator and denominator, the highest power's first.
LOGISTIC = (
    (
        4.37031012579801e-11,
        1.15627324459942e-07,
        6.08574864600143e-05,
        8.51377133304701e-03,
        2.48287947061529e-01,
    ),
    (
        6.10247389755681e-13,
        5.76102136993427e-09,
        6.29106785017040e-06,
        1.70198817374094e-03,
        1.16817656904453e-01,
        9.93151921023180e-01,
    ),
)
_TANH = (
    (
        -2.76076847742355e-16,
        2.00018790482477e-13,
        -8.60467152213735e-11,
        5.12229709037114e-08,
        1.48572235717979e-05,
        6.37261928875436e-04,
        4.89352455891786e-03,
    ),
    (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03),
)


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)) of float32."""
    return jnp.clip(_quotient(LOGISTIC, jnp.clip(x, -18, 18)) + 0.5, 0, 1)


def tanh(x: Array) -> Array:
    """The hyperbolic tangent of float32."""
    return _quotient(_TANH, jnp.clip(x, -9, 9))


def _quotient(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: Array) -> Array:
    numerator, denominator = (_polynomial(powers, x * x) for powers in coefficients)
    return numerator * x / denominator


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value

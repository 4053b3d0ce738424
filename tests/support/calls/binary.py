"""Random sums and products for the kernels, and what they should give by the suite's oracle."""

import functools
from dataclasses import dataclass

import jax
import numpy as np

import dmlax
from support import draw, oracle, random_calls, wild_floats

OPERATORS = ("element_wise_quantized_linear_add", "element_wise_quantized_linear_multiply")
TENSORS = ("a", "b", "output")
SHAPES = [
    ((300,), (300,)),
    ((5, 70), (5, 70)),
    ((5, 70), (70,)),
    ((4, 1, 1), (4, 9, 11)),
    ((2, 5, 33), (2, 5, 1)),
    ((2, 1, 3), (1, 40, 1)),
    ((1,), (300,)),
    ((), (6,)),
    ((64,), ()),
    ((0, 3), (3,)),
]


@dataclass(frozen=True)
class Call:
    """One call."""

    operator: str
    x: np.ndarray
    b: np.ndarray
    scales: tuple[np.ndarray, ...]
    zero_points: tuple[np.ndarray | None, ...]
    output_dtype: np.dtype

    def __call__(self, implementation: str) -> jax.Array:
        """Outputs by dmlax."""
        options: dict[str, np.ndarray | None] = {
            f"{name}_scale": value for name, value in zip(TENSORS, self.scales, strict=True)
        }
        options |= {
            f"{name}_zero_point": value
            for name, value in zip(TENSORS, self.zero_points, strict=True)
        }
        result: jax.Array = getattr(dmlax, self.operator)(
            self.x,
            self.b,
            output_dtype=self.output_dtype,
            implementation=implementation,
            **options,
        )
        return result

    def expected(self) -> np.ndarray:
        """Outputs by rational arithmetic."""
        inputs: dict[str, np.ndarray | None] = {"ATensor": self.x, "BTensor": self.b}
        for name, scale, zero in zip(TENSORS, self.scales, self.zero_points, strict=True):
            inputs[f"{name.title()}ScaleTensor"] = scale
            inputs[f"{name.title()}ZeroPointTensor"] = zero
        shape = np.broadcast_shapes(self.x.shape, self.b.shape)
        asked = {"OutputTensor": (self.output_dtype, shape)}
        return oracle(self.operator, inputs, asked)["OutputTensor"]


def call(seed: int) -> Call:
    """A random call of a few hundred elements, of any dtypes and broadcasting."""
    rng = np.random.default_rng(seed)
    a, b = SHAPES[int(rng.integers(len(SHAPES)))]
    if rng.random() < 0.5:
        a, b = b, a
    dtypes = [np.dtype(rng.choice(["int8", "uint8"])) for _ in TENSORS]
    zero_points = tuple(
        draw(seed + 10 + i, dtype) if rng.random() < 0.7 else None for i, dtype in enumerate(dtypes)
    )
    return Call(
        OPERATORS[seed % 2],
        draw(seed, dtypes[0], a),
        draw(seed + 1, dtypes[1], b),
        tuple(_scales(rng, seed + 2)),
        zero_points,
        dtypes[2],
    )


def _scales(rng: np.random.Generator, seed: int) -> list[np.ndarray]:
    """Ordinary ones, ties, and finite ones of any exponent, far apart or near each other."""
    kind, signs = int(rng.integers(5)), rng.choice([1, 1, -1], 3)
    if kind == 0:
        values: np.ndarray = rng.uniform(0.001, 3, 3)
    elif kind == 1:
        values = np.ldexp(1.0, rng.integers(-6, 6, 3))
    elif kind == 2:
        values = rng.integers(1, 40, 3) * 0.05
    elif kind == 3:
        values = np.ldexp(rng.uniform(1, 2, 3), [0, int(rng.integers(-140, 0)), 0])
        values[:: int(rng.integers(1, 3))] = 1  # ties of one term, which the other decides
    else:
        values = np.abs(wild_floats(seed, 3))
    return [np.asarray(value, np.float32) for value in values * signs]


mismatches = functools.partial(random_calls.find_mismatches, call)

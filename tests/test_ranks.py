"""DirectML's tensors have at most 8 dimensions; an axis that `vmap` adds does not count."""

import inspect

import jax
import numpy as np
import pytest

from dmlax._operators.registry import OPERATORS
from support.wrong_calls import VALID, call

PARAMETERS = {row.name: [*inspect.signature(row.function).parameters] for row in OPERATORS}
OF_IMAGES = {name for name, parameters in PARAMETERS.items() if "dimension_numbers" in parameters}


@pytest.mark.parametrize("operator", sorted(PARAMETERS.keys() - OF_IMAGES))
def test_a_mapped_axis_does_not_count(operator):
    first = PARAMETERS[operator][0]
    x = np.asarray(VALID[operator][first])
    one = np.arange(x.size).astype(x.dtype).reshape(*[1] * (8 - x.ndim), *x.shape)
    batch = np.stack([one, one[..., ::-1]])
    found = jax.jit(jax.vmap(lambda x: call(operator, {first: x})))(batch)
    for index in range(2):
        single = call(operator, {first: batch[index]})
        jax.tree.map(
            lambda x, y, index=index: np.testing.assert_array_equal(x[index], y), found, single
        )

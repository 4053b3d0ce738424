"""The operators by their laws' table under all of JAX's strict modes at once."""

import contextlib
import functools
import gc

import jax
import numpy as np
import pytest

from support import assert_same
from support.laws import LAWS, by_operator, is_variation

STRICT = {
    "rank promotion": lambda: jax.numpy_rank_promotion("raise"),
    "dtype promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "transfer guard": lambda: jax.transfer_guard("disallow"),
    "NaN": lambda: jax.debug_nans(True),
    "infinities": lambda: jax.debug_infs(True),
    "checks": lambda: jax.enable_checks(True),
    "leaks": lambda: jax.check_tracer_leaks(True),
}


def is_slow(index, law, implementation):
    """XLA's lowering is checked for every other operator, what `auto` chooses for each."""
    return is_variation(law) or (implementation == "xla" and index % 2 > 0)


every_operator = pytest.mark.parametrize("law", by_operator(LAWS), ids=str)


@contextlib.contextmanager
def strict():
    """Turns all of them on; leaks are looked for in what is made from here on, which is quick."""
    gc.freeze()
    with contextlib.ExitStack() as modes:
        modes.callback(gc.unfreeze)
        for mode in STRICT.values():
            modes.enter_context(mode())
        yield


def test_a_tracer_that_leaks_is_found():
    leaked = []
    with strict(), pytest.raises(Exception, match="Leaked"):
        jax.jit(leaked.append)(np.float32(1))


@pytest.mark.parametrize(
    ("law", "implementation"),
    [
        pytest.param(law, name, marks=pytest.mark.slow if is_slow(i, law, name) else ())
        for i, law in enumerate(LAWS)
        for name in ("auto", "xla")
    ],
    ids=str,
)
def test_every_lowering_runs_in_all_strict_modes(law, implementation):
    operands = jax.device_put(law.operands)
    call = jax.jit(functools.partial(law.function, implementation=implementation))
    with strict():
        found = call(*operands)
    expected = law.function(*law.operands)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(lambda x, y: assert_same(x, np.asarray(y)), found, expected)


@every_operator
def test_xla_lowers_for_other_platforms_in_all_strict_modes(law):
    operands = jax.device_put(law.operands)
    call = jax.jit(functools.partial(law.function, implementation="xla"))
    with strict():
        call.trace(*operands).lower(lowering_platforms=("cuda",))
        call.trace(*operands).lower(lowering_platforms=("tpu",))


@every_operator
def test_the_definition_is_traced_in_all_strict_modes(law):
    """Traced only, since it is slow."""
    operands = jax.device_put(law.operands)
    with strict():
        jax.eval_shape(functools.partial(law.function, implementation="reference"), *operands)

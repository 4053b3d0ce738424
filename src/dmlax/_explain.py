"""explain: the implementation that a call would run on each platform."""

from collections.abc import Callable
from typing import Any

from dmlax._core import dispatch
from dmlax._core.arguments import Rules
from dmlax._operators import OPERATORS


def explain(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> dispatch.Explanation:
    """Explains which implementation of an operator would run where, and why the others would not.

    Nothing is computed. The call is checked, not run.

    Args:
      function: a function of dmlax that takes `implementation`.
      *args: its arguments.
      **kwargs: its options.

    Returns:
      An `Explanation`; print it, or read its `choices` and `notes`.

    Raises:
      SpecError: the call breaks a rule; or `function` is no operator of dmlax (code `option`).
      UnsupportedError: the named implementation does not exist for this operator.

    Example:
      >>> import dmlax, jax.numpy as jnp
      >>> found = dmlax.explain(dmlax.nonzero_coordinates, jnp.zeros((2, 3)))
      >>> print(found.choices[-1])
      tpu: xla
        not native_cpu: it runs on cpu only
        not mosaic_gpu: it is for NVIDIA GPUs of compute capability 9.0
        not reference: slow; it runs only when named
    """
    known = any(function is row.function for row in OPERATORS)
    Rules("explain").expect(known, "option", "function", "is not an operator of dmlax")
    asked = dispatch.Explain(kwargs.pop("implementation", "auto"))
    result = function(*args, implementation=asked, **kwargs)
    assert isinstance(result, dispatch.Explanation)
    return result

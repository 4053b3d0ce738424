"""Model: a LiteRT model as a pure function, of any batch, with its variables as a state."""

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from dmlax.errors import SpecError, UnsupportedError
from dmlax.litert.read import NEXT, State
from dmlax.onnx.compiled import CompiledModel
from dmlax.onnx.evaluate import Options
from dmlax.onnx.graph import Graph
from dmlax.onnx.model import Inputs, Structs, by_name, one_form
from dmlax.onnx.model import Model as OnnxModel
from dmlax.onnx.weights import Param

Tensors = dict[str, Array]


def _unpickle(data: bytes, operators: Mapping[str, Callable[..., Any]]) -> OnnxModel:
    model: OnnxModel = importlib.import_module("dmlax.litert").load(data, operators=operators)
    return model


class Model(OnnxModel):
    """A LiteRT model, which `dmlax.litert.load` makes.

    Call it as a function, or give `apply` to `jax.jit`, `jax.vmap` and `jax.export`. Inputs may
    have several times the batch of the file. A model with variables has a state, which `step` takes
    and returns.
    """

    __module__ = "dmlax.litert"
    _unpickle = staticmethod(_unpickle)

    def __init__(self, graph: Graph, options: Options, states: Mapping[str, State]) -> None:
        self._states = {name: x for name, x in states.items() if name in graph.inputs}
        super().__init__(graph, options)
        self._needed = self._needed.difference(self._states)
        self._compiled_step = CompiledModel(self._apply_step, self.params)

    def init_state(self, batch: int = 1) -> Tensors:  # type: ignore[override]
        """Makes the first values of the file's variables.

        Args:
          batch: how many times the file's batch the inputs of `step` have.

        Returns:
          Arrays by name: a pytree, which scans, maps, shards and saves as any other.
        """
        first = {name: jnp.asarray(x.first) for name, x in self._states.items()}
        return first if batch == 1 else jax.tree.map(functools.partial(_repeated, batch), first)

    @property
    def inputs(self) -> Structs:
        """The shapes and the dtypes of the inputs."""
        return {name: x for name, x in super().inputs.items() if name not in self._states}

    def step(  # type: ignore[override]
        self,
        state: Mapping[str, ArrayLike],
        *inputs: ArrayLike | Mapping[str, ArrayLike],
        **keywords: ArrayLike,
    ) -> tuple[Tensors, Tensors]:
        """Computes the outputs, and the values of the variables after them, jitted.

        Args:
          state: of `init_state` or an earlier step.
          *inputs: arrays in the file's order, or one dict of them by name.
          **keywords: the inputs by name, instead of a dict.

        Returns:
          The outputs by name, and the next state.

        Raises:
          SpecError: as `__call__`; or a variable is missing or unknown (field `state`).
        """
        named = self._with_state(state, one_form(inputs, keywords))
        return self._split(self._compiled_step(self.params, named))

    def apply_step(  # type: ignore[override]
        self, params: Mapping[str, Param], state: Mapping[str, ArrayLike], inputs: Inputs, /
    ) -> tuple[Tensors, Tensors]:
        """Computes a step as a pure function.

        Args:
          params: as `model.params`.
          state: of `init_state` or an earlier step.
          inputs: an array, a tuple of them in the file's order, or a dict by name.

        Returns:
          The outputs by name, and the next state.

        Raises:
          SpecError: as `step`.
        """
        return self._split(self._apply_to_parts(params, self._with_state(state, inputs), None))

    def _with_state(self, state: Mapping[str, ArrayLike], inputs: object) -> dict[str, Any]:
        """The inputs and the variables by name."""
        for name in {**self._states, **state}:
            if name not in state or name not in self._states:
                text = "is missing" if name not in state else "is no variable of the model"
                raise SpecError(f"Model: state {name} {text}", "option", "state")
        return {**self._named(inputs), **state}

    def _split(self, outputs: Tensors) -> tuple[Tensors, Tensors]:
        """The outputs in the file's order, and the next state."""
        following = {name: outputs[name + NEXT] for name in self._states}
        return {x: outputs[x] for x in self._file.outputs if not self._is_next(x)}, following

    def prefill(self, *_: Any, **__: Any) -> Any:
        """Refuses: a LiteRT model has variables, and no caches of tokens."""
        raise UnsupportedError("Model: it has no caches: call step", "option", "model")

    def apply(
        self,
        params: Mapping[str, Param],
        inputs: Inputs,
        /,
        *,
        outputs: Sequence[str] | None = None,
    ) -> Tensors:
        """Computes outputs, as a pure function; variables have their first values.

        Args:
          params: as `model.params`.
          inputs: an array, a tuple of them in the file's order, or a dict by name. Their first
            sizes may be several times the file's: the model is mapped over the parts.
          outputs: the names of any tensors of the file; default its outputs.

        Returns:
          The tensors by name.

        Raises:
          SpecError: as `__call__`; or no tensor has a name (code `option`).
        """
        result = self._apply_to_parts(params, inputs, outputs)
        return {name: x for name, x in result.items() if outputs or not self._is_next(name)}

    def _apply_step(self, params: Mapping[str, Param], inputs: Inputs, /) -> Tensors:
        return self._apply_to_parts(params, inputs, None)

    def _is_next(self, name: str) -> bool:
        return name.endswith(NEXT) and name.removesuffix(NEXT) in self._states

    def _named(self, inputs: object) -> dict[str, Any]:
        """The inputs by name, which may include variables."""
        if isinstance(inputs, Mapping):
            return dict(inputs)
        names = tuple(name for name in self._file.inputs if name not in self._states)
        return by_name(names, inputs)

    def _name(self, inputs: object) -> dict[str, Any]:
        """The inputs and the variables as arrays by name; absent variables have first values."""
        first = {name: x.first for name, x in self._states.items()}
        return super()._name({**first, **self._named(inputs)})

    def _bind(self, inputs: object) -> dict[str, Array]:
        """The inputs, whose shapes are checked here unless they have another batch."""
        named = self._name(inputs)
        return named if self._parts(named) > 1 else super()._bind(named)

    def _parts(self, named: Mapping[str, Any]) -> int:
        """The number of times that the inputs have the file's batch; 1 if they do not fit."""
        counts = set()
        for name, wanted in self._inputs.items():
            shape, sizes = np.shape(named[name]), wanted.shape
            of_state = name in self._states and shape == sizes
            if of_state or not sizes:
                continue
            if len(shape) != len(sizes) or shape[1:] != sizes[1:] or not isinstance(sizes[0], int):
                return 1
            if not isinstance(shape[0], int) or sizes[0] == 0 or shape[0] % sizes[0]:
                return 1
            counts.add(shape[0] // sizes[0])
        return counts.pop() if len(counts) == 1 else 1

    def _apply_to_parts(
        self, params: Mapping[str, Param], inputs: Inputs, outputs: Sequence[str] | None
    ) -> Tensors:
        """Computes tensors, of each part of a greater batch under `jax.vmap`."""
        named = self._name(inputs)
        count = self._parts(named)
        if count in (0, 1):
            return super().apply(params, named, outputs=outputs)
        axes, parts = {}, {}
        for name, wanted in self._inputs.items():
            whole = jnp.asarray(named[name])
            is_split = whole.ndim > 0 and whole.shape != wanted.shape
            axes[name] = 0 if is_split else None
            parts[name] = whole.reshape(count, *wanted.shape) if is_split else whole

        def compute(part: Tensors) -> Tensors:
            return OnnxModel.apply(self, params, part, outputs=outputs)

        result: Tensors = jax.vmap(compute, in_axes=(axes,))(parts)
        return {name: _joined(x) for name, x in result.items()}

    def _source(self) -> Graph:
        """The graph, whose variables are constants that a call may replace."""
        graph = super()._source()
        defaults = {name: x.type for name, x in self._states.items()}
        return graph.replace(
            inputs={name: x for name, x in graph.inputs.items() if name not in defaults},
            constants={**graph.constants, **{name: x.first for name, x in self._states.items()}},
            defaults=defaults,
        )


def _repeated(batch: int, x: Array) -> Array:
    """Copies of an array one after the other along the first axis."""
    return jnp.concatenate([x] * batch) if x.ndim else x


def _joined(x: Array) -> Array:
    """Parts one after the other along the first axis."""
    return x.reshape(-1, *x.shape[2:]) if x.ndim > 1 else x

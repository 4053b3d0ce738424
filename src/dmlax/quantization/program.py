"""A function as equations on numbered values, with those of constants computed."""

import math
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dmlax._core import compat, ieee
from dmlax._core.arguments import is_static

LAYERS = ("conv_general_dilated", "dot_general")
_BIJECTIONS = ("transpose", "reshape", "squeeze", "broadcast_in_dim")
_OF_CHANNELS = ("add", "sub", "mul", "div", "max", "min")


class Equation(NamedTuple):
    """An equation; its operands and results are numbers of values. It pickles with its name."""

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    params: dict[str, Any]
    bind: Callable[..., Any]
    line: str

    def __reduce__(self) -> tuple[Any, ...]:
        known = compat.primitives().get(self.name)
        if known is None or known.bind != self.bind or within(self.params):
            text = f"{self.name} at {self.line} does not pickle: save the function by dmlax.export"
            raise pickle.PicklingError(text)
        return _unpickled, tuple(self._replace(bind=_unpickled))


def _unpickled(*fields: Any) -> Equation:
    equation = Equation(*fields)
    return equation._replace(bind=compat.primitives()[equation.name].bind)


@dataclass(eq=False)
class Program:
    """A function's equations, calls inlined.

    Attributes:
      shapes: of every value.
      paths: the parameters that a constant depends on.
      constants: the values that do not depend on the inputs.
      parameters: the constants that are the leaves of the parameters.
      preamble: the equations of constants, whose results are constants.
      is_blank: if constants that depend on parameters, or whose sizes are symbolic, are None.
    """

    equations: list[Equation] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    dtypes: list[Any] = field(default_factory=list)
    paths: dict[int, tuple[str, ...]] = field(default_factory=dict)
    constants: dict[int, Any] = field(default_factory=dict)
    parameters: list[int] = field(default_factory=list)
    preamble: list[Equation] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    is_blank: bool = False

    def new(self, aval: Any) -> int:
        """The number of a new value."""
        self.shapes.append(tuple(aval.shape))
        self.dtypes.append(aval.dtype)
        return len(self.shapes) - 1

    def constant(self, value: Any, paths: tuple[str, ...] = ()) -> int:
        """The number of a new constant."""
        number = self.new(jax.typeof(value))
        self.constants[number], self.paths[number] = value, paths
        return number

    def inline(
        self, closed: Any, operands: Sequence[int], line: str = "an unknown line"
    ) -> list[int]:
        """Adds the equations of a program, and returns the numbers of its results.

        `line` is that of its call: JAX keeps the program of a jitted function, without lines.
        """
        jaxpr = closed.jaxpr
        env = dict(zip(jaxpr.invars, operands, strict=True))
        env |= {
            var: self.constant(x) for var, x in zip(jaxpr.constvars, closed.consts, strict=True)
        }

        def read(atom: Any) -> int:
            return (
                self.constant(np.asarray(atom.val, atom.aval.dtype))
                if hasattr(atom, "val")
                else env[atom]
            )

        for equation in jaxpr.eqns:
            inputs = tuple(map(read, equation.invars))
            called, here = compat.called(equation), compat.user_position(equation) or line
            if called is not None:
                results: Sequence[int] = self.inline(called, inputs, here)
            else:
                results = self._add(equation, inputs, here)
            env |= zip(equation.outvars, results, strict=True)
        return list(map(read, jaxpr.outvars))

    def _add(self, equation: Any, inputs: tuple[int, ...], line: str) -> Sequence[int]:
        bind, name = equation.primitive.bind, equation.primitive.name
        if not equation.effects and all(x in self.constants for x in inputs):
            paths = tuple(dict.fromkeys(path for x in inputs for path in self.paths[x]))
            if self.is_blank and (
                paths or not all(is_static(x.aval.shape) for x in equation.outvars)
            ):
                results = tuple(self.new(var.aval) for var in equation.outvars)
                self.constants |= dict.fromkeys(results)
                self.paths |= dict.fromkeys(results, paths)
            else:
                values = bind(*(self.constants[x] for x in inputs), **equation.params)
                values = values if equation.primitive.multiple_results else [values]
                results = tuple(self.constant(value, paths) for value in values)
            self.preamble.append(Equation(name, inputs, results, dict(equation.params), bind, ""))
            return results
        results = tuple(self.new(var.aval) for var in equation.outvars)
        self.equations.append(Equation(name, inputs, results, dict(equation.params), bind, line))
        return results

    def first(self, number: int) -> Any:
        """The first element of a constant that does not depend on parameters."""
        while self.constants[number] is None:
            (number, *_), *_ = (e.operands for e in self.preamble if number in e.results)
        return np.ravel(self.constants[number])[0]

    def varying(self, number: int) -> set[int]:
        """The axes along which a constant varies, for any parameters."""
        if not self.paths[number] and self.constants[number] is not None:
            array = np.asarray(self.constants[number])
            return {i for i in range(array.ndim) if (array != array.take([0], i)).any()}
        made = next((e for e in self.preamble if number in e.results), None)
        if made is not None and made.name == "broadcast_in_dim":
            places = made.params["broadcast_dimensions"]
            return {places[i] for i in self.varying(made.operands[0])}
        return {i for i, size in enumerate(self.shapes[number]) if size > 1}

    def constants_of(self, fixed: Mapping[int, Any], parameters: Sequence[Any]) -> dict[int, Any]:
        """All constants, from those that do not depend on parameters and from other parameters."""
        values = dict(fixed) | dict(zip(self.parameters, parameters, strict=True))
        for equation in self.preamble:
            if not self.paths[equation.results[0]]:
                continue
            results = run(equation, [values[x] for x in equation.operands])
            values |= zip(equation.results, map(_guarded, results), strict=True)
        return values

    def repeated(self, numbers: set[int]) -> set[int]:
        """The constants that make some of these by repetition, which other inputs need anew."""
        found, wanted = set(), {x for x in numbers if self.paths[x]}
        for equation in reversed(self.preamble):
            if equation.name in (*_BIJECTIONS, "tile") and not wanted.isdisjoint(equation.results):
                source = equation.operands[0]
                wanted.add(source)
                sizes = [math.prod(self.shapes[x]) for x in (source, equation.results[0])]
                found |= {source} if sizes[0] < sizes[1] else set()
        return found

    def repeat(self, constants: Mapping[int, Any]) -> dict[int, Any]:
        """The constants of a program of other inputs, in the shapes of this one."""
        values = {n: x if self.paths[n] else self.constants[n] for n, x in constants.items()}
        values = {
            n: x for n, x in values.items() if x is not None and jnp.shape(x) == self.shapes[n]
        }
        missing = [n for n in constants if n not in values]
        for equation in [*_needed(self.preamble, missing)][::-1]:
            known = all(x in values for x in equation.operands)
            if known and values.keys().isdisjoint(equation.results):
                results = run(equation, [values[x] for x in equation.operands])
                values |= zip(equation.results, results, strict=True)
        return {n: values[n] for n in constants}


def within(params: Any) -> set[str]:
    """The names of the equations of all programs among an equation's parameters."""
    found = set[str]()
    for value in params.values():
        for each in value if isinstance(value, list | tuple) else (value,):
            if (program := compat.closed(each)) is not None:
                for equation in program.jaxpr.eqns:
                    found |= {equation.primitive.name} | within(equation.params)
    return found


def _guarded(value: Any) -> Any:
    """A result as it is when the equation runs alone."""
    return ieee.guard(value) if jnp.issubdtype(value.dtype, jnp.floating) else value


def run(equation: Equation, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of an equation on arrays."""
    results = equation.bind(*operands, **equation.params)
    return (
        [results]
        if len(equation.results) == 1 and not isinstance(results, list | tuple)
        else results
    )


def _needed(equations: Sequence[Equation], outputs: Sequence[int]) -> Iterator[Equation]:
    """The equations that have effects alone or results that are read, from the last."""
    read = {*outputs}
    for equation in reversed(equations):
        if not equation.results or read.intersection(equation.results):
            read.update(equation.operands)
            yield equation


def _lift(program: Program) -> None:
    """Puts sums and products with constants before the moves that part them from a layer.

    Such moves are those of `jnp.moveaxis` after a product, and of a layer that `jax.vmap` maps.
    """
    uses = Counter([*program.outputs, *(x for each in program.equations for x in each.operands)])
    places: dict[int, int] = {}
    for index, equation in enumerate(program.equations):
        while (found := _lifted(program, uses, places, equation)) is not None:
            before, place = found
            move = program.equations[place]
            shape, dtype = program.shapes[move.operands[0]], program.dtypes[equation.results[0]]
            inner = program.new(jax.ShapeDtypeStruct(shape, dtype))
            program.equations[place] = before._replace(results=(inner,))
            program.equations[index] = move._replace(operands=(inner,), results=equation.results)
            uses[inner] = 1
            places |= {inner: place, equation.results[0]: index}
            index, equation = place, program.equations[place]
        places |= dict.fromkeys(equation.results, index)


def _lifted(
    program: Program, uses: Mapping[int, int], places: Mapping[int, int], equation: Equation
) -> tuple[Equation, int] | None:
    """A sum or a product of a moved value and a constant: before the move, and the move's place."""
    made, number = equation, -1
    while made.name in (*_BIJECTIONS, *_OF_CHANNELS):
        loose = [x for x in made.operands if x not in program.constants]
        if len(loose) != 1 or uses[loose[0]] != 1 or loose[0] not in places:
            return None
        number = number if number >= 0 else loose[0]
        made = program.equations[places[loose[0]]]
    place = places.get(number, -1)
    moved = place >= 0 and program.equations[place].name in _BIJECTIONS
    if not moved or made.name not in LAYERS or equation.name not in _OF_CHANNELS:
        return None
    move = program.equations[place]
    (constant,) = (x for x in equation.operands if x != number)
    held, shapes = program.shapes[constant], program.shapes
    if held:
        shape = _shape_before(move, shapes[move.operands[0]], shapes[number], held)
        if shape is None:
            return None

        def back(value: Any) -> Any:
            if move.name == "transpose":
                return value.transpose(np.argsort(move.params["permutation"]))
            return value.reshape(shape)

        traced = jax.make_jaxpr(back)(jax.typeof(program.constants[constant]))
        (constant,) = program.inline(traced, [constant])
    operands = [move.operands[0] if x == number else constant for x in equation.operands]
    return equation._replace(operands=tuple(operands)), place


def _shape_before(
    move: Equation, before: Sequence[int], after: Sequence[int], held: Sequence[int]
) -> list[int] | None:
    """The shape of a constant before a reshape; None where it varies along a part of an axis."""
    if math.prod(before) != math.prod(after) or 0 in before:
        return None
    if move.name == "transpose":
        return []
    found, (i, j) = [], (0, 0)
    while i < len(before) or j < len(after):
        start, sizes = i, ([*before[i : i + 1]], [*after[j : j + 1]], [*held[j : j + 1]])
        i, j = i + 1, j + 1
        while math.prod(sizes[0]) != math.prod(sizes[1]):
            if math.prod(sizes[0]) < math.prod(sizes[1]):
                sizes[0].append(before[i])
                i += 1
            else:
                sizes[1].append(after[j])
                sizes[2].append(held[j])
                j += 1
        if math.prod(sizes[2]) == 1:
            found += [1] * (min(i, len(before)) - start)
        elif sizes[2] == sizes[1]:
            found += sizes[0]
        else:
            return None
    return found


def path_of(keys: Any) -> str:
    """The keys of a leaf of a tree, joined by "/"."""
    return jax.tree_util.keystr(keys, simple=True, separator="/")


def trace(
    function: Callable[..., Any], params: Any, inputs: Sequence[Any], is_blank: bool = False
) -> tuple[Program, Any, list[str]]:
    """The program of function(params, *inputs), the tree of its results, the parameters' paths."""
    try:
        traced, result = jax.make_jaxpr(function, return_shape=True)(params, *inputs)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
        raise compat.untraceable("quantize", "cannot be traced", error) from error
    leaves = jax.tree.leaves_with_path(params)
    paths = [path_of(path) for path, _ in leaves]
    program = Program(is_blank=is_blank)
    numbers = [program.new(aval) for aval in traced.in_avals[: len(leaves)]]
    program.constants = dict(zip(numbers, (x for _, x in leaves), strict=True))
    program.paths = {number: (path,) for number, path in zip(numbers, paths, strict=True)}
    program.parameters = numbers
    program.inputs = [program.new(x) for x in traced.in_avals[len(numbers) :]]
    with jax.ensure_compile_time_eval():  # also where a call is traced
        program.outputs = program.inline(traced, [*numbers, *program.inputs])
    program.equations = [*_needed(program.equations, program.outputs)][::-1]
    _lift(program)
    return program, jax.tree.structure(result), paths

"""Rewrites a JAX function so that its floats have one answer, on every backend and for every batch.

The function is traced, and its operations are run one by one. Moves and integers stay as they are.
An operation on floats is replaced by its fixed form: `float_functions.py` for functions, the order
*in rows* of `sums.py` for sums and products. One that has none raises `UnsupportedError`, so that
no operation of a platform remains unseen.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from dmlax._core import compat, float_bits, float_functions, ieee, ordered_products, sums
from dmlax._core.arguments import is_static
from dmlax._core.float_pairs import flush
from dmlax._core.moves import MOVES
from dmlax.errors import UnsupportedError

_Outputs = Sequence[Any]
_FLOAT32 = np.dtype(np.float32)
_DONE = "dmlax_exact"  # the name of a program that has its fixed form

_MOVES = MOVES.union(
    ("abs", "and", "bitcast_convert_type", "concatenate", "copy_p", "device_put", "dmlax_label"),
    ("dmlax_hide_constant", "dmlax_opaque", "dmlax_refuse", "dmlax_wide", "dmlax_with_nan"),
    ("dynamic_update_slice", "empty", "empty2", "full_like", "iota", "is_finite", "neg", "pad"),
    ("optimization_barrier", "pcast", "pvary", "reduce_precision", "scatter", "select_n"),
    ("sharding_constraint", "split", "stack", "unstack"),
)
_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": ieee.add,
    "add_any": ieee.add,
    "atan": float_functions.atan,
    "cos": float_functions.cos,
    "div": ieee.divide,
    "erf": float_functions.erf,
    "exp": float_functions.exp,
    "exp2": float_functions.exp2,
    "expm1": float_functions.expm1,
    "log": float_functions.log,
    "log1p": float_functions.log1p,
    "logistic": float_functions.sigmoid,
    "mul": ieee.multiply,
    "pow": float_functions.pow,
    "rsqrt": float_functions.rsqrt,
    "sin": float_functions.sin,
    "sqrt": float_functions.sqrt,
    "sub": ieee.subtract,
    "tanh": float_functions.tanh,
}
_WIDE = {"add", "add_any", "div", "mul", "sqrt", "sub"}  # IEEE's, so of float64, too
_COMPARISONS = {"eq", "ge", "gt", "le", "lt", "ne"}
_ROUNDINGS = {"ceil", "floor", "round", "sign"}
_LARGEST = {"max", "reduce_max", "cummax", "reduce_window_max"}
_SMALLEST = {  # the largest of negative numbers
    "min": lax.max_p,
    "reduce_min": lax.reduce_max_p,
    "cummin": lax.cummax_p,
    "reduce_window_min": lax.reduce_window_max_p,
}
_SLICES, _GATHERS = ("dynamic_slice", "slice"), ("gather",)  # XLA computes their operand again
_LONGEST_CHAIN = 4  # of sums and products
_SHORT = {ieee.add, ieee.divide, ieee.multiply, ieee.subtract, float_functions.sqrt}


def apply(function: Callable[..., Array], *operands: Array) -> Array:
    """A function of `float_functions.py`, of arrays that broadcast; narrow floats are rounded once.

    Its derivatives are those of JAX's own operations where `of` computes it.
    """
    x, *others = jnp.broadcast_arrays(*operands)
    wide = [each.astype(np.float32) for each in (x, *others)]
    value = _applied(function, *wide)
    return sums.narrow(value if function in _SHORT else ieee.apart(value), x.dtype)


def settle(x: Array) -> Array:
    """Floats as a fixed form has them: 0 up to 2**-126, and one NaN."""
    is_narrow = x.dtype.itemsize < 8
    return apply(lambda x: x, x) if is_narrow else x


def _compute(function: Callable[..., Array], *operands: Array) -> Array:
    """A bitcast of one axis takes a fifth of the operations of one of several (`float_bits.py`)."""
    shape = operands[0].shape
    if not is_static(shape):
        return float_functions.apply(function, *operands)
    return float_functions.apply(function, *(x.reshape(-1) for x in operands)).reshape(shape)


_compute.__name__ = _DONE
_applied = jax.jit(_compute, static_argnums=0)  # a program has one for equal shapes


def of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose floats have one answer.

    It takes and returns pytrees, whose arrays of JAX it follows; its derivatives are `function`'s.
    """

    def compute(*operands: Any) -> Any:
        leaves, tree = jax.tree.flatten(operands)
        places = [i for i, x in enumerate(leaves) if isinstance(x, Array)]
        others: list[Any] = []

        def traced(*arrays: Array) -> list[Array]:
            filled = list(leaves)
            for i, x in zip(places, arrays, strict=True):
                filled[i] = x
            results, structure = jax.tree.flatten(function(*jax.tree.unflatten(tree, filled)))
            others[:] = [structure, [None if isinstance(x, Array) else x for x in results]]
            return [x for x in results if isinstance(x, Array)]

        program = compat.closed(jax.make_jaxpr(traced)(*(leaves[i] for i in places)))
        assert program is not None
        structure, known = others

        @jax.custom_jvp
        def exact(*arrays: Array) -> list[Array]:
            results = _run(program, arrays)
            return [ieee.apart(x) if x.dtype == _FLOAT32 else x for x in results]

        @exact.defjvp
        def _tangent(primals: Any, tangents: Any) -> Any:
            return exact(*primals), jax.jvp(traced, primals, tangents)[1]

        found = iter(exact(*(leaves[i] for i in places)))
        return jax.tree.unflatten(structure, [next(found) if x is None else x for x in known])

    return compute


def _run(program: Any, operands: Sequence[Any], is_sum: bool = False) -> list[Any]:
    """Computes the outputs of a program; one of a sum slices arrays in memory.

    XLA would compute each operand again in every place that reads it, so a chain is short.
    """
    jaxpr, in_memory = program.jaxpr, set[Any]()
    lengths, most = dict[Any, int](), 1 if is_sum else _LONGEST_CHAIN
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*program.consts, *operands), strict=True))

    def read(atom: Any) -> Any:
        if not isinstance(atom, compat.Constant):
            return values[atom]
        aval: Any = atom.aval
        return jnp.asarray(atom.val, aval.dtype)

    for equation in jaxpr.eqns:
        is_slice = equation.primitive.name in (_SLICES if is_sum else _GATHERS)
        sliced = equation.invars[0] if is_slice else None
        if sliced is not None and sliced not in in_memory and _is_float(read(sliced)):
            values[sliced] = ieee.apart(values[sliced])
            in_memory.add(sliced)
        outputs = _outputs(equation, [read(x) for x in equation.invars])
        variables = (x for x in equation.invars if not isinstance(x, compat.Constant))
        length = max((lengths.get(x, 0) for x in variables), default=0)
        length += equation.primitive.name in ("add", "mul")
        if length >= most:
            outputs, length = [ieee.apart(x) if _is_float(x) else x for x in outputs], 0
        values |= zip(equation.outvars, outputs, strict=True)
        lengths |= dict.fromkeys(equation.outvars, length)
    return [read(x) for x in jaxpr.outvars]


@functools.lru_cache(maxsize=1024)
def _shared(program: Any, is_sum: bool) -> Callable[..., list[Any]]:
    """A program's function, which the programs that call it share."""
    return jax.jit(lambda *operands: _run(program, operands, is_sum))


@functools.lru_cache(maxsize=1024)
def _kept(program: Any) -> Callable[..., list[Any]]:
    """The function of a program that stays as it is."""
    return jax.jit(compat.function_of(program))


def _is_float(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def _outputs(equation: compat.Equation, operands: list[Any]) -> _Outputs:
    """The outputs of an equation."""
    name, params = equation.primitive.name, equation.params
    avals = compat.outputs_of(equation)
    is_float = any(map(_is_float, operands))
    is_float = is_float or any(jnp.issubdtype(dtype, jnp.floating) for dtype, _ in avals)
    if (program := compat.called(equation)) is not None:
        return _call(equation, program, operands)
    if name in _LOOPS:
        return _LOOPS[name](params, operands)
    if (not is_float or name in _MOVES) and name != "platform_index":
        return _as_it_is(equation, operands)
    if name == "dmlax_choose":  # a quotient or a root of `ieee.py`
        outputs = _as_it_is(equation, [_flushed(x) for x in operands])
        return [float_functions.finish(x) if x.dtype == _FLOAT32 else x for x in outputs]
    (dtype, _), *more = avals
    if name in _LARGEST or name in _SMALLEST:
        return [_extreme(equation, operands)]
    is_choice = name == "reduce_window" and _only_compares(equation.params["jaxpr"])
    if name in _COMPARISONS | _ROUNDINGS or is_choice:
        return _as_it_is(equation, [_flushed(x) for x in operands])
    if name in _FUNCTIONS and not more and _is_known(name, operands):
        return [_function(_FUNCTIONS[name], operands, dtype)]
    if name in _RULES:
        return [_RULES[name](params, *operands).astype(dtype)]
    if name in _ORDERED:
        return _ORDERED[name](equation, operands)
    kinds = dict.fromkeys(x.dtype.name for x in operands if _is_float(x))
    text = f"{name} of {' and '.join(kinds) or dtype.name} has no exact form"
    raise UnsupportedError(f'{text}: take arithmetic="float32"')


def _only_compares(program: compat.Program) -> bool:
    """Whether a program does no more with floats than compare and select."""
    return all(
        _only_compares(inner.jaxpr)
        if (inner := compat.called(equation)) is not None
        else equation.primitive.name in _COMPARISONS | {"and", "not", "or", "select_n"}
        for equation in program.eqns
    )


def _is_known(name: str, operands: Sequence[Any]) -> bool:
    return name in _WIDE or all(x.dtype.itemsize < 8 or not _is_float(x) for x in operands)


def _as_it_is(equation: compat.Equation, operands: Sequence[Any]) -> _Outputs:
    outputs = equation.primitive.bind(*operands, **equation.params)
    return outputs if equation.primitive.multiple_results else [outputs]


def _call(equation: compat.Equation, program: Any, operands: list[Any]) -> _Outputs:
    """Runs a called program; a call of an operator of dmlax is exact, or has a definition."""
    if equation.params.get("name") == _DONE:
        return _kept(program)(*operands)
    if equation.params.get("name") == sums.IN_ROWS_NAME and operands[0].dtype == _FLOAT32:
        ((_, kept),) = compat.outputs_of(equation)
        pairs = enumerate(zip(operands[0].shape, kept, strict=True))
        axis = next((i for i, (size, one) in pairs if size is not one and size != one), None)
        axis = kept.index(1) if axis is None else axis  # of one term
        return [ordered_products.total(operands[0], (axis,))]
    last = _labelled(program.jaxpr)
    if last is None:
        if equation.primitive.name in ("jit", "pjit"):
            return _shared(program, equation.params.get("name") == sums.NAME)(*operands)
        return _run(program, operands)
    call, tree = last
    if (definition := call.operator.definition(call.plan)) is None:
        return _kept(program)(*operands)
    return _replaced(lambda *leaves: definition(jax.tree.unflatten(tree, leaves)), *operands)


def _replaced(function: Callable[..., Any], *operands: Array) -> list[Any]:
    """The outputs of a function, whose operations are replaced."""
    return _run(compat.closed(jax.make_jaxpr(function)(*operands)), operands)


def _labelled(program: compat.Program) -> tuple[Any, Any] | None:
    """The operator's call that a program is, and the structure of its operands."""
    *_, last = (None, *program.eqns)
    if last is None:
        return None
    if last.primitive.name == "dmlax_label" and hasattr(last.params["call"], "operator"):
        return last.params["call"], last.params["operands"]
    inner = compat.called(last)
    return None if inner is None or len(program.eqns) > 1 else _labelled(inner.jaxpr)


def _flushed(x: Array) -> Array:
    if x.dtype == jnp.bfloat16:
        return flush(x.astype(np.float32)).astype(x.dtype)
    return flush(x) if x.dtype == _FLOAT32 else x


def _function(function: Callable[..., Array], operands: Sequence[Array], dtype: np.dtype) -> Array:
    if any(x.dtype.itemsize == 8 and _is_float(x) for x in operands):
        return function(*operands)
    return sums.narrow(apply(function, *(x.astype(np.float32) for x in operands)), dtype)


def _keys(x: Array, merges_zeros: bool = False) -> Array:
    """int32 in the order of floats of at most 32 bits; NaN is the greatest."""
    wide = flush(x.astype(np.float32))
    wide = jnp.where(x != x, np.float32(np.nan), wide)
    return float_bits.to_ordered(
        jnp.where(wide == 0, np.float32(0), wide) if merges_zeros else wide
    )


def _extreme(equation: compat.Equation, operands: Sequence[Array]) -> Array:
    """A largest or least element; -0 is below +0, and NaN wins."""
    if operands[0].dtype.itemsize == 8:
        wide: Array = _as_it_is(equation, operands)[0]
        return wide
    is_least = equation.primitive.name in _SMALLEST
    primitive = _SMALLEST.get(equation.primitive.name, equation.primitive)
    turned = [-x if is_least else x for x in operands]
    keys = primitive.bind(*map(_keys, turned), **equation.params)
    least = _keys(jnp.float32(-np.inf))  # of no element
    found = float_bits.from_ordered(jnp.maximum(keys, least)).astype(operands[0].dtype)
    return -found if is_least else found


def _sort(equation: compat.Equation, operands: Sequence[Array]) -> _Outputs:
    """Sorts by keys in which -0 is +0 and NaN is the last."""
    count, params = equation.params["num_keys"], dict(equation.params)
    if any(x.dtype.itemsize == 8 and _is_float(x) for x in operands[:count]):
        raise UnsupportedError("sort of float64 has no exact form")
    keys = [_keys(x, True) if _is_float(x) else x for x in operands[:count]]
    return list(equation.primitive.bind(*keys, *operands, **params))[count:]


def _top_k(equation: compat.Equation, operands: Sequence[Array]) -> _Outputs:
    (x,) = operands
    _, places = equation.primitive.bind(_keys(x, True), **equation.params)
    axis = equation.params.get("axis", -1)
    return [jnp.take_along_axis(x, places, axis=axis), places]


def _place_of_extreme(equation: compat.Equation, operands: Sequence[Array]) -> _Outputs:
    (x,) = operands
    is_least = equation.primitive.name == "argmin"
    return [lax.argmax_p.bind(_keys(-x if is_least else x, True), **equation.params)]


_ORDERED: dict[str, Callable[[compat.Equation, Sequence[Array]], _Outputs]] = {
    "argmax": _place_of_extreme,
    "argmin": _place_of_extreme,
    "sort": _sort,
    "top_k": _top_k,
}


def _convert(params: Any, x: Array) -> Array:
    dtype = np.dtype(params["new_dtype"])
    is_narrowed = _is_float(x) and jnp.issubdtype(dtype, jnp.floating)
    if is_narrowed and dtype.itemsize < x.dtype.itemsize:
        return ieee.narrow(_flushed(x), dtype)
    return x.astype(dtype)


def _integer_power(params: Any, x: Array) -> Array:
    exponent = params["y"]
    if exponent == 2:
        return _function(ieee.multiply, [x, x], x.dtype)
    if exponent == -1:
        return _function(float_functions.reciprocal, [x], x.dtype)
    return _function(float_functions.pow, [x, jnp.full_like(x, exponent)], x.dtype)


def _clamp(params: Any, low: Array, x: Array, high: Array) -> Array:
    keys = [_keys(each) for each in (low, x, high)]
    found = float_bits.from_ordered(jnp.minimum(jnp.maximum(keys[1], keys[0]), keys[2]))
    return jnp.where(x != x, np.float32(np.nan), found)


def _product(params: Any, x: Array, y: Array) -> Array:
    wide = x.astype(np.float32), y.astype(np.float32)
    return ordered_products.dot_general(*wide, params["dimension_numbers"])


def _convolution(params: Any, x: Array, w: Array) -> Array:
    if params["batch_group_count"] != 1:
        raise UnsupportedError("a convolution of groups of images has no exact form")
    windows = ordered_products.Windows(
        params["window_strides"],
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
        params["dimension_numbers"],
        params["feature_group_count"],
    )
    return ordered_products.convolve(x.astype(np.float32), w.astype(np.float32), windows)


def _total(x: Array, axes: tuple[int, ...]) -> Array:
    if x.dtype.itemsize == 8:
        wide_total: Array = sums.total(x, sorted(axes), sums.IN_ROWS)
        return wide_total.squeeze(axes)
    wide = ordered_products.total(x.astype(np.float32), axes)
    return sums.narrow(wide, x.dtype).squeeze(axes)


_RULES: dict[str, Callable[..., Array]] = {
    "clamp": _clamp,
    "conv_general_dilated": _convolution,
    "convert_element_type": _convert,
    "dot_general": _product,
    "integer_pow": _integer_power,
    "reduce_sum": lambda params, x: _total(x, tuple(params["axes"])),
    "square": lambda params, x: _function(ieee.multiply, [x, x], x.dtype),
}


def _while(params: Any, operands: list[Any]) -> _Outputs:
    of_condition, of_body = params["cond_nconsts"], params["body_nconsts"]
    condition, body = compat.closed(params["cond_jaxpr"]), compat.closed(params["body_jaxpr"])
    first, second = operands[:of_condition], operands[of_condition : of_condition + of_body]
    return list(
        lax.while_loop(
            lambda carry: _run(condition, (*first, *carry))[0],
            lambda carry: _run(body, (*second, *carry)),
            operands[of_condition + of_body :],
        )
    )


def _scan(params: Any, operands: list[Any]) -> _Outputs:
    step, constants, carries = compat.scan_of(**params)
    held, first = operands[:constants], operands[constants : constants + carries]

    def run(carry: Any, slices: Any) -> tuple[list[Any], list[Any]]:
        outputs = _run(step, (*held, *carry, *slices))
        return outputs[:carries], outputs[carries:]

    options = {name: params[name] for name in ("reverse", "unroll")}
    slices = operands[constants + carries :]  # a symbolic length is theirs
    length = None if slices else params["length"]
    last, stacked = lax.scan(run, first, slices, length, **options)
    return [*last, *stacked]


def _switch(params: Any, operands: list[Any]) -> _Outputs:
    index, *others = operands
    branches = [functools.partial(_run, compat.closed(x)) for x in params["branches"]]
    index = index.astype(np.int32)
    return list(lax.switch(index, branches, others))


_LOOPS: dict[str, Callable[[Any, list[Any]], _Outputs]] = {
    "cond": _switch,
    "scan": _scan,
    "while": _while,
}

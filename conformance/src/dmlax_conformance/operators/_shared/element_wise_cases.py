"""Calls of the two element-wise operators: operands, and the cases that both have."""

from collections.abc import Sequence
from math import prod

from ...format.tensors import DTYPES, Tensor
from ...format.vectors import Request
from ..topics import Listed, Topic, bits, drawn, floats, ints
from .covering import Row, apart
from .systematic import PERIOD, SHORT, flags_of, repeat


class ElementWiseTopic(Topic):
    """One file of calls, whose output has the sizes of the input."""

    def add(
        self,
        name: str,
        comment: str,
        clause: str,
        dtype: str,
        flags: str,
        x: Tensor,
        scale: Tensor,
        zero_point: Tensor | None = None,
        requires: str = "",
        listed: Listed | None = None,
    ) -> None:
        """Add a valid call with an output of the dtype."""
        given = {"InputTensor": x, "ScaleTensor": scale}
        given |= {} if zero_point is None else {"ZeroPointTensor": zero_point}
        asked = {"OutputTensor": Request(dtype, x.sizes)}
        self.valid(name, comment, clause, given, asked, None, flags, requires, listed)

    def add_twin(self, name: str, clause: str, dtype: str, x: Tensor) -> None:
        """Add the call that invalid ones change, of two rows and three columns."""
        text = "the twin: scale and zero point for each column"
        scale, zero = floats("float32", (1, 3), [1, 2, 3]), ints("uint8", (1, 3), [1, 2, 3])
        self.add(name, text, clause, dtype, "Broadcast", x, scale, zero)

    def add_shapes(
        self,
        clause: str,
        dtype: str,
        x: Tensor,
        zero: Tensor,
        steps: tuple[int, int],
        without: Sequence[str] = (),
    ) -> None:
        """Add parameters of each shape that repeats; `zero` is the one along other axes."""
        own, limits = ("int8", (-9, 9)) if dtype == "int8" else ("uint8", (100, 150))
        for name, sizes in SHAPES.items():
            if name not in without:
                flags = "" if name == "each-element" else "Broadcast"
                text = f"scale and zero point of sizes {list(sizes)}"
                each = draw_scales(sizes, *steps), drawn(own, sizes, 8, *limits)
                self.add(name, text, clause, dtype, flags, x, *each)
        name, text = "different-axes", "scale and zero point repeat along different axes"
        result = "uint8" if dtype == "int8" else dtype
        self.add(name, text, clause, result, "Broadcast", x, draw_scales((1, 3, 1), *steps), zero)

    def add_rank_8(self, clause: str, dtype: str, x: Tensor) -> None:
        """Add a call of the most dimensions."""
        half = floats("float16", x.sizes, [0.5] * 8)
        self.add("rank-8", "rank 8, every size equal", clause, dtype, "", x, half)

    def add_survivors(
        self, clause: str, dtype: str, cube: Tensor, zero: str, points: Sequence[int]
    ) -> None:
        """Add calls for planted bugs that survived all others: every axis is equally long."""
        name, scales = "every-axis-3", [0.5, 1.25, 3]
        text = "every axis has 3 places; the scale is for axis 2, the zero point for axis 1"
        given = cube, floats("float32", (1, 1, 3), scales), ints(zero, (1, 3, 1), points)
        self.add(name, text, clause, dtype, "Broadcast", *given)
        text = "every axis has 3 places; parameters of lower rank align on the right"
        given = cube, floats("float32", (3,), scales), ints(zero, (3, 1), points)
        self.add(f"{name}-lower-rank", text, clause, dtype, "Broadcast", *given)

    def refuse_sizes(self, base: str, clause: str, names: str) -> None:
        """Add parameters that do not repeat to the sizes of the twin."""
        text = "{field} of sizes {sizes} does not repeat to [2, 3]"
        self.wrong(base, "sizes", clause, text, WRONG_SIZES, names)

    def refuse_values(
        self, base: str, text: str, clause: str, dtype: str, x: Tensor, source: str
    ) -> None:
        """Add a call whose scale is known, and one for each scale that is zero or not finite."""
        flags, need = "KnownValue Broadcast", "values:known"
        self.add(base, text, clause, dtype, flags, x, row(source, 1), requires=need)
        for name, word in NO_SCALES[source].items():
            text, name = f"the {source} scale is {name}", f"scale-{name}-{source}"
            given, flags = {"ScaleTensor": words(source, word)}, "Invalid KnownValue"
            self.invalid(name, text, clause, base, "value", given, flags, need)

    def add_size(
        self, count: int, x: Tensor, dtype: str, own: tuple[str, int], clauses: tuple[str, str]
    ) -> None:
        """Add so many elements, and parameters that lack the last column of the input."""
        zero_type, seed = own
        values = [(5 + 3 * (i % 7)) / 16 * (-1) ** (i // 7) for i in range(PERIOD)]
        if count in (128, 256, 1000, 65_536):  # where there is no remainder of a block
            sizes = (1,) * len(x.sizes)
            given = floats("float32", sizes, values[:1]), ints(zero_type, sizes, [3])
        else:
            zero = drawn(zero_type, (PERIOD,), seed, 0, 100)
            given = repeat(floats("float32", (PERIOD,), values), x.sizes), repeat(zero, x.sizes)
        base, text = f"elements-{count}", f"{count} elements in sizes {list(x.sizes)}"
        self.add(base, text, clauses[0], dtype, flags_of(count), x, *given)
        if count in SHORT:
            for field, tensor in zip(("ScaleTensor", "ZeroPointTensor"), given, strict=True):
                *rest, last = tensor.sizes
                cut = repeat(tensor, (*rest, last - 1))
                name = f"{'scale' if field == 'ScaleTensor' else 'zero-point'}-short-{count}"
                text = f"{field} of sizes {list(cut.sizes)} does not repeat to {[*rest, last]}"
                self.invalid(name, text, clauses[1], base, "sizes", {field: cut})


# -- tensors -----------------------------------------------------------------------------------


def words(dtype: str, *patterns: int) -> Tensor:
    """Return a vector of bit patterns."""
    return bits(dtype, (len(patterns),), patterns)


def row(dtype: str, *values: float) -> Tensor:
    """Return a vector of exact floats."""
    return floats(dtype, (len(values),), values)


def whole(dtype: str, *values: int) -> Tensor:
    """Return a vector of integers."""
    return ints(dtype, (len(values),), values)


def draw_scales(sizes: Sequence[int], high: int, steps: int) -> Tensor:
    """Return drawn float32 scales, multiples of `1 / steps`."""
    mantissas = drawn("int32", sizes, 17, 1, high).words
    return floats("float32", sizes, (mantissa / steps for mantissa in mantissas))


SHAPES = {
    "each-element": (2, 3, 4),
    "axis-0": (2, 1, 1),
    "axis-1": (1, 3, 1),
    "axis-2": (1, 1, 4),
    "axes-0-2": (2, 1, 4),
    "single": (1, 1, 1),
    "lower-rank": (3, 4),
    "rank-1-single": (1,),
    "rank-0": (),
}
WRONG_SIZES = {
    "scale-2-for-3": ("ScaleTensor", floats("float32", (1, 2), [1, 2])),
    "scale-grows-input": ("ScaleTensor", floats("float32", (4, 3), [1] * 12)),
    "scale-rank-3": ("ScaleTensor", floats("float32", (1, 1, 3), [1, 2, 3])),
    "zero-point-2-for-3": ("ZeroPointTensor", ints("uint8", (1, 2), [1, 2])),
    "zero-point-grows-input": ("ZeroPointTensor", ints("uint8", (4, 3), [1] * 12)),
    "zero-point-rank-3": ("ZeroPointTensor", ints("uint8", (1, 1, 3), [1, 2, 3])),
}
WRONG_TYPES = {
    "float32-input": ("InputTensor", floats("float32", (2, 3), range(6))),
    "uint8-input": ("InputTensor", ints("uint8", (2, 3), range(6))),
    "int16-input": ("InputTensor", ints("int16", (2, 3), range(6))),
    "complex-input": ("InputTensor", bits("complex64", (2, 3), [0x3F800000] * 6)),
    "float16-scale": ("ScaleTensor", floats("float16", (1, 3), [1, 2, 3])),
    "int32-scale": ("ScaleTensor", ints("int32", (1, 3), [1, 2, 3])),
    "int8-zero-point": ("ZeroPointTensor", ints("int8", (1, 3), [1, 2, 3])),
    "float32-zero-point": ("ZeroPointTensor", floats("float32", (1, 3), [1, 2, 3])),
    "float32-scale": ("ScaleTensor", row("float32", 1, 2)),
    "float16-scale-for-int32": ("ScaleTensor", row("float16", 1, 2)),
}
NO_SCALES = {
    "float32": {"zero": 0, "minus-zero": 1 << 31, "nan": 0x7FC00000, "infinity": 0x7F800000},
    "float16": {"zero": 0, "nan": 0x7E00, "minus-infinity": 0xFC00},
}


# -- pairs of options --------------------------------------------------------------------------


PARAMETERS = ("absent", "one", "axis", "each")
ALONG = [(("scale", "axis"), ("rank", "1")), (("zero point", "axis"), ("rank", "1"))]
APART = apart("with one axis, it is each element", *ALONG)
SIZES = {
    "few": {"1": (6,), "2": (2, 3), "4": (1, 3, 1, 2)},
    "129": {"1": (129,), "2": (3, 43), "4": (1, 3, 1, 43)},
    "255": {"1": (255,), "2": (15, 17), "4": (5, 1, 3, 17)},
}


def parameters(options: Row, scale: str, zero: str, number: int) -> tuple[Tensor, Tensor | None]:
    """Return scale and zero point of these data types as a row of options wants them."""
    shape = _parameter_shape(options, "scale")
    values = ((5 + 3 * (i % 7)) / 16 * (-1) ** (i // 7) for i in range(prod(shape)))
    own, limits = floats(scale, shape, values), (DTYPES[zero].low, DTYPES[zero].high)
    if options["zero point"] == "absent":
        return own, None
    return own, drawn(zero, _parameter_shape(options, "zero point"), 970 + number, *limits)


def _parameter_shape(options: Row, name: str) -> tuple[int, ...]:
    kind, sizes = options[name], SIZES[options["elements"]][options["rank"]]
    if kind == "each":
        return sizes
    place = next(axis for axis, size in enumerate(sizes) if size > 1) if kind == "axis" else -1
    return tuple(size if axis == place else 1 for axis, size in enumerate(sizes))


def add_equal_axes(
    topic: ElementWiseTopic, clause: str, source: str, dtype: str, flags: str = "Broadcast"
) -> None:
    """Add parameters along one axis each of inputs whose axes are equal."""
    own = dtype if source.startswith("float") else source
    for rank in (2, 3, 4):
        x = _drawn_input(source, (3,) * rank, 30 + rank)
        for axis in range(rank):
            along = tuple(3 if at == axis else 1 for at in range(rank))
            other = tuple(3 if at == (axis + 1) % rank else 1 for at in range(rank))
            scale = floats("float32", along, [(1 + axis + 3 * at) / 8 for at in range(3)])
            zero = drawn(own, other, 40 + axis, *((0, 60) if own == "uint8" else (-60, 60)))
            text = f"three places on each of {rank} axes: scales along {axis}, points along another"
            topic.add(f"equal-{rank}-{axis}", text, clause, dtype, flags, x, scale, zero)


def _drawn_input(dtype: str, sizes: tuple[int, ...], seed: int) -> Tensor:
    if dtype.startswith("float"):
        steps = drawn("int16", sizes, seed, -200, 200).words
        return floats(dtype, sizes, [step / 8 for step in steps])
    return drawn(dtype, sizes, seed, DTYPES[dtype].low, DTYPES[dtype].high)

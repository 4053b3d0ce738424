"""The rounding in a GPU's threads, interpreted in NumPy: accumulators and sums of two bytes."""

import functools

import numpy as np
import pytest

import dmlax
import emulated_threads
import quantized_sum_cases
from requantize_cases import FAMILIES, near, nearest, tiny
from support import requantized

OUTPUTS = 8  # of a thread


def of_threads(*columns):
    """Each column as values of a thread's outputs, the threads' elements side by side."""
    count = -(-columns[0].size // OUTPUTS)
    padded = [np.resize(column, OUTPUTS * count).reshape(OUTPUTS, count) for column in columns]
    return [[emulated_threads.Value(row) for row in column.view(np.uint32)] for column in padded]


def to_bytes(words, dtype, size):
    """The bytes of all outputs, in words of four."""
    found = [word.array >> np.uint32(8 * i) & np.uint32(0xFF) for word in words for i in range(4)]
    return np.concatenate(found)[:size].astype(np.uint8).view(dtype)


def largest_errors():
    """Sums next to ties beyond 200, by factors whose error is 7/16 or a half of 2**-32."""
    rng = np.random.default_rng(5)
    factor = (rng.integers(2**19, 2**20, 8_000) * 16 + np.repeat([7, 8], 4_000)) * 2.0**-36
    accumulator = np.rint((rng.integers(200, 256, 8_000) + 0.5) / factor).astype(np.int32)
    one, sign = np.ones(8_000, np.float32), rng.choice(np.float32([-1, 1]), 8_000)
    accumulator = np.where(rng.random(8_000) < 0.5, accumulator, accumulator * sign.astype(int))
    return accumulator.astype(np.int32), [factor.astype(np.float32) * sign, one, one]


def every_accumulator():
    cases = [family(7) for family in FAMILIES.values()]
    cases += [nearest(), tiny(), near(300), largest_errors()]
    accumulators, scales = zip(*cases, strict=True)
    return np.concatenate(accumulators), [
        np.concatenate(parts) for parts in zip(*scales, strict=True)
    ]


@pytest.mark.parametrize(
    ("above_lowest", "error"), [(0, 2**17), (5, 2**22), (128, 2**17), (255, 2**20)]
)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_accumulators_are_rounded_exactly(written, monkeypatch, dtype, above_lowest, error):
    from dmlax._cuda import ir
    from dmlax._cuda.fixed_point import pick
    from dmlax._cuda.requantize import Group, Ratio, Requantizer, Scales, compute_exact_factor

    zero_point = np.iinfo(dtype).min + above_lowest
    accumulators, scales = every_accumulator()
    emulated_threads.emulate(monkeypatch)
    emulated_threads.begin(-(-accumulators.size // OUTPUTS), 0, 0)
    sums, *columns = of_threads(accumulators, *scales)
    made = [compute_exact_factor(each, error) for each in map(Scales, *columns)]
    factors, ratios = zip(*made, strict=True)
    requantizer = Requantizer.of(np.dtype(dtype), "exact", ir.constant(zero_point), error)

    def load_ratio(first, i):
        return Ratio(*(pick(words[first:], i) for words in zip(*ratios, strict=True)))

    words = []
    for i in (0, 4):
        four = list(factors[i : i + 4])
        next_bits = [ratio.next_bits for ratio in ratios[i : i + 4]]
        load = functools.partial(load_ratio, i)
        group = Group(sums[i : i + 4], four.copy, next_bits.copy, load)
        with np.errstate(all="ignore"):
            words += requantizer.quantize(group)
    found = to_bytes(words, dtype, accumulators.size)
    np.testing.assert_array_equal(found, requantized(accumulators, scales, zero_point, dtype))


def test_few_ordinary_accumulators_are_computed_again(written, monkeypatch):
    from dmlax._cuda import ir
    from dmlax._cuda.requantize import (
        Group,
        Requantizer,
        Scales,
        compute_exact_factor,
        usual_error,
    )

    rng = np.random.default_rng(1)
    emulated_threads.begin(2**12, 0, 0)
    emulated_threads.emulate(monkeypatch)
    for depth in (64, 4608):
        error, deviation = usual_error(depth), 74**2 * depth**0.5  # of a sum of uniform bytes
        requantizer = Requantizer.of(np.dtype(np.uint8), "exact", ir.constant(128), error)
        scales = Scales(*map(emulated_threads.Value, of_one(np.float32(25 / deviation))))
        factor, _ = compute_exact_factor(scales, error)
        sums = np.rint(rng.normal(0, deviation, (4, 2**12))).astype(np.int32).view(np.uint32)
        group = Group(list(map(emulated_threads.Value, sums)), [factor].copy, None, None)
        group = group._replace(load_factors=[factor, factor, factor, factor].copy)
        products, limit = requantizer._multiply(group)
        assert (limit.array == 2 * error).all()
        assert np.mean([(low <= limit).array for low, _ in products]) < 2 * (2 * error / 2**32)


def test_products_of_0_by_a_dead_channel_are_no_near_ties(written, monkeypatch):
    """Its multiplier is too large for an integer."""
    from dmlax._cuda import ir, requantize

    emulated_threads.begin(1, 0, 0)
    emulated_threads.emulate(monkeypatch)
    monkeypatch.setattr(requantize, "replace_ties", lambda words, near_ties, *rest: near_ties)
    scales = requantize.Scales(*map(emulated_threads.Value, of_one(np.float32(3))))
    factor, ratio = requantize.compute_exact_factor(scales, 2**18)
    requantizer = requantize.Requantizer.of(np.dtype(np.uint8), "exact", ir.constant(0), 2**18)
    sums = [ir.constant(each) for each in (0, 1, -1, 100)]
    load = [factor] * 4, [ratio.next_bits] * 4
    group = requantize.Group(sums, load[0].copy, load[1].copy, None)
    found = [near_tie.array.item() for near_tie in requantizer._compute_again(group)]
    assert found == [False, True, True, True]


def of_one(scale):
    return [np.float32(each).view(np.uint32) for each in (scale, 1, 1)]


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_sums_are_rounded_exactly(written, monkeypatch, dtype):
    from dmlax._cuda import ir
    from dmlax._cuda.quantized_sum import Adder, Term, Terms, bytes_of, lowest_of

    a, b, zero_points = quantized_sum_cases.operands(dtype)
    kinds = tuple(map(np.dtype, (np.uint8, np.int8, dtype)))
    emulated_threads.emulate(monkeypatch)
    monkeypatch.setattr(ir, "thread", lambda: ir.constant(0))  # each has constants of its own
    for name, scales, wanted in quantized_sum_cases.sums(dtype):
        emulated_threads.begin(a.size, 0, Adder.BYTES * a.size)
        place = emulated_threads.Value(np.arange(a.size, dtype=np.uint32))
        adder = Adder("exact", kinds, place * Adder.BYTES + emulated_threads.SHARED)
        zeros = [
            emulated_threads.Value((z.astype(int) - lowest_of(kind)).astype(np.uint32))
            for z, kind in zip(zero_points, kinds, strict=True)
        ]
        given = [emulated_threads.Value(scale.view(np.uint32)) for scale in scales]
        adder.write(*map(Term, given, zeros))
        words = [x.view(np.uint8) ^ flip for x, flip in ((a, np.uint8(0)), (b, np.uint8(0x80)))]
        both = [bytes_of([emulated_threads.Value(word.astype(np.uint32))]) for word in words]
        found = adder.add(Terms(*both))[0].array & 0xFF
        np.testing.assert_array_equal(found.astype(np.uint8).view(dtype), wanted, name)


@pytest.mark.parametrize("scales", [(0.02, 0.03, 0.04), (-0.5, 0.25, 0.125), (3, 100, 0.5)])
def test_all_pairs_of_bytes_are_summed_exactly(written, monkeypatch, scales):
    from dmlax._cuda import ir
    from dmlax._cuda.quantized_sum import Adder, Term, Terms, bytes_of

    a, b = (x.ravel().astype(np.uint8) for x in np.meshgrid(np.arange(256), np.arange(256)))
    wanted = dmlax.element_wise_quantized_linear_add(
        a,
        b,
        a_scale=np.float32(scales[0]),
        b_scale=np.float32(scales[1]),
        output_scale=np.float32(scales[2]),
        a_zero_point=np.uint8(3),
        b_zero_point=np.uint8(128),
        output_zero_point=np.uint8(100),
        implementation="xla",
    )
    emulated_threads.emulate(monkeypatch)
    emulated_threads.begin(a.size // OUTPUTS, 0, Adder.BYTES)
    words = [ir.constant(int(np.float32(scale).view(np.uint32))) for scale in scales]
    adder = Adder("exact", (np.dtype(np.uint8),) * 3, ir.constant(emulated_threads.SHARED))
    adder.write(*map(Term, words, map(ir.constant, (3, 128, 100))))
    both = [x.reshape(-1, OUTPUTS).view(np.uint32).T for x in (a, b)]
    terms = Terms(*(bytes_of(list(map(emulated_threads.Value, words))) for words in both))
    found = np.stack([word.array for word in adder.add(terms)], 1)
    np.testing.assert_array_equal(found.view(np.uint8).ravel(), wanted)

"""The rounding in a GPU's threads, interpreted in NumPy: accumulators and sums of two bytes."""

import functools

import numpy as np
import pytest

import dmlax
from support import requantized
from support.cases import quantized_sum as quantized_sum_cases
from support.cases.requantize import FAMILIES, near, nearest, tiny
from support.emulated import threads as emulated_threads

OUTPUTS = 8  # outputs of a thread


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


@functools.cache
def every_accumulator():
    cases = [family(7) for family in FAMILIES.values()]
    cases += [nearest(), tiny(), near(64), largest_errors()]
    accumulators, scales = zip(*cases, strict=True)
    return np.concatenate(accumulators), [
        np.concatenate(parts) for parts in zip(*scales, strict=True)
    ]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("dtype", "above_lowest"), [(np.int8, 0), (np.uint8, 5), (np.int8, 255), (np.uint8, 255)]
)
def test_accumulators_are_rounded_exactly(written, monkeypatch, dtype, above_lowest):
    from dmlax._cuda import ir
    from dmlax._cuda.fixed_point import pick
    from dmlax._cuda.requantize import Ratio, Requantizer, Scales, compute_exact_factor

    zero_point = np.iinfo(dtype).min + above_lowest
    accumulators, scales = every_accumulator()
    emulated_threads.emulate(monkeypatch)
    emulated_threads.begin(-(-accumulators.size // OUTPUTS), 0, 0)
    sums, *columns = of_threads(accumulators, *scales)
    factors, ratios = zip(*map(compute_exact_factor, map(Scales, *columns)), strict=True)
    requantizer = Requantizer.of(np.dtype(dtype), "exact", ir.constant(zero_point))

    def load_ratio(i):
        return Ratio(*(pick(words, i) for words in zip(*ratios, strict=True)))

    with np.errstate(all="ignore"):
        words = requantizer.quantize(sums, factors, load_ratio)
    found = to_bytes(words, dtype, accumulators.size)
    np.testing.assert_array_equal(found, requantized(accumulators, scales, zero_point, dtype))


def test_few_ordinary_accumulators_are_near_ties(written, monkeypatch):
    from dmlax._cuda.requantize import Scales, compute_exact_factor

    rng = np.random.default_rng(1)
    emulated_threads.begin(2**15, 0, 0)
    emulated_threads.emulate(monkeypatch)
    for depth in (64, 2304):
        # Six deviations of sums of uniform bytes.
        scale = np.float32(255 / (6 * 74**2 * depth**0.5))
        scales = Scales(*map(emulated_threads.Value, of_one(scale)))
        (multiplier, rounding), _ = compute_exact_factor(scales)
        assert multiplier.array[0] == np.rint(float(scale) * 2**32)
        share = 2 * (int(rounding.array[0]) - 2**31) / 2**32
        sums = np.rint(rng.normal(0, 74**2 * depth**0.5, 2**15)).astype(np.int64)
        lows = (sums * int(multiplier.array[0]) + int(rounding.array[0])) % 2**32
        assert share < 2**-11
        assert (lows <= 2 * (int(rounding.array[0]) - 2**31)).mean() < 2 * share + 2**-12


def of_one(scale):
    return [np.float32(each).view(np.uint32) for each in (scale, 1, 1)]


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_sums_are_rounded_exactly(written, monkeypatch, dtype):
    from dmlax._cuda import ir
    from dmlax._cuda.quantized_sum import Adder, Term, bytes_of, lowest_of

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
        found = adder.add(*both)[0].array & 0xFF
        np.testing.assert_array_equal(found.astype(np.uint8).view(dtype), wanted, name)


@pytest.mark.parametrize("scales", [(0.02, 0.03, 0.04), (-0.5, 0.25, 0.125), (3, 100, 0.5)])
def test_all_pairs_of_bytes_are_summed_exactly(written, monkeypatch, scales):
    from dmlax._cuda import ir
    from dmlax._cuda.quantized_sum import Adder, Term, bytes_of

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
    outputs = adder.add(*(bytes_of(list(map(emulated_threads.Value, words))) for words in both))
    found = np.stack([word.array for word in outputs], 1)
    np.testing.assert_array_equal(found.view(np.uint8).ravel(), wanted)


@pytest.mark.parametrize("multiplier", [255, 256, 10_023, 2**38 - 2**14])
def test_quotients_of_a_softmax_are_rounded_exactly(written, monkeypatch, multiplier):
    from dmlax._fused.softmax.cuda.kernel import _Divisor

    rng = np.random.default_rng(multiplier)
    totals = np.ldexp(rng.integers(2**23, 2**24, 40_000) / 2**23, rng.integers(111, 120, 40_000))
    totals[::2] = multiplier * np.exp2(np.rint(np.log2(totals[::2] / multiplier)))  # ties exist
    ties = rng.integers(0, 260, 40_000) + 0.5
    terms = (ties * totals / multiplier).astype(np.float32).view(np.int32)
    terms = (terms + rng.integers(-2, 3, 40_000)).astype(np.int32).view(np.float32)
    quotients = terms.astype(np.float64) * multiplier / totals
    assert (quotients == ties).sum() > 1_000
    emulated_threads.emulate(monkeypatch)
    emulated_threads.begin(40_000, 0, 0)
    total = emulated_threads.Value(totals.astype(np.float32).view(np.uint32))
    term = emulated_threads.Value(terms.view(np.uint32))
    divisor = _Divisor.of(total, float(multiplier))
    np.testing.assert_array_equal(divisor.divide(term, float(multiplier)).array, np.rint(quotients))
    low, high = divisor.bounds(term)
    assert (low.array <= np.rint(quotients)).all()
    assert (np.rint(quotients) <= high.array).all()
    sure = np.abs(quotients - ties) > 2.0**-20 * ties
    assert (low.array == high.array)[sure].all()

// Functions of float32 as fixed sequences, compiled once for each SIMD header. Each is the sequence
// of its namesake in `_core/float_functions.py`, operation for operation; nothing is contracted.
#include "dmlax/_fused/exact_floats/cpu/functions_kernels.h"

#include "dmlax/_fused/exact_floats/cpu/float_bits.h"

namespace dmlax::DMLAX_ISA_NAMESPACE {
namespace {

constexpr int32_t kLeastMantissa = 0x3f3504f3;  // the square root of one half
constexpr float kInfinite = __builtin_inff();
constexpr float kLn2Top = 0.693145751953125f, kLn2Rest = 1.4286068e-06f;

struct Pair {
  Floats high, low;

  Floats rounded() const { return high + low; }
  Pair plus(Floats more) const { return {high, low + more}; }
  Pair scaled(Floats power) const { return {high * power, low * power}; }
  Pair operator-() const { return {-high, -low}; }
};

inline Floats to_floats(Ints x) { return __builtin_convertvector(x, Floats); }
inline Ints to_integers(Floats x) { return __builtin_convertvector(x, Ints); }
inline Floats magnitude(Floats x) { return floats(magnitude_bits(x)); }
inline Floats put_sign(Floats of, Floats x) { return floats((bits(of) & kSign) | bits(x)); }
inline Pair pair(float high, float low) { return {all(high), all(low)}; }

inline Floats flush(Floats x) {
  return floats((bits(x) & kInfinity) == 0 ? bits(x) & kSign : bits(x));
}

inline Floats finish(Floats x) {
  const Ints size = magnitude_bits(x);
  const Ints kept = size <= kLeastNormal ? bits(x) & kSign : bits(x);
  return floats(size > kInfinity ? Ints{} + kNan : kept);
}

inline Floats limit(Floats x, float low, float high) { return clip(x, all(low), all(high)); }

inline Floats power_of_two(Ints exponent) {
  exponent = exponent < -60 ? Ints{} - 60 : exponent;
  return floats((exponent + 127) << kFraction);
}

inline Floats scale(Floats x, Ints exponent) {
  const Ints of = bits(x) + (exponent << kFraction);
  return floats(of < kLeastNormal ? Ints{} : of > kInfinity ? Ints{} + kInfinity : of);
}

inline Floats round_to_even(Floats x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

inline Pair sum_of_ordered(Floats x, Floats y) {
  const Floats total = x + y;
  return {total, y - (total - x)};
}

inline Pair sum_of(Floats x, Floats y) {
  const Floats total = x + y, of_y = total - x;
  return {total, (x - (total - of_y)) + (y - of_y)};
}

inline Pair product_of(Floats x, Floats y) {
  const Floats product = x * y;
  const Floats a = floats(bits(x) & ~0xfff), c = floats(bits(y) & ~0xfff), b = x - a, d = y - c;
  return {product, (((a * c - product) + a * d) + b * c) + b * d};
}

inline Pair product_of(Pair x, Pair y) {
  const Floats cross = x.high * y.low + x.low * y.high;
  return product_of(x.high, y.high).plus(cross);
}

inline Pair quotient_of(Pair x, Pair y) {
  const Floats quotient = x.high / y.high;
  const Pair product = product_of(quotient, y.high);
  const Floats rest = ((x.high - product.high) - product.low) + x.low;
  return {quotient, (rest - quotient * y.low) / y.high};
}

// The constant term is first.
template <size_t count>
inline Floats polynomial_of(const float (&coefficients)[count], Floats x) {
  Floats value = all(coefficients[count - 1]);
  for (size_t i = count - 1; i-- > 0;) value = value * x + all(coefficients[i]);
  return value;
}

inline Pair from(float high, float low, Floats x) { return sum_of(all(high), x).plus(all(low)); }

inline Pair exponential_of_rest(Pair x) {
  constexpr float kTerms[] = {0.16666667f, 0.041666463f, 0.008333209f, 0.0013935136f,
                              0.00019943497f};
  const Floats square = x.high * x.high;
  const Floats cube = (square * x.high) * polynomial_of(kTerms, x.high);
  const Floats low = x.low + x.low * x.high;
  const Pair sum = sum_of_ordered(all(1), x.high).plus(square * 0.5f + (low + cube));
  return sum_of_ordered(sum.high, sum.low);
}

struct Exponential {
  Pair value;
  Ints exponent;

  Pair scaled() const { return value.scaled(power_of_two(exponent)); }
  Floats rounded() const { return scale(value.rounded(), exponent); }
};

inline Pair rest_of_exponent(Floats x, Floats count) {
  return sum_of(x - count * kLn2Top, count * -kLn2Rest);
}

inline Exponential exponential(Floats x) {
  const Floats count = round_to_even(x * 1.442695f);
  return {exponential_of_rest(rest_of_exponent(x, count)), to_integers(count)};
}

inline Exponential exponential(Pair x) {
  const Floats count = round_to_even(x.high * 1.442695f);
  const Pair rest = rest_of_exponent(x.high, count).plus(x.low);
  return {exponential_of_rest(sum_of(rest.high, rest.low)), to_integers(count)};
}

Floats exp(Floats x) { return exponential(limit(x, -105, 88.8f)).rounded(); }

Floats exp2(Floats x) {
  x = limit(x, -151, 128.4f);
  const Floats count = round_to_even(x);
  const Pair rest = product_of({x - count, Floats{}}, pair(0.6931472f, -1.9046542e-09f));
  return scale(exponential_of_rest(rest).rounded(), to_integers(count));
}

Floats expm1(Floats x) {
  const Exponential power = exponential(limit(x, -20, 88.8f));
  const Ints few = power.exponent > 40 ? Ints{} + 40 : power.exponent;
  const Pair whole = power.value.scaled(power_of_two(few));
  const Floats less = sum_of(whole.high, all(-1)).plus(whole.low).rounded();
  return magnitude(x) < 0x1p-26f ? x : power.exponent > 40 ? power.rounded() : less;
}

inline Pair logarithm(Floats of, Floats lost, Ints exponent, Floats more = Floats{}) {
  constexpr float kTerms[] = {0.33333334f, -0.24999973f, 0.19999947f, -0.16669054f, 0.14288676f,
                              -0.12432013f, 0.10999745f, -0.10744604f, 0.107658274f,
                              -0.062561065f};
  const auto [x, low] = sum_of(of, lost).plus(more);
  const Pair half = product_of(x, x).scaled(all(0.5f));
  Pair sum = sum_of_ordered(x, -half.high);
  const Floats cube = (x * (half.high * 2.0f)) * polynomial_of(kTerms, x);
  Floats rest = (sum.low - half.low) + cube;
  rest = rest + (low - low * x);
  const Floats count = to_floats(exponent);
  rest = rest + count * kLn2Rest;
  return sum_of(count * kLn2Top, sum.high).plus(rest);
}

struct Mantissa {
  Floats less_one;
  Ints exponent;

  explicit Mantissa(Floats x) {
    const Words of = reinterpret_cast<Words>(x);  // wraps
    exponent = reinterpret_cast<Ints>(of - static_cast<uint32_t>(kLeastMantissa)) >> kFraction;
    less_one = reinterpret_cast<Floats>(of - (reinterpret_cast<Words>(exponent) << kFraction)) - 1.0f;
  }
};

Floats log(Floats x) {
  const Mantissa of(x);
  const Floats value = logarithm(of.less_one, Floats{}, of.exponent).rounded();
  const Floats least = x == 0.0f ? all(-kInfinite) : x < 0.0f ? floats(Ints{} + kNan) : value;
  return x == kInfinite ? x : least;
}

Floats log1p(Floats x) {
  const auto [total, low] = sum_of(all(1), x);
  const Mantissa of(total);
  const Floats value =
      logarithm(of.less_one, low * power_of_two(-of.exponent), of.exponent).rounded();
  const Floats least = x == -1.0f ? all(-kInfinite) : x < -1.0f ? floats(Ints{} + kNan) : value;
  return (x == kInfinite) | (magnitude(x) < 0x1p-26f) ? x : least;
}

Floats softplus(Floats x) {
  const Exponential power = exponential(limit(-magnitude(x), -105, 0));
  const auto [high, low] = power.scaled();
  const auto [total, lost] = sum_of_ordered(all(1), high);
  const Ints is_double = (total > 1.4142135f) & 1;
  const Floats half = floats((127 - is_double) << kFraction);
  const Pair of = logarithm(total * half - 1.0f, lost * half, is_double, low * half);
  const Floats above = sum_of(x > 0.0f ? x : Floats{}, of.high).plus(of.low).rounded();
  return (x < 0.0f) & (power.exponent < -30) ? power.rounded() : x == kInfinite ? x : above;
}

struct Logistic {
  Pair above, below;
  Ints exponent;

  explicit Logistic(Pair x) {
    const Exponential power = exponential(-x);
    const auto [high, low] = power.scaled();
    const Pair divisor = sum_of_ordered(all(1), high).plus(low);
    above = quotient_of(pair(1, 0), divisor);
    below = quotient_of(power.value, divisor);
    exponent = power.exponent;
  }
};

Floats sigmoid(Floats x) {
  const Logistic of({limit(magnitude(x), 0, 105), Floats{}});
  return x < 0.0f ? scale(of.below.rounded(), of.exponent) : of.above.rounded();
}

Floats tanh(Floats x) {
  const auto [high, low] = exponential(limit(magnitude(x), 0, 10) * -2.0f).scaled();
  const Pair quotient = quotient_of(sum_of_ordered(all(1), -high).plus(-low),
                                    sum_of_ordered(all(1), high).plus(low));
  return magnitude(x) < 0x1p-12f ? x : put_sign(x, quotient.rounded());
}

Floats erf(Floats x) {
  constexpr float kNear[] = {0.12837917f, -0.3761263f, 0.11283618f, -0.026855126f,
                             0.005190734f, -0.00080307614f, 7.920368e-05f};
  constexpr float kMiddle[] = {0.64293104f, -0.4821983f, 0.026791124f, 0.15068245f,
                               -0.053291466f, -0.026661076f, 0.01847585f};
  constexpr float kFar[] = {-2.6389675f, -0.8431071f, -0.041563395f, 0.010046422f,
                            -0.0020121888f, 0.00028980913f, -2.1777725e-05f};
  const Floats size = limit(magnitude(x), 0, 4);
  const Ints is_least = size < 0x1p-40f;
  const Floats scaled = is_least ? size * 0x1p40f : size;
  const Floats plain = scaled + scaled * polynomial_of(kNear, size * size);
  Floats rest = size - 0.75f;
  const Floats middle =
      from(0.71115565f, -1.9346363e-08f, rest * polynomial_of(kMiddle, rest)).rounded();
  rest = (size < 1.0f ? all(1) : size) - 1.0f;
  const Pair far = from(-1.8496056f, 5.0369486e-08f, rest * polynomial_of(kFar, rest));
  const auto [high, low] = exponential(far).scaled();
  const Floats complement = sum_of_ordered(all(1), -high).plus(-low).rounded();
  const Floats near = is_least ? scale(plain, Ints{} - 40) : plain;
  return put_sign(x, size < 0.5f ? near : size < 1.0f ? middle : complement);
}

inline Floats times(Floats x, Pair y) {
  const auto [high, low] = product_of(x, y.high);
  return high + (low + x * y.low);
}

inline Floats of_gate(Floats x, Floats above, Floats below) {
  const Floats value = x < 0.0f ? -below : x > 12.0f ? x : above;
  return magnitude(x) < 0x1p-30f ? flush(x * 0.5f) : value;
}

Floats gelu(Floats x) {
  constexpr float kTail[] = {-0.096526764f, -0.016432181f, 0.045164112f, -0.022729494f,
                             0.0011586295f, 0.0030076483f, -0.0003462059f, -0.00051036745f,
                             4.203613e-06f, 8.2432234e-05f, 1.9857323e-05f};
  constexpr float kNear[] = {0.3989423f, -0.06649038f, 0.009973557f, -0.0011873282f};
  const Floats size = limit(magnitude(x), 0, 14);
  const Exponential power = exponential(product_of(size, size).scaled(all(-0.5f)));
  const Pair quotient = quotient_of(pair(6, 0), sum_of(size, all(3)));
  const Floats place = sum_of(all(1), -quotient.high).plus(-quotient.low).rounded();
  const Pair rest = from(0.4860558f, 2.0442275e-09f, place * polynomial_of(kTail, place));
  const Pair far = quotient_of(product_of(power.value, rest), sum_of(all(1), size));
  const Pair near = sum_of_ordered(all(0.5f), -(size * polynomial_of(kNear, size * size)));
  const Ints is_near = size < 0.25f;
  const Pair tail = {is_near ? near.high : far.high, is_near ? near.low : far.low};
  const Floats below = scale(times(size, tail), power.exponent);
  const auto [high, low] = tail.scaled(power_of_two(power.exponent));
  return of_gate(x, times(size, sum_of_ordered(all(1), -high).plus(-low)), below);
}

Floats gelu_tanh(Floats x) {
  const Floats size = limit(magnitude(x), 0, 12);
  const Pair inner = product_of(pair(0.071354814f, 2.3988325e-09f), product_of(size, size));
  const Pair slope = from(1.5957692f, -4.534068e-08f, inner.high).plus(inner.low);
  const Logistic of(product_of({size, Floats{}}, slope));
  return of_gate(x, times(size, of.above), scale(times(size, of.below), of.exponent));
}

inline Floats square_root(Floats x) {
  for (int i = 0; i < kLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
}

Floats rsqrt(Floats x) {
  const Ints exponent = (magnitude_bits(x) >> kFraction) - 127, is_odd = exponent & 1;
  const Floats mantissa = floats((bits(x) & (kLeastNormal - 1)) | ((is_odd + 127) << kFraction));
  const Floats root = square_root(mantissa), inverse = 1.0f / root;
  const Pair square = product_of(root, root);
  const Floats lost = (((mantissa - square.high) - square.low) * 0.5f) * inverse;
  const Pair unit = product_of(inverse, root);
  const Floats rest = ((1.0f - unit.high) - unit.low) - inverse * lost;
  const Floats usual = scale(inverse + inverse * rest, (is_odd - exponent) >> 1);
  const Floats value = x == kInfinite ? Floats{} : x < 0.0f ? floats(Ints{} + kNan) : usual;
  return x == 0.0f ? put_sign(x, all(kInfinite)) : value;
}

template <Floats (*function)(Floats)>
void apply(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t lanes = count - i < kLanes ? count - i : kLanes;
    const Floats x = lanes == kLanes ? load(from + i) : load_some(from + i, lanes);
    const Ints is_nan = magnitude_bits(x) > kInfinity;
    const Floats number = flush(floats(bits(x) & ~is_nan));
    const Ints value = bits(finish(function(number)));
    const Floats result = floats((value & ~is_nan) | (is_nan & kNan));
    lanes == kLanes ? store(to + i, result) : store_some(to + i, result, lanes);
  }
}

}  // namespace

template <>
const ExactFunctionKernels Table<ExactFunctionKernels>::kernels = {
    {apply<exp>, apply<exp2>, apply<expm1>, apply<log>, apply<log1p>, apply<softplus>,
     apply<sigmoid>, apply<tanh>, apply<erf>, apply<gelu>, apply<gelu_tanh>, apply<rsqrt>}};

}  // namespace dmlax::DMLAX_ISA_NAMESPACE

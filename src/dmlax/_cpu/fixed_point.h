// Estimates of exact outputs, products of sums and multipliers, as fixed-point numbers in a
// float32.
//
// One fused operation gives acc * m / 512 + 1.5 + 2^-10 + 2^-23. If |acc * m| < 256, the result is
// in [1, 2), where floats are 2^-23 apart. Its bits above kFixedShift are an integer, round(acc *
// m) + kFixedZero. The bits below are a fraction, which is 1 at a tie. Products beyond 256 give
// larger or smaller words, which saturate like integers.
//
// The error is less than 1 bit. m and the float32 of acc have relative errors of 2^-24, and m has
// three of 2^-53. Together they are less than 0.4991 for ties between outputs, which are below
// 255.5. The operation rounds by at most 0.5. A fraction of 2 or more is therefore above its tie. A
// fraction below 0, which belongs to the integer before, is below its tie. Both integers are right.
// A fraction of 0 or 1 is near a tie.
//
// A sum of two products is another fixed-point number, with its offset in the origin. Its error is
// up to 2 or 4 bits, so its ties have a fraction of 2 or 4, and fractions below twice that are near
// a tie.
#pragma once

#include <cstdint>

namespace dmlax {

constexpr float kFixedScale = 0x1p-9f;  // scales multipliers exactly
constexpr float kFixedOrigin = 1.5f + 0x1p-10f + 0x1p-23f;
constexpr int kFixedShift = 14;
constexpr int32_t kFixedZero = 0xff00;
constexpr int32_t kNotNearTie = 0x3ffe;  // has a bit of every fraction far from a tie

}  // namespace dmlax

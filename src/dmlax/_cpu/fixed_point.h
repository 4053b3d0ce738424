// Products of sums and multipliers, exact outputs' estimates, as fixed-point numbers in a float32.
//
// One fused operation gives acc * m / 512 + 1.5 + 2^-10 + 2^-23. Where |acc * m| < 256 that is in
// [1, 2), whose floats are 2^-23 apart: above kFixedShift bits are an integer, round(acc * m) +
// kFixedZero, and below them a fraction, which is 1 at a tie. Products beyond 256 give larger or
// smaller words, which saturate as integers do.
//
// The bits are less than 1 off: m and the float32 of acc have relative errors of 2^-24 each, and m
// three of 2^-53 besides, together less than 0.4991 for ties between outputs, which are below 255.5;
// the operation rounds by 0.5 at most. So a fraction of 2 or more is above its tie, and one below 0,
// which belongs to the integer before, is below it: both integers are right. A fraction of 0 or 1 is
// near a tie.
//
// A sum of two products is another such number, with its offset in the origin. It is up to 2 or 4 bits
// off, so its ties have a fraction of 2 or 4, and fractions below twice that are near one.
#ifndef DMLAX_CPU_FIXED_POINT_H_
#define DMLAX_CPU_FIXED_POINT_H_

#include <cstdint>

namespace dmlax {

constexpr float kFixedScale = 0x1p-9f;  // of multipliers, exactly
constexpr float kFixedOrigin = 1.5f + 0x1p-10f + 0x1p-23f;
constexpr int kFixedShift = 14;
constexpr int32_t kFixedZero = 0xff00;
constexpr int32_t kNotNearTie = 0x3ffe;  // has a bit of every other fraction

}  // namespace dmlax

#endif  // DMLAX_CPU_FIXED_POINT_H_

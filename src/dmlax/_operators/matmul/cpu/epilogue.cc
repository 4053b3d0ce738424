// Handlers of a product's epilogue for parameters that vary between rows, or for floats.
//
// Doubles estimate. If the error leaves two results, integers decide. Scales may be subnormal, so
// subnormals are kept.
#include "dmlax/_cpu/broadcast.h"
#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/ieee_mode.h"
#include "dmlax/_cpu/wide_float.h"

namespace dmlax {
namespace {

constexpr int64_t kPiece = tuning::kEpiloguePiece;

// The operands of a call, which broadcast to the output.
template <size_t kOperands>
struct Operands {
  BroadcastAxes<kOperands> axes;
  std::array<const void*, kOperands> data;

  // Reads `count` elements of every operand from `begin` on.
  template <typename... T>
  void read(int64_t begin, int64_t count, T*... values) const {
    size_t i = 0;
    (read_operand(i++, begin, count, values), ...);
  }

 private:
  template <typename T>
  void read_operand(size_t i, int64_t begin, int64_t count, T* values) const {
    expand(axes, axes.count, i, static_cast<const T*>(data[i]), begin, count, values);
  }
};

// Runs piece(operands, begin, count) for all elements, unless the operands do not fit.
template <size_t kOperands, typename Piece>
Outcome run(ffi::ThreadPool& pool, const Inputs<kOperands>& inputs, const ffi::AnyBuffer& output,
            const Piece& piece) {
  if (output.element_count() == 0) return {};
  Operands<kOperands> operands;
  if (const char* wrong = broadcast(operands.axes, inputs, output)) return wrong;
  for (size_t i = 0; i < kOperands; ++i) operands.data[i] = inputs[i].untyped_data();
  if (operands.axes.count == 0) {  // one element
    operands.axes.count = 1;
    operands.axes.size[0] = 1;
    operands.axes.stride[0].fill(0);
  }
  parallel_for_ranges(pool, element_count(output), tuning::kEpilogue,
                      [&](int64_t begin, int64_t end) {
                        const IeeeMode mode;
                        for (int64_t at = begin; at < end; at += kPiece) {
                          piece(operands, at, std::min(kPiece, end - at));
                        }
                      });
  return {};
}

// --- to bytes ----------------------------------------------------------------------------

// Estimates have three relative errors of 2^-53 and are below 2^9, so errors matter only this near
// a tie.
constexpr double kTieBand = 0x1p-40;
constexpr double kRoundShift = 0x1.8p52;  // adding and subtracting it rounds to even

double clamp(double value, double low, double high) {
  const double raised = value > low ? value : low;  // NaN gives the lowest value
  return raised < high ? raised : high;
}

// round(total * a * b / y). Returns a nonzero value if the estimate is near a tie.
uint32_t round_quickly(double total, float a, float b, float y, double& rounded) {
  const double factor = static_cast<double>(a) * b / y;
  const double estimate = clamp(total * factor, -511, 511);
  rounded = (estimate + kRoundShift) - kRoundShift;
  return __builtin_fabs(estimate - rounded) > 0.5 - kTieBand;
}

// clamp(round(total * a * b / y) + zero point) in ONNX Runtime's float32.
uint8_t requantize_float32(int64_t total, float a, float b, float y, int32_t zero_point,
                           bool is_signed) {
  const int32_t lowest = lowest_byte(is_signed) - zero_point;
  const float product = static_cast<float>(total) * (a * b / y);
  const double clamped = clamp(product, lowest, lowest + 255);
  const double rounded = (clamped + kRoundShift) - kRoundShift;
  return saturate(static_cast<int32_t>(rounded) + zero_point, is_signed);
}

using ByteOperands = Operands<6>;

// The operands of some neighbouring elements.
struct BytePiece {
  int32_t sums[kPiece], bias[kPiece];
  float a[kPiece], b[kPiece], y[kPiece];
  uint8_t zeros[kPiece];

  void read(const ByteOperands& operands, int64_t at, int64_t count) {
    operands.read(at, count, sums, a, b, y, zeros, bias);
  }

  int64_t total(int64_t i) const { return int64_t{sums[i]} + bias[i]; }

  int32_t zero_point(int64_t i, bool is_signed) const { return byte_value(zeros[i], is_signed); }
};

__attribute__((noinline)) void requantize_piece(const ByteOperands& operands, int64_t at,
                                                int64_t count, bool is_signed, uint8_t* output) {
  BytePiece piece;
  piece.read(operands, at, count);
  double rounded[kPiece];
  uint32_t doubt[kPiece];
  for (int64_t i = 0; i < count; ++i) {
    const double total = static_cast<double>(piece.sums[i]) + static_cast<double>(piece.bias[i]);
    doubt[i] = round_quickly(total, piece.a[i], piece.b[i], piece.y[i], rounded[i]);
  }
  for (int64_t i = 0; i < count; ++i) {
    int32_t value = static_cast<int32_t>(rounded[i]);
    if (doubt[i] != 0) {
      value = round_wide(piece.total(i),
                         {to_bits(piece.a[i]), to_bits(piece.b[i]), to_bits(piece.y[i])});
    }
    output[at + i] = saturate(value + piece.zero_point(i, is_signed), is_signed);
  }
}

__attribute__((noinline)) void requantize_piece_float32(const ByteOperands& operands, int64_t at,
                                                        int64_t count, bool is_signed,
                                                        uint8_t* output) {
  BytePiece piece;
  piece.read(operands, at, count);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t zero_point = piece.zero_point(i, is_signed);
    output[at + i] = requantize_float32(piece.total(i), piece.a[i], piece.b[i], piece.y[i],
                                        zero_point, is_signed);
  }
}

enum ByteOperand { kSums, kAScale, kBScale, kOutputScale, kZeroPoint, kByteBias };

Outcome requantize_sums(const Call<NoKernels>& call, const Inputs<6>& inputs, Output output,
                        bool exact) {
  if (!is_int32(inputs[kSums]) || !is_int32(inputs[kByteBias]) || !is_float32(inputs[kAScale]) ||
      !is_float32(inputs[kBScale]) || !is_float32(inputs[kOutputScale]) || !is_byte(*output) ||
      !have_same_type(inputs[kZeroPoint], *output)) {
    return "an element type is not the operator's";
  }
  const bool is_signed = is_signed_byte(*output);
  uint8_t* bytes = data_of<uint8_t>(*output);
  const auto& piece = exact ? requantize_piece : requantize_piece_float32;
  return run(call.pool, inputs, *output,
             [&](const ByteOperands& operands, int64_t at, int64_t count) {
               piece(operands, at, count, is_signed, bytes);
             });
}

// --- to floats ---------------------------------------------------------------------------

// sum * a * b + bias, rounded once. A bias that is not finite is the result.
uint32_t scale_exactly(int32_t sum, uint32_t a, uint32_t b, uint32_t bias,
                       const FloatFormat& format) {
  if ((bias & format.infinity) == format.infinity) return bias;  // infinite or NaN
  const Unpacked x = unpack(a), y = unpack(b);
  const uint32_t magnitude = sum < 0 ? 0u - static_cast<uint32_t>(sum) : static_cast<uint32_t>(sum);
  const uint64_t scale = static_cast<uint64_t>(x.mantissa) * y.mantissa;
  const bool negative = (sum < 0) ^ x.negative ^ y.negative;
  const WideFloat product = {negative, static_cast<Wide>(scale) * magnitude,
                             x.exponent + y.exponent};
  return round_to(add(product, widen(bias, format)), format);
}

// Estimates `scale_exactly` in doubles: the product of the scales is exact, the other two
// operations round. Returns a nonzero value if the error leaves two results or the result is NaN.
uint32_t scale_quickly(int32_t sum, float a, float b, float bias, float& result) {
  const double product = static_cast<double>(sum) * (static_cast<double>(a) * b);
  const double total = product + static_cast<double>(bias) + 0.0;  // -0 becomes +0
  const double error = (__builtin_fabs(product) + __builtin_fabs(total)) * 0x1p-51;
  const float low = static_cast<float>(total - error), high = static_cast<float>(total + error);
  result = low;
  return (to_bits(low) ^ to_bits(high)) | (low != low);
}

// sum * a * b in ONNX Runtime's float32, rounded after each operation.
float scale_float32(int32_t sum, float a, float b) { return static_cast<float>(sum) * (a * b); }

uint32_t float32_of(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & kFloat16.sign) << 16;
  if ((half & kFloat16.infinity) == kFloat16.infinity) {
    return sign | kFloat32.infinity | static_cast<uint32_t>(half & 0x3ff) << 13;
  }
  const WideFloat x = widen(half, kFloat16);
  return pack(x.negative, static_cast<uint64_t>(x.magnitude), x.exponent, false);
}

// Rounds a float32 to float16.
uint16_t narrow(uint32_t bits) {
  const uint32_t sign = bits >> 16 & kFloat16.sign, magnitude = bits & ~kFloat32.sign;
  if (magnitude > kFloat32.infinity) {
    return static_cast<uint16_t>(sign | kFloat16.infinity | 0x200 | (magnitude >> 13 & 0x1ff));
  }
  if (magnitude == kFloat32.infinity) return static_cast<uint16_t>(sign | kFloat16.infinity);
  const Unpacked x = unpack(bits);
  return static_cast<uint16_t>(pack(x.negative, x.mantissa, x.exponent, false, kFloat16));
}

using FloatOperands = Operands<4>;

struct Scaling {
  bool has_bias, exact;
};

__attribute__((noinline)) void scale_piece(const FloatOperands& operands, int64_t at, int64_t count,
                                           const Scaling& scaling, float* output) {
  int32_t sums[kPiece];
  float a[kPiece], b[kPiece], bias[kPiece];
  operands.read(at, count, sums, a, b, bias);
  float* scaled = output + at;
  if (!scaling.exact) {
    for (int64_t i = 0; i < count; ++i) {
      const float product = scale_float32(sums[i], a[i], b[i]);
      scaled[i] = scaling.has_bias ? product + bias[i] : product;
    }
    return;
  }
  uint32_t doubt[kPiece];
  for (int64_t i = 0; i < count; ++i) {
    doubt[i] = scale_quickly(sums[i], a[i], b[i], bias[i], scaled[i]);
  }
  for (int64_t i = 0; i < count; ++i) {
    if (doubt[i] == 0) continue;
    scaled[i] =
        from_bits(scale_exactly(sums[i], to_bits(a[i]), to_bits(b[i]), to_bits(bias[i]), kFloat32));
  }
}

__attribute__((noinline)) void scale_piece_to_halves(const FloatOperands& operands, int64_t at,
                                                     int64_t count, const Scaling& scaling,
                                                     uint16_t* output) {
  int32_t sums[kPiece];
  uint32_t a[kPiece], b[kPiece];
  uint16_t bias[kPiece];
  operands.read(at, count, sums, a, b, bias);
  for (int64_t i = 0; i < count; ++i) {
    if (scaling.exact) {
      output[at + i] = static_cast<uint16_t>(scale_exactly(sums[i], a[i], b[i], bias[i], kFloat16));
      continue;
    }
    const float product = scale_float32(sums[i], from_bits(a[i]), from_bits(b[i]));
    const float addend = from_bits(float32_of(bias[i]));
    output[at + i] = narrow(to_bits(scaling.has_bias ? product + addend : product));
  }
}

Outcome scale_sums(const Call<NoKernels>& call, const Inputs<4>& inputs, Output output,
                   bool has_bias, bool exact) {
  const auto& [sums, a_scale, b_scale, bias] = inputs;
  const bool to_float16 = output->element_type() == ffi::DataType::F16;
  if (!is_int32(sums) || !is_float32(a_scale) || !is_float32(b_scale) ||
      (!to_float16 && !is_float32(*output)) || !have_same_type(bias, *output)) {
    return "an element type is not the operator's";
  }
  const Scaling scaling = {has_bias, exact};
  void* data = output->untyped_data();
  return run(call.pool, inputs, *output,
             [&](const FloatOperands& operands, int64_t at, int64_t count) {
               if (to_float16) {
                 scale_piece_to_halves(operands, at, count, scaling, static_cast<uint16_t*>(data));
               } else {
                 scale_piece(operands, at, count, scaling, static_cast<float*>(data));
               }
             });
}

}  // namespace
}  // namespace dmlax

DMLAX_HANDLER(dmlax_requantize_sums, "matrix product's epilogue", requantize_sums, "exact")

DMLAX_HANDLER(dmlax_scale_sums, "matrix product's epilogue", scale_sums, "has_bias", "exact")

// XLA's handlers of a product's epilogue, where each row does not do alike.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "dmlax/_cpu/broadcast.h"
#include "dmlax/_cpu/ffi.h"
#include "dmlax/_cpu/ieee_mode.h"
#include "dmlax/_cpu/parallel_for.h"
#include "dmlax/_matmul/cpu/epilogue.h"

namespace dmlax {

namespace {

namespace ffi = xla::ffi;

constexpr int64_t kSerialElements = 1 << 14;  // up to these a second thread is no help
constexpr int64_t kChunk = 1 << 12;           // elements: one task
constexpr int64_t kPiece = 512;               // elements whose parameters are expanded at once

ffi::Error invalid(const std::string& what) {
  return ffi::Error::InvalidArgument("matrix product's epilogue: " + what);
}

// The operands' elements, one each, of some elements of the output.
template <size_t kOperands>
struct Operands {
  BroadcastAxes<kOperands> axes;
  std::array<const void*, kOperands> data;

  template <typename T>
  void read(size_t operand, int64_t begin, int64_t count, T* values) const {
    expand(axes, axes.count, operand, static_cast<const T*>(data[operand]), begin, count, values);
  }
};

// Runs all elements in pieces, unless the buffers do not fit one another.
template <size_t kOperands, typename Piece>
ffi::Error run(ffi::ThreadPool& pool, const std::array<ffi::AnyBuffer, kOperands>& given,
               const ffi::AnyBuffer& output, const Piece& piece) {
  const int64_t elements = static_cast<int64_t>(output.element_count());
  if (elements == 0) return ffi::Error::Success();
  Operands<kOperands> operands;
  std::array<Sizes, kOperands> sizes;
  for (size_t i = 0; i < kOperands; ++i) sizes[i] = given[i].dimensions();
  if (!merge_axes(operands.axes, output.dimensions(), sizes)) {
    return invalid("an operand does not broadcast to the output");
  }
  if (is_null(output) || std::any_of(given.begin(), given.end(), is_null)) {
    return invalid("a buffer is null");
  }
  for (size_t i = 0; i < kOperands; ++i) operands.data[i] = given[i].untyped_data();
  if (operands.axes.count == 0) {  // one element
    operands.axes.count = 1;
    operands.axes.size[0] = 1;
    operands.axes.stride[0].fill(0);
  }
  parallel_for_ranges(pool, elements, kSerialElements, kChunk, [&](int64_t begin, int64_t end) {
    const IeeeMode mode;
    for (int64_t at = begin; at < end; at += kPiece) piece(operands, at, std::min(kPiece, end - at));
  });
  return ffi::Error::Success();
}

bool is_float32(const ffi::AnyBuffer& buffer) {
  return buffer.element_type() == ffi::DataType::F32;
}

bool is_int32(const ffi::AnyBuffer& buffer) { return buffer.element_type() == ffi::DataType::S32; }

// --- to bytes ----------------------------------------------------------------------------

using ByteOperands = Operands<6>;

// The operands of some elements.
struct BytePiece {
  int32_t sums[kPiece], bias[kPiece];
  float a[kPiece], b[kPiece], y[kPiece];
  uint8_t zeros[kPiece];

  void read(const ByteOperands& operands, int64_t at, int64_t count) {
    operands.read(0, at, count, sums);
    operands.read(1, at, count, a);
    operands.read(2, at, count, b);
    operands.read(3, at, count, y);
    operands.read(4, at, count, zeros);
    operands.read(5, at, count, bias);
  }

  int64_t total(int64_t i) const { return int64_t{sums[i]} + bias[i]; }

  int32_t zero_point(int64_t i, bool is_signed) const {
    return is_signed ? static_cast<int8_t>(zeros[i]) : zeros[i];
  }
};

__attribute__((noinline)) void requantize_piece(const ByteOperands& operands, int64_t at,
                                                int64_t count, bool is_signed, uint8_t* output) {
  BytePiece own;
  own.read(operands, at, count);
  const ByteRange range(is_signed);
  double rounded[kPiece];
  uint32_t doubt[kPiece];
  for (int64_t i = 0; i < count; ++i) {
    const double total = static_cast<double>(own.sums[i]) + static_cast<double>(own.bias[i]);
    doubt[i] = round_quickly(total, own.a[i], own.b[i], own.y[i], rounded[i]);
  }
  for (int64_t i = 0; i < count; ++i) {
    int32_t value = static_cast<int32_t>(rounded[i]);
    if (doubt[i] != 0) {
      value = round_wide(own.total(i), {bits_of(own.a[i]), bits_of(own.b[i]), bits_of(own.y[i])});
    }
    output[at + i] = range.saturate(value + own.zero_point(i, is_signed));
  }
}

__attribute__((noinline)) void requantize_piece_float32(const ByteOperands& operands, int64_t at,
                                                        int64_t count, bool is_signed,
                                                        uint8_t* output) {
  BytePiece own;
  own.read(operands, at, count);
  const ByteRange range(is_signed);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t zero_point = own.zero_point(i, is_signed);
    output[at + i] =
        requantize_float32(own.total(i), own.a[i], own.b[i], own.y[i], zero_point, range);
  }
}

ffi::Error requantize_sums(ffi::ThreadPool pool, ffi::AnyBuffer sums, ffi::AnyBuffer a_scale,
                           ffi::AnyBuffer b_scale, ffi::AnyBuffer output_scale,
                           ffi::AnyBuffer zero_point, ffi::AnyBuffer bias,
                           ffi::Result<ffi::AnyBuffer> output, bool exact) {
  if (!is_int32(sums) || !is_int32(bias) || !is_float32(a_scale) || !is_float32(b_scale) ||
      !is_float32(output_scale) || !is_byte(*output) ||
      zero_point.element_type() != output->element_type()) {
    return invalid("an element type is not the operator's");
  }
  const bool is_signed = is_signed_byte(*output);
  uint8_t* bytes = static_cast<uint8_t*>(output->untyped_data());
  const std::array<ffi::AnyBuffer, 6> given = {sums,         a_scale,    b_scale,
                                               output_scale, zero_point, bias};
  return run(pool, given, *output, [&](const ByteOperands& operands, int64_t at, int64_t count) {
    const auto& piece = exact ? requantize_piece : requantize_piece_float32;
    piece(operands, at, count, is_signed, bytes);
  });
}

// --- to floats ---------------------------------------------------------------------------

using FloatOperands = Operands<4>;

struct Scaling {
  bool has_bias, exact;
};

__attribute__((noinline)) void scale_piece(const FloatOperands& operands, int64_t at, int64_t count,
                                           const Scaling& scaling, float* output) {
  int32_t sums[kPiece];
  float a[kPiece], b[kPiece], bias[kPiece];
  operands.read(0, at, count, sums);
  operands.read(1, at, count, a);
  operands.read(2, at, count, b);
  operands.read(3, at, count, bias);
  float* own = output + at;
  if (!scaling.exact) {
    for (int64_t i = 0; i < count; ++i) {
      const float product = scale_float32(sums[i], a[i], b[i]);
      own[i] = scaling.has_bias ? product + bias[i] : product;
    }
    return;
  }
  uint32_t doubt[kPiece];
  for (int64_t i = 0; i < count; ++i) {
    doubt[i] = scale_quickly(sums[i], a[i], b[i], bias[i], own[i]);
  }
  for (int64_t i = 0; i < count; ++i) {
    if (doubt[i] == 0) continue;
    own[i] = from_bits(
        scale_exactly(sums[i], bits_of(a[i]), bits_of(b[i]), bits_of(bias[i]), kFloat32));
  }
}

__attribute__((noinline)) void scale_piece_to_halves(const FloatOperands& operands, int64_t at,
                                                     int64_t count, const Scaling& scaling,
                                                     uint16_t* output) {
  int32_t sums[kPiece];
  uint32_t a[kPiece], b[kPiece];
  uint16_t bias[kPiece];
  operands.read(0, at, count, sums);
  operands.read(1, at, count, a);
  operands.read(2, at, count, b);
  operands.read(3, at, count, bias);
  for (int64_t i = 0; i < count; ++i) {
    if (scaling.exact) {
      output[at + i] = static_cast<uint16_t>(scale_exactly(sums[i], a[i], b[i], bias[i], kFloat16));
      continue;
    }
    const float product = scale_float32(sums[i], from_bits(a[i]), from_bits(b[i]));
    const float addend = from_bits(float32_of(bias[i]));
    output[at + i] = narrow(bits_of(scaling.has_bias ? product + addend : product));
  }
}

ffi::Error scale_sums(ffi::ThreadPool pool, ffi::AnyBuffer sums, ffi::AnyBuffer a_scale,
                      ffi::AnyBuffer b_scale, ffi::AnyBuffer bias,
                      ffi::Result<ffi::AnyBuffer> output, bool has_bias, bool exact) {
  const bool to_float16 = output->element_type() == ffi::DataType::F16;
  if (!is_int32(sums) || !is_float32(a_scale) || !is_float32(b_scale) ||
      (!to_float16 && !is_float32(*output)) || bias.element_type() != output->element_type()) {
    return invalid("an element type is not the operator's");
  }
  const Scaling scaling = {has_bias, exact};
  void* data = output->untyped_data();
  const std::array<ffi::AnyBuffer, 4> given = {sums, a_scale, b_scale, bias};
  return run(pool, given, *output, [&](const FloatOperands& operands, int64_t at, int64_t count) {
    if (to_float16) {
      scale_piece_to_halves(operands, at, count, scaling, static_cast<uint16_t*>(data));
    } else {
      scale_piece(operands, at, count, scaling, static_cast<float*>(data));
    }
  });
}

}  // namespace
}  // namespace dmlax

DMLAX_DEFINE_HANDLER(dmlax_requantize_sums, dmlax::requantize_sums,
                     xla::ffi::Ffi::Bind()
                         .Ctx<xla::ffi::ThreadPool>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Ret<xla::ffi::AnyBuffer>()
                         .Attr<bool>("exact"));

DMLAX_DEFINE_HANDLER(dmlax_scale_sums, dmlax::scale_sums,
                     xla::ffi::Ffi::Bind()
                         .Ctx<xla::ffi::ThreadPool>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Arg<xla::ffi::AnyBuffer>()
                         .Ret<xla::ffi::AnyBuffer>()
                         .Attr<bool>("has_bias")
                         .Attr<bool>("exact"));

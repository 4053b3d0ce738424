// The vector instructions that kernels are written over: `Simd`, from the header of the instruction
// set that this translation unit is compiled for.
//
// A new instruction set defines a struct `Simd : OptionalFeatures` in an unnamed namespace, with
// every function of SimdInstructions and those of the features that it has. The compiler checks
// both. Algorithms that need a feature are templates of the struct, so that other sets do not
// compile them.
//
// Every set compiles its copy of the headers' functions. They have internal linkage, so that the
// linker never takes one from another set.
#pragma once

#include <concepts>
#include <cstdint>

#include "dmlax/_cpu/gemm/shape.h"
#include "dmlax/_cpu/tuning.h"

namespace dmlax {

// Features that only some instruction sets have. A set overrides those that it has.
struct OptionalFeatures {
  static constexpr bool kMultipliesRows = false;  // products of rows (gemm/rows.h), depthwise lines
  static constexpr bool kRequantizesRows = false;  // epilogues that keep factors in registers
  static constexpr bool kPacksRows = false;        // rows of few columns are packed together
  static constexpr bool kKeepsWindows = false;     // windows of depthwise lines stay in registers
  static constexpr bool kMultipliesNarrowRows = false;  // `Narrow`: columns within -64 to 64
  static constexpr bool kInterleavesPanels = false;     // a panel's quads stay in registers
  static constexpr bool kMultipliesQuads = false;  // dot products of four bytes in every lane
  static constexpr bool kPermutesBytes = false;
  static constexpr bool kExpandsBytes = false;
  static constexpr bool kStoresMasked = false;  // coordinates are written a vector at a time
  static constexpr bool kMasksFloats = false;   // the first floats of a vector are read and written
};

}  // namespace dmlax

#include DMLAX_SIMD_HEADER

namespace dmlax::DMLAX_ISA_NAMESPACE {

// The table of an operator's kernels, which a file of kernels defines.
template <typename Kernels>
struct Table {
  static const Kernels kernels;
};

namespace {

template <typename T, typename Expected>
concept Is = std::same_as<T, Expected>;

// What every instruction set has. A vector has kLanes int32 or float32; kVectors of them have a
// panel's 64 columns. column_of(vector, lane) is a lane's column: interleaving bytes permutes them.
template <typename S>
concept SimdInstructions = requires(
    typename S::Int32s v, typename S::Int32s* vectors, typename S::Floats f,
    const typename S::Columns columns, const typename S::Weights weights,
    const typename S::Table table, const void* from, void* to, const uint8_t* bytes,
    uint8_t* target, const uint8_t* const* rows, const int32_t* numbers, int32_t* sums,
    const float* floats, float* results, int32_t number, int64_t count, uint8_t flip,
    uint32_t* indices, bool is_signed) {
  { S::kTuning } -> Is<const tuning::InstructionSet&>;
  requires S::kLanes >= 1 && S::kVectorsPacked >= 1;  // int32 vectors that make a vector of bytes
  { S::column_of(0, 0) } -> Is<int>;

  // int32, modulo 2^32
  { S::load(from) } -> Is<typename S::Int32s>;
  { S::store(to, v) } -> Is<void>;
  { S::broadcast(number) } -> Is<typename S::Int32s>;
  { S::add(v, v) } -> Is<typename S::Int32s>;
  { S::subtract(v, v) } -> Is<typename S::Int32s>;
  { S::multiply(v, v) } -> Is<typename S::Int32s>;
  { S::is_zero(v) } -> Is<bool>;                 // every lane is 0
  { S::store_columns(sums, 0, v) } -> Is<void>;  // a vector's lanes, to their columns of 64
  { S::load_columns(numbers, 0) } -> Is<typename S::Int32s>;

  // Products: interleave_rows packs kKPack rows of 64 bytes as a quad of a panel, with flipped
  // bits. Columns has kKPack unsigned bytes of each of kLanes columns, Weights kKPack signed bytes
  // for all columns. multiply_add adds their products exactly, modulo 2^32.
  { S::interleave_rows(rows, 4, count, flip, target) } -> Is<void>;
  requires std::constructible_from<typename S::Columns, const uint8_t*>;
  requires std::constructible_from<typename S::Weights, int32_t>;
  { S::multiply_add(v, columns, weights) } -> Is<void>;

  // float32
  { S::broadcast_float(1.0f) } -> Is<typename S::Floats>;
  { S::load_floats(floats) } -> Is<typename S::Floats>;
  { S::store_floats(results, f) } -> Is<void>;
  { S::load_columns(floats, 0) } -> Is<typename S::Floats>;
  { S::add(f, f) } -> Is<typename S::Floats>;
  { S::multiply(f, f) } -> Is<typename S::Floats>;
  { S::divide(f, f) } -> Is<typename S::Floats>;  // IEEE quotients, except for subnormals
  { S::fused_multiply_add(f, f, f) } -> Is<typename S::Floats>;  // a * b + c, rounded once
  { S::clamp(f, f, f) } -> Is<typename S::Floats>;  // clamps to [low, high]; NaN gives the low end
  { S::to_floats(v) } -> Is<typename S::Floats>;
  { S::to_integers(f) } -> Is<typename S::Int32s>;  // rounds to nearest even, below 2^22

  // Requantization: estimate(sums, factor, low, high) is clamp(float(sums) * factor). round rounds
  // to nearest even and returns the mask of lanes that are at least `band` off. store_bytes
  // saturates kVectorsPacked vectors plus a zero point.
  { S::estimate(v, f, f, f) } -> Is<typename S::Floats>;
  { S::round(f, f, v) } -> Is<uint64_t>;
  { S::store_bytes(target, vectors, number, is_signed) } -> Is<void>;

  // Bytes
  { S::widen_bytes(bytes, flip, vectors) } -> Is<void>;  // unsigned, in store_bytes's order
  { S::store_selected(bytes, uint64_t{1}, target) } -> Is<void>;  // the bytes of a mask, packed
  { S::sum_bytes(bytes, count, flip) } -> Is<int32_t>;            // unsigned, with flipped bits
  { S::copy_even(target, bytes, count) } -> Is<int64_t>;  // every second byte; returns the number
  requires std::constructible_from<typename S::Table, const uint8_t*>;  // 256 entries
  { S::look_up(table, bytes, target) } -> Is<void>;                     // kTableBytes bytes
  requires S::kTableBytes >= 1;

  // Bits: a bit for each of 64 elements that is not zero under a mask; the indices of a word's set
  // bits, from `first` on, whose store may write up to 64 of them.
  { S::nonzero_bits(static_cast<const uint8_t*>(from), uint8_t{1}) } -> Is<uint64_t>;
  { S::nonzero_bits(static_cast<const uint16_t*>(from), uint16_t{1}) } -> Is<uint64_t>;
  { S::nonzero_bits(static_cast<const uint32_t*>(from), uint32_t{1}) } -> Is<uint64_t>;
  { S::nonzero_bits(static_cast<const uint64_t*>(from), uint64_t{1}) } -> Is<uint64_t>;
  { S::store_set_bits(uint64_t{1}, uint32_t{0}, indices) } -> Is<int64_t>;
};

// kMultipliesRows. A row and a panel are 32-bit words. kWordsOfQuad is 1 if a word is kKPack bytes,
// 2 if kKPack bytes become two pairs of 16-bit numbers.
template <typename S>
concept RowInstructions = requires(typename S::Int32s v, typename S::Int32s* vectors,
                                   const uint8_t* bytes, uint8_t* target, int64_t count) {
  requires S::kWordsOfQuad == 1 || requires {
    { S::widen_columns(v, vectors) } -> Is<void>;  // signed quads to words
    { S::widen_pixels(v, vectors) } -> Is<void>;   // unsigned quads to words
    requires S::kHalfByteSteps >= 1;               // products of half bytes that 16-bit sums hold
    { S::multiply_half_bytes(v, v, v) } -> Is<void>;
    { S::add_half_bytes(v, v, v) } -> Is<void>;
  };
  { S::multiply_words(v, v, v) } -> Is<void>;  // sums += row . columns; a row's bytes are unsigned
  { S::pack_row(target, bytes, count, uint8_t{128}) } -> Is<void>;    // words with flipped bits
  { S::transpose_words(vectors) } -> Is<void>;                        // kLanes vectors
  { S::sum_lanes(vectors) } -> Is<typename S::Int32s>;                // one sum per vector
  { S::store_bytes_in_order(target, vectors, 0, true) } -> Is<void>;  // neighbouring columns
};

// kMultipliesQuads. load_quads takes four words of each of kLanes blocks, which are `step` bytes
// apart: vector i has word i of every block, in order. multiply_quads adds the products of unsigned
// and signed bytes, four to a lane: for 8 bits those of four vectors, for 4 bits the low halves of
// four vectors and the high halves, with eight signed ones. If kHalvesBytes, vectors of 8 bits come
// in halves, too, which meet the same four signed ones.
template <typename S>
concept QuadInstructions = requires(typename S::Int32s v, typename S::Int32s* vectors,
                                    const uint8_t* bytes, int64_t step) {
  { S::kHalvesBytes } -> Is<const bool&>;
  { S::load_quads(bytes, step, vectors) } -> Is<void>;
  { S::low_half_bytes(v) } -> Is<typename S::Int32s>;
  { S::high_half_bytes(v) } -> Is<typename S::Int32s>;
  { S::template multiply_quads<4>(v, vectors, bytes) } -> Is<void>;
  { S::template multiply_quads<8>(v, vectors, bytes) } -> Is<void>;
  { S::transpose_words(vectors) } -> Is<void>;  // kLanes vectors
};

// kRequantizesRows. fixed_product and fixed_integer work in fixed point (requantize.h); NearTies
// collects whether a number is near a tie. Stores may take only the first bytes.
template <typename S>
concept RequantizeInstructions =
    requires(typename S::Int32s v, typename S::Int32s* vectors, typename S::Floats f,
             typename S::NearTies near_ties, uint8_t* target, int64_t count) {
      { S::round_product(v, f) } -> Is<typename S::Int32s>;  // nearest even, for factors below 1
      { S::fixed_product(v, f, near_ties) } -> Is<typename S::Int32s>;
      { S::fixed_integer(f, near_ties) } -> Is<typename S::Int32s>;
      { near_ties.any() } -> Is<bool>;
      { S::template store_bytes<true>(target, vectors, 0, true, count) } -> Is<void>;
      { S::template store_bytes_in_order<true>(target, vectors, 0, true, count) } -> Is<void>;
    };

// kPacksRows. store_rows_in_order stores to as many rows as the packed vectors are of. store_row
// stores 64 bytes; in_register hides a sum from the compiler, which would keep it in memory, too.
template <typename S>
concept PackInstructions =
    requires(typename S::Int32s v, typename S::Int32s* vectors,
             const typename S::ByteConstants constants, uint8_t* target, int64_t count) {
      requires std::constructible_from<typename S::ByteConstants, int32_t, bool, bool>;
      {
        S::template store_rows_in_order<2, true>(target, count, vectors, 0, true, count)
      } -> Is<void>;
      { S::template store_row<true>(target, vectors, constants) } -> Is<void>;
      { S::in_register(v) } -> Is<typename S::Int32s>;
    };

// kInterleavesPanels. interleave_vectors makes kVectors Columns of kKPack rows, from a column on.
template <typename S>
concept InterleaveInstructions = requires(typename S::Int32s v, typename S::Int32s* vectors,
                                          const uint8_t* const* rows, int64_t count, uint8_t flip) {
  { S::interleave_vectors(rows, 0, 4, count, flip, vectors) } -> Is<void>;
  requires std::constructible_from<typename S::Columns, typename S::Int32s>;
};

// kKeepsWindows. Three rows' quads, of one pixel or of parts of several; bytes to a row for each
// part.
template <typename S>
concept WindowInstructions = requires(const uint8_t* (*rows)[3], int64_t count,
                                      typename S::Int32s* vectors, uint8_t* target) {
  { S::template interleave_three<1, false>(rows, count, vectors) } -> Is<void>;
  { S::template store_rows<2, true>(target, count, vectors, 0, true, count) } -> Is<void>;
};

template <typename S>
concept ByteInstructions =
    requires(typename S::Bytes b, typename S::Int32s v, typename S::Int32s* vectors,
             typename S::Floats f, const uint8_t* bytes) {
      { S::load_bytes(bytes) } -> Is<typename S::Bytes>;
      { S::broadcast_byte(uint8_t{1}) } -> Is<typename S::Bytes>;
      { S::flip_bits(b, b) } -> Is<typename S::Bytes>;
      { S::permute_bytes(b, b) } -> Is<typename S::Bytes>;
      { S::permute_floats(f, v) } -> Is<typename S::Floats>;  // 16 indices; last bits count
      { S::first_lanes() } -> Is<typename S::Int32s>;         // 0, 1, 2, ...
      { S::to_panel_order(vectors) } -> Is<void>;  // kVectors vectors of neighbouring columns
      requires std::constructible_from<typename S::Columns, typename S::Bytes>;
    };

// Puts bytes where a mask has ones, and a fill byte elsewhere.
template <typename S>
concept ExpandInstructions = requires(uint8_t* target, const uint8_t* bytes, int64_t count) {
  { S::expand_bytes(target, bytes, count, uint64_t{1}, uint8_t{0}) } -> Is<void>;
};

template <typename S>
concept MaskInstructions =
    requires(typename S::Int32s v, typename S::Int32s* vectors, uint32_t* numbers, int64_t count) {
      { S::divide(v, uint32_t{1}, uint32_t{1}) } -> Is<typename S::Int32s>;  // multiplier and shift
      { S::interleave(v, v, vectors) } -> Is<void>;
      { S::interleave_pairs(v, v, vectors) } -> Is<void>;
      { S::store_first(numbers, count, v) } -> Is<void>;
    };

template <typename S>
concept FloatMaskInstructions =
    requires(typename S::Floats f, const float* from, float* to, int64_t count) {
      { S::load_first_floats(from, count) } -> Is<typename S::Floats>;  // zeros follow them
      { S::store_first_floats(to, f, count) } -> Is<void>;
    };

static_assert(SimdInstructions<Simd>);
static_assert(!Simd::kMultipliesRows || RowInstructions<Simd>);
static_assert(!Simd::kRequantizesRows || RequantizeInstructions<Simd>);
static_assert(!Simd::kPacksRows || PackInstructions<Simd>);
static_assert(!Simd::kInterleavesPanels || InterleaveInstructions<Simd>);
static_assert(!Simd::kKeepsWindows || WindowInstructions<Simd>);
static_assert(!Simd::kMultipliesQuads || QuadInstructions<Simd>);
static_assert(!Simd::kPermutesBytes || ByteInstructions<Simd>);
static_assert(!Simd::kExpandsBytes || ExpandInstructions<Simd>);
static_assert(!Simd::kStoresMasked || MaskInstructions<Simd>);
static_assert(!Simd::kMasksFloats || FloatMaskInstructions<Simd>);

constexpr int kVectors = static_cast<int>(kPanelWidth) / Simd::kLanes;

static_assert(Simd::kLanes * kVectors == kPanelWidth);
static_assert(kVectors % Simd::kTuning.tile_vectors == 0 && kVectors % Simd::kVectorsPacked == 0);
static_assert(Simd::column_of(0, 0) == 0);
static_assert(Simd::column_of(kVectors - 1, Simd::kLanes - 1) == kPanelWidth - 1);
static_assert(Simd::kTuning.tile_rows >= 1 && Simd::kTuning.tile_rows <= kBlockRows);

}  // namespace
}  // namespace dmlax::DMLAX_ISA_NAMESPACE

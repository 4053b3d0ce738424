// The vector instructions that kernels are written over: `Simd`, from the header of the instruction
// set that this translation unit is compiled for. Every header of this folder has all of it:
//
//   traits
//     kLanes                  int32 of a vector; kVectors of them are a panel's 64 columns
//     column_of(vector, lane) the panel's column in a lane: interleaving bytes permutes them
//     kTileRows, kTileVectors the microkernel's tile: its accumulators fill the registers
//     kVectorsPacked          vectors of int32 that are narrowed to one vector of bytes
//     kProductsPerNs, kRequantizeRowNs  a thread's rough speed, to share work out by
//     kMultipliesRows, kRequantizesRows, kPacksRows, kKeepsWindows, kPermutesBytes, kExpandsBytes,
//     kStoresMasked           what only some sets have
//   int32
//     Int32s  load  store  broadcast  add  subtract  multiply
//     store_columns           a vector's lanes, to their columns among 64 int32
//     load_columns            the same back, of 64 int32 or float32
//   products
//     interleave_rows         packs kKPack rows of 64 bytes: one quad of a panel
//     Columns(quad)           kKPack unsigned bytes of each of kLanes columns
//     Weights(word)           kKPack signed bytes, the same for every column
//     multiply_add            sums + columns . weights, exactly, modulo 2^32
//   kMultipliesRows: gemm/rows.h, and depthwise lines
//     kRowTileRows, kRowTileVectors   the tile of that product
//     kWordsOfQuad            32-bit words that kKPack bytes become: 1, or 2 pairs of 16 bits
//     multiply_words          sums + row . columns, a word of each; the row's bytes are unsigned
//     pack_row                bytes to a row's words, their sign bits flipped by a mask
//     widen_columns, widen_pixels   signed or unsigned quads to words, where those are pairs
//     kHalfByteSteps  multiply_half_bytes  add_half_bytes   dot products, there
//     transpose_words         kLanes vectors of kLanes words
//     store_bytes_in_order    as store_bytes, of vectors of neighbouring columns
//   kRequantizesRows: the epilogue of rows, a panel's factors in registers
//     store_bytes  store_bytes_in_order   the same, or only the first bytes
//     round_product           float(sums) * factor to nearest even, for a factor below 1
//     fixed_product           the same, of a factor times kFixedScale, in fixed point, rounded and
//                             beside a tie as fixed_point.h has it; where `fixed`, bytes are stored so
//     fixed_integer           such a number's integer
//     NearTies                whether any of those is near a tie
//   kPacksRows: rows of few columns are packed together
//     store_rows_in_order     as store_bytes_in_order, to as many rows as the vectors are of
//     store_row               a row's bytes, packed with ByteConstants of its zero point; of a panel's
//                             sums in_register, which a compiler does not look through
//   kKeepsWindows: depthwise lines whose windows stay in registers
//     interleave_three        three rows' quads, as interleave_rows, of one pixel or of parts of more
//     store_rows              as store_bytes, to a row for each part
//   requantization
//     Floats  broadcast_float  load_floats  store_floats
//     divide                  IEEE quotients, but for subnormals
//     clamp                   to a range; NaN gives the low end
//     estimate                float(sums) * factor, clamped; NaN gives the low end
//     round                   to nearest even; returns the mask of lanes at least `band` off
//     store_bytes             kVectorsPacked vectors, plus a zero point, saturated
//   arithmetic of bytes
//     widen_bytes             unsigned bytes to kVectorsPacked vectors, in store_bytes's order,
//                             their bits flipped by a mask first
//     to_floats  to_integers  int32 to float32; back, below 2^22, to nearest even
//     add  multiply           of float32, each rounded
//     is_zero                 whether every lane of int32 is
//     fused_multiply_add      a * b + c, rounded once
//   bytes
//     store_selected          the bytes of a mask, side by side
//     sum_bytes               the sum of unsigned bytes, their bits flipped by a mask first
//     Table(entries)          256 bytes, of which look_up finds kTableBytes at once
//     kLookUpsPerNs           a thread's rough speed at that
//     copy_even               every second byte, as many as vectors reach; returns how many
//     nonzero_bits            64 elements of 1, 2, 4 or 8 bytes under a mask, a bit each
//     store_set_bits          the indices of a word's set bits, and anything up to index[63]
//   kPermutesBytes
//     Bytes  load_bytes  broadcast_byte  flip_bits  permute_bytes  first_lanes  Columns(Bytes)
//     to_panel_order          kVectors vectors of neighbouring columns, to a panel's order
//   kMultipliesNarrowRows
//     Narrow                  the product of rows with columns within -64 to 64
//   kExpandsBytes
//     expand_bytes            bytes to where a mask has ones, and a fill elsewhere
//   kStoresMasked
//     divide  interleave  interleave_pairs  store_first: rows of indices, a vector at a time
//
// All functions are members of a class in an unnamed namespace: no two instruction sets share one,
// and algorithms that need what only some sets have are templates of the class.
#ifndef DMLAX_CPU_SIMD_INTERFACE_H_
#define DMLAX_CPU_SIMD_INTERFACE_H_

#include <cstdint>

#include "dmlax/_cpu/gemm/shape.h"

#include DMLAX_SIMD_HEADER

namespace dmlax {
namespace DMLAX_ISA_NAMESPACE {
namespace {

constexpr int kVectors = static_cast<int>(kPanelWidth) / Simd::kLanes;

static_assert(Simd::kLanes * kVectors == kPanelWidth);
static_assert(kVectors % Simd::kTileVectors == 0 && kVectors % Simd::kVectorsPacked == 0);
static_assert(Simd::column_of(0, 0) == 0);
static_assert(Simd::column_of(kVectors - 1, Simd::kLanes - 1) == kPanelWidth - 1);
static_assert(Simd::kTileRows >= 1 && Simd::kTileRows <= kBlockRows);

}  // namespace
}  // namespace DMLAX_ISA_NAMESPACE
}  // namespace dmlax

#endif  // DMLAX_CPU_SIMD_INTERFACE_H_

// Every number of the native kernels that was chosen for speed, with the measurement that chose it.
// No number here changes a result, and limits of correctness stand where they are checked.
//
// "no figure" means: chosen by measurement; no figure is kept. Section names refer to
// tools/benchmarks/notebook/cpu.md.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dmlax::tuning {

// --- by instruction set ------------------------------------------------------------------

struct InstructionSet {
  int tile_rows, tile_vectors;          // accumulators of the microkernel of panels
  int row_tile_rows, row_tile_vectors;  // accumulators of the product of rows; 0 if a set has none
  int64_t words_at_once;                // depth of a strip, in words, that tiles multiply at once
  double products_per_ns;               // approximate throughput of a thread, to split work by
  double requantize_row_ns;             // approximate time of 64 outputs
  double look_ups_per_ns;               // approximate throughput of a thread
};

constexpr int64_t kAllWords = int64_t{1} << 40;

// Tiles fill the registers. A loop of products is as fast with any tile that does ("How far layers
// are from the peak"). Strips of 256 bytes a word come from the second cache as fast as they are
// multiplied; a strip of AVX2 stays in the first cache ("Where the time of ResNet-50's layers
// goes"). The throughputs have no figure. Nobody has timed AArch64; its numbers count a step's
// instructions.
constexpr InstructionSet portable = {1, 1, 0, 0, 0, 7, 300, 2};
constexpr InstructionSet avx2 = {4, 2, 6, 2, 128, 60, 16, 4};
constexpr InstructionSet avx2_narrow = {4, 2, 5, 2, 128, 60, 16, 4};  // spare registers
constexpr InstructionSet avx_vnni = {4, 2, 6, 2, 128, 150, 16, 4};
constexpr InstructionSet avx512_vnni = {6, 4, 6, 4, kAllWords, 200, 8, 30};
constexpr InstructionSet amx_int8 = {6, 4, 6, 4, kAllWords, 1000, 8, 30};
constexpr InstructionSet neon = {4, 2, 0, 0, 0, 12, 60, 4};
constexpr InstructionSet neon_dotprod = {5, 4, 0, 0, 0, 30, 60, 4};
constexpr InstructionSet neon_i8mm = {6, 4, 0, 0, 0, 60, 60, 4};

// AMX. If columns do not stay in the first cache, products reach 42 to 47 % of the tiles' rate
// ("Columns that stay in the first cache"). The other numbers have no figure.
constexpr int64_t kTileFilterRows = 4;     // fewer rows of a filter go by vectors
constexpr int64_t kTileFilterDepth = 16;   // so do smaller depths
constexpr int64_t kTileRowBlocks = 4;      // blocks of rows for which columns stay cached
constexpr int64_t kTileWordsAtOnce = 192;  // words of 32 columns, which the first cache holds
constexpr int64_t kTileFewWords = 48;      // all columns stay cached, and a block's sums too
constexpr int64_t kTileLeastWords = 12;    // words of a tap that tiles read in place
constexpr int64_t kTileLeastProduct = 8;   // words; below, loading and storing tiles dominates
constexpr int kTileLeastRest = 4;          // rows after the last block that tiles multiply

// --- threads -----------------------------------------------------------------------------

constexpr double kThreadWakeupNs = 50000;   // a sleeping thread needs it to wake; no figure
constexpr double kSharedProductNs = 15000;  // the thread is still awake (kernels_cpu.md)
constexpr int kPauses = 1000;               // polls before a thread sleeps or yields; no figure

// So many tasks that a late thread delays no other one. Ranges of tasks are 5 % faster for one
// image than equal tasks ("Ranges of tasks in place of equal tasks").
constexpr int64_t kTasksOfThread = 4;
constexpr int64_t kMostTasksOfThread = 32;
constexpr double kTaskNs = 5000;  // many times the cost of taking a task

constexpr int64_t kStepsOfTask = 2;         // fewest steps that read a packed panel; no figure
constexpr int64_t kPackedOfTask = 1 << 16;  // bytes that a task packs or copies; no figure

// How the elements of an operator are shared: one thread runs up to `serial` elements, and a task
// has `chunk`.
struct Sharing {
  int64_t serial, chunk;

  // This sharing counted in rows that have so much work.
  Sharing of_rows(int64_t work) const {
    return {serial / work, std::max<int64_t>(1, chunk / work)};
  }
};

constexpr Sharing kBytes = {1 << 17, 1 << 14};       // element-wise operators; no figure
constexpr Sharing kFloatRows = {1 << 15, 1 << 13};   // normalization, softmax; no figure
constexpr Sharing kFunctions = {1 << 12, 1 << 11};   // fixed sequences of float32; no figure
constexpr Sharing kEpilogue = {1 << 14, 1 << 12};    // products in doubles; no figure
constexpr Sharing kPooling = {1 << 17, 1 << 15};     // bytes to read; no figure
constexpr Sharing kBlockBytes = {1 << 17, 1 << 15};  // bytes of 4-bit blocks; no figure
constexpr int64_t kLookupChunk = 1 << 16;            // bytes; no figure
constexpr int64_t kGlobalAverageSpeed = 4;           // times that of other pools' bytes; no figure

// Scratch memory that stays allocated: page faults a call fell from 225 to 0 ("Ranges of tasks").
constexpr int64_t kThreadScratch = 1 << 20;  // bytes of a thread
constexpr int64_t kFreeScratch = 1 << 26;    // bytes that no thread uses

// --- element-wise operators; no figures --------------------------------------------------

constexpr int64_t kBinaryLongRow = 512;    // elements that repay a kernel call for each row
constexpr int64_t kLongRow = 32;           // elements of one scale that repay one
constexpr int64_t kPiece = 1024;           // elements whose parameters are expanded at once
constexpr int64_t kEpiloguePiece = 512;    // elements that six operands expand at once
constexpr int64_t kMostTiled = 1 << 14;    // elements whose parameters a call expands once
constexpr int64_t kNonzeroWords = 512;     // 64-bit words: a task's fit the first cache
constexpr int64_t kNonzeroFill = 1 << 16;  // numbers that a task fills
constexpr int64_t kNonzeroBlock = 512;     // indices that are split into coordinates at once
constexpr int64_t kPoolChannels = 2048;    // channels whose sums stay in the first cache
constexpr int64_t kPoolRows = 8;           // rows that are added at once
constexpr int64_t kPoolLongRow = 1 << 16;  // padded bytes; longer rows may skip the copy

// --- products ----------------------------------------------------------------------------

constexpr int64_t kPackedPanels = 3 << 17;  // bytes packed before rows meet them; no figure
constexpr int64_t kPackedRows = 1 << 18;    // bytes of rows packed at once; no figure
constexpr int64_t kDirectRows = 1 << 19;    // bytes of rows read in place; no figure
constexpr int64_t kHeldPanels = 1 << 19;    // bytes that a second cache holds; no figure
constexpr int64_t kHeldSteps = 4;   // steps of rows at once if the second cache holds all panels
constexpr int64_t kMostSteps = 32;  // steps of rows at once otherwise; no figures
constexpr int64_t kProductPanels = 1 << 25;     // bytes of panels of several products; no figure
constexpr int64_t kPanelsReadByAll = 1 << 18;   // bytes (kernels_cpu.md, "Threads")
constexpr int64_t kFilterReadByAll = 1 << 20;   // "Fetching the next panel"
constexpr double kPackedBytesPerNs = 8;         // bytes of a matrix; no figure
constexpr double kPackedFilterBytesPerNs = 16;  // no figure
constexpr double kReadBytesPerNs = 32;          // bytes of a matrix read in place; no figure

// Few rows, which multiply B in its order ("Products of few rows").
constexpr int64_t kFewRows = 8;             // rows for which packing a panel would dominate
constexpr int64_t kDotRows = 4;             // rows that a column multiplies at once
constexpr int64_t kDotHalfRows = 2;         // if their bytes are halved
constexpr int kDotBlockRows = 4;            // rows that a column of 4-bit blocks multiplies at once
constexpr int kLevelRows = 4;               // rows of 8-bit levels that a column meets at once
constexpr int kLevelHalfRows = 2;           // if their weights' halves take more registers
constexpr int64_t kCacheRows = 16;          // rows that a block of a cache meets at once; no figure
constexpr double kReadProductsPerNs = 32;   // products of one row, which read weights; no figure
constexpr int64_t kDotPrefetch = 1 << 13;   // bytes, or the columns of a tile if they have more
constexpr int64_t kLevelPrefetch = 1 << 11;  // bytes ("Products")
constexpr int kUnpackedRows = 5;            // rows that a panel in registers multiplies at once
constexpr int64_t kUnpackedPrefetch = 128;  // bytes of a row of B

// The next panel comes while up to 240 rows multiply this one: 5.6 % faster for one image, and half
// as many bytes a word 2.8 % ("Fetching the next panel").
constexpr int64_t kRowsThatFetch = 240;
constexpr int64_t kFetchedOfWord = 64;

// --- float32 convolutions and products; no figures ---------------------------------------

constexpr double kFloatProductsPerNs = 40;  // approximate throughput of a thread
constexpr int64_t kFloatDepth = 1024;       // the second cache holds panels so deep
constexpr int64_t kFloatsOfRows = 1 << 17;  // floats of rows that it holds
constexpr int64_t kMostFloatRows = 192;
constexpr int64_t kFloatsOfPanels = 3 << 15;  // floats of all panels, which it holds, too
constexpr int64_t kFewFloatRows = 24;
constexpr int64_t kFloatTap = 12;  // channels; windows of fewer are copied
constexpr double kOrderedProductsPerNs = 20;  // of a thread that rounds every product
constexpr int64_t kFewOrderedRows = 2;        // rows that read the matrix in its order

// --- convolutions ------------------------------------------------------------------------

// Rows or planes. For whole tiles of channels, rows are 1.06 to 2.9 times as fast ("Channels first,
// transposed").
constexpr int64_t kFewPixels = 32;              // fill less than half of a panel's columns
constexpr int64_t kFewGroupRows = 16;           // output channels of a group; no figure
constexpr int64_t kManyPixels = 512;            // pixels of all images that repay packing a filter
constexpr int64_t kGatheredRows = 1 << 18;      // bytes of gathered windows at once; no figure
constexpr int64_t kPaddedRows = 1 << 19;        // bytes of rows of padded copies; no figure
constexpr int64_t kMostRowBlocks = 16;          // blocks of rows at once; no figure
constexpr int64_t kTransposedImages = 1 << 24;  // bytes transposed at once; no figure
constexpr int64_t kPaddedImages = 1 << 25;      // bytes of padded copies; no figure
constexpr int64_t kTransposeTask = 1 << 15;     // elements; no figure

// Planes; no figures.
constexpr double kMostSharingNs = 100000;  // time for another thread's cache to get the filter
constexpr double kInputBytesPerNs = 16, kFilterBytesPerNs = 32, kSharedFilterBytesPerNs = 3;
constexpr double kDepthwiseRequantize = 4;     // times other rows': no products hide it
constexpr int64_t kPanelsOfTask = 4;           // panels that read a filter row, at least
constexpr int64_t kDepthwisePlanes = 1 << 18;  // bytes of a task
constexpr int64_t kPackedAlone = 1 << 17;      // bytes of planes that one thread packs

// Depthwise lines. Tasks finer than kTasksOfThread are 46 % slower ("Ranges of tasks").
constexpr int64_t kMostLineScratch = 1 << 20;  // bytes; no figure
constexpr int64_t kLineInput = 1 << 17;        // bytes of lines in the second cache; no figure
constexpr int64_t kFewLines = 4;               // lines of a task; no figure
constexpr double kColumnNs = 4;                // four taps of 64 channels; no figure
constexpr int64_t kPixelsTogether = 8;         // "Depthwise": 22 % fewer cycles or more
constexpr int64_t kWindowsTogether = 16;       // no figure

}  // namespace dmlax::tuning

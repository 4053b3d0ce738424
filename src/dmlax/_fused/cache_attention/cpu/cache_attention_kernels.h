// Kernels of the attention of rows to a cache of keys and values, for one instruction set.
//
// A score is one chain of fused multiplications and additions along the size of a key, times the
// scale. A softmax takes blocks of kKeys places in order; what a block adds to a row is again one
// chain for every number. So a row's bits depend on its own range of places alone.
#pragma once

#include <cstdint>

namespace dmlax {

constexpr int64_t kKeys = 128;  // places of a block

struct CacheAttention {
  const float *q, *keys, *values;  // [sequences, heads, rows, size], [sequences, groups, places, .]
  const int32_t* ranges;           // the first place of every row, and the one after its last
  const float* sinks;              // a score of every head without a value, or null
  int64_t heads, groups, rows, places, size, value_size;
  float scale, softcap;
};

// Rows of some of the heads of a group, which share a cache.
struct CachePart {
  int64_t sequence, group;
  int64_t first_head, heads;  // the first is the group's
  int64_t first_row, rows;
};

struct CacheAttentionKernels {
  // `scratch` has scratch_bytes and is aligned to 64.
  void (*attend)(const CacheAttention& call, const CachePart& part, uint8_t* scratch,
                 float* output);
  int64_t (*scratch_bytes)(const CacheAttention& call, const CachePart& part);
};

}  // namespace dmlax

// Scratch memory of CPU kernels: the block sizes that kernels work with, and the bytes that follow.
// Kernels split their workspace up by these formulas, and the plan's bytes (workspace.h) come from
// them.
//
// It is not an allocator. The formulas hold for bf16, f32 and f64 and for any instruction set.
#pragma once

#include <cstdint>
#include <vector>

namespace oneflow {

// The block of each operand that a matrix product packs, for all threads together. It has at most
// kProductDepthBytes of packed elements of one row or column, and kProductBlockBytes in all. The
// depth fixes the order of sums: changing it changes bits.
inline constexpr int64_t kProductDepthBytes = 6144;
inline constexpr int64_t kProductBlockBytes = 4 << 20;
// No register tile is larger.
inline constexpr int64_t kMostTileRows = 16;
inline constexpr int64_t kMostTileColumns = 64;

// Bytes for c[m, n] = a[m, k] b[k, n], for any types and any number of threads.
int64_t ProductWorkspace(int64_t m, int64_t n, int64_t k);

// Attention works on blocks of kAttentionBlock queries of a head, in panels of at most
// kMostPanelColumns columns.
inline constexpr int64_t kAttentionBlock = 64;
inline constexpr int64_t kMostPanelColumns = 32;

// Bytes for attention to `keys` keys of heads of width d, forward or backward. Each thread holds,
// all in panels: keys and values (transposed too), their gradients, a block of queries and its
// tensors, and the block's scores and their gradients. It also holds the keys' positions and
// documents.
int64_t AttentionWorkspacePerThread(int64_t keys, int64_t d);
int64_t AttentionWorkspace(int64_t keys, int64_t d, int threads);

// Bytes for a row of the softmax of x, f32 or f64.
int64_t SoftmaxWorkspacePerThread(const std::vector<int64_t>& x);

// Queries of a block in attention of t new positions to a cache of `positions`, which `heads` query
// heads share.
inline constexpr int64_t kCachedQueries = 64;
int64_t CachedAttentionWorkspacePerThread(int64_t t, int64_t heads, int64_t positions, int64_t d);

}  // namespace oneflow

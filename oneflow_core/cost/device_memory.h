// The part of a device's memory that a plan may take: all that the device offers, without the part
// that the driver and libraries take beside the plan (the CUDA context, NCCL, cuBLAS).
//
//   const int64_t capacity = UsableBytes(cluster.device());
//   if (capacity > 0 && arena_bytes > capacity) ...
#pragma once

#include <cstdint>

#include "proto/cluster.pb.h"

namespace oneflow {

// Bytes that a plan leaves to others: reserve_bytes, or what --reserve says in its place.
int64_t KeptBytes(const proto::Device& device);

// Bytes that a plan may take; 0: no limit. Requires that KeptBytes are fewer than memory_bytes.
int64_t UsableBytes(const proto::Device& device);

// Gives the device so much memory that UsableBytes are `bytes`; 0: no limit.
void SetUsableBytes(int64_t bytes, proto::Device* device);

}  // namespace oneflow

// Copies between slices of one logical tensor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "oneflow_core/tensor/layout.h"

namespace oneflow {

// Copies the elements that two slices share from one to the other, both dense and row-major;
// returns how many they are.
int64_t CopyShared(const Slice& from, const std::byte* source, const Slice& to,
                   std::byte* destination, size_t element_bytes);

}  // namespace oneflow

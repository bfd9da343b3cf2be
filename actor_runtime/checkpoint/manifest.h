// The manifest of a checkpoint: which variables it holds, and where each slice of them lies. JSON,
// one line a variable, with a checksum of itself at the end.
//
//   {
//   "format": "oneflow checkpoint",
//   "version": 1,
//   "model": "gpt", "step": 20, "seed": 1, "plan": "0123...",       (a line each)
//   "mesh": "data=2", "tokens": 1000,       (older manifests do not say them)
//   "variables": [
//   {"name":"w","dtype":"f32","dims":[4,3],"slices":[{"begin":[0,0],"size":[2,3],
//    "file":"rank-00000.bin","offset":0,"bytes":24,"xxh3":"0123456789abcdef"}, ...]}
//   ],
//   "xxh3": "0123456789abcdef"
//   }
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "oneflow_core/tensor/dtype.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow {

struct StoredSlice {
  Slice slice;
  std::string file;    // in the checkpoint's folder
  int64_t offset = 0;  // of the first byte: dense, row-major, little-endian
  int64_t bytes = 0;
  std::string checksum;  // of the bytes, 16 hex digits
  bool operator==(const StoredSlice&) const = default;
};

struct StoredVariable {
  std::string name;
  DType dtype = DType::kF32;
  Dims dims;
  std::vector<StoredSlice> slices;
  bool operator==(const StoredVariable&) const = default;
};

struct Manifest {
  std::string model, plan;
  std::string mesh;  // empty: not said
  int64_t step = 0;
  uint64_t seed = 0;
  int64_t tokens = 0;  // of training data; 0: not said
  std::vector<StoredVariable> variables;
  bool operator==(const Manifest&) const = default;
};

// XXH3 (64 bits), 16 hex digits.
std::string Checksum(std::span<const std::byte> bytes);

std::string ToJson(const Manifest& manifest);
// `where` is the file's name in errors: another format or version, damage, a missing or odd field.
absl::StatusOr<Manifest> ParseManifest(std::string_view json, std::string_view where);

// Whether the slices lie inside the variable, do not overlap and leave nothing out.
absl::Status CheckCover(const StoredVariable& variable);

}  // namespace oneflow

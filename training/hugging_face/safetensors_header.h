// The header of a safetensors file: JSON that names each tensor with its element type, its shape
// and its bytes in the data behind the header.
//
//   {"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}
//
// It is read as a stream of events and not as a tree: names that occur twice are found, nesting
// costs no stack, and memory is bounded by the size of the header.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/tensor/shape.h"
#include "training/hugging_face/file_type.h"

namespace oneflow {

// The end of an error: what a user can do.
inline constexpr char kDamagedFile[] = "the file is damaged or of another format: get it again";

// The limit of the format.
inline constexpr int64_t kMostHeaderBytes = 100'000'000;

struct FileTensor {
  std::string name;
  std::string type_name;         // the header's word: "BF16", "I64"
  std::optional<FileType> type;  // none: its elements cannot be read
  Dims dims;
  int64_t offset = 0, bytes = 0;  // in the data behind the header
  bool operator==(const FileTensor&) const = default;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<FileTensor> tensors;  // in the order of their bytes
};

// `data_bytes` is the number of bytes behind the header; `where` the file's name in errors. An
// input error unless the text is such JSON, every name occurs once, every type is known, every
// shape takes exactly its tensor's bytes, and the tensors cover the data without gap or overlap.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text, int64_t data_bytes,
                                                         const std::string& where);

// The header of tensors that follow each other, with `metadata`; blanks pad it so that the data
// begin at a multiple of 8 bytes in the file. Sets the offsets and bytes of `tensors`. Requires
// types, and sizes whose products are countable.
std::string SafetensorsHeaderText(const std::map<std::string, std::string>& metadata,
                                  std::span<FileTensor> tensors);

}  // namespace oneflow

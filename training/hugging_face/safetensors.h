// Files of tensors in the safetensors format, read and written with positioned calls: a part of a
// tensor takes memory for that part alone, and nothing is mapped.
//
//   ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open("model.safetensors"));
//   ASSIGN_OR_RETURN(const FileTensor* w, file.Find("w"));
//   std::vector<float> row(w->dims[1]);
//   RETURN_IF_ERROR(file.Read(*w, /*first=*/3 * w->dims[1], row));   // row 3
//
//   ASSIGN_OR_RETURN(auto out, SafetensorsWriter::Create(path, {{"format", "pt"}}, tensors));
//   RETURN_IF_ERROR(out.Write(0, /*first=*/0, row));
//   RETURN_IF_ERROR(out.Finish());
//
// The header is checked completely before anything is read (safetensors_header.h).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "training/files/durable.h"
#include "training/hugging_face/safetensors_header.h"

namespace oneflow {

class SafetensorsFile {
 public:
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;
  ~SafetensorsFile();

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  // NOT_FOUND if there is no such tensor.
  absl::StatusOr<const FileTensor*> Find(std::string_view name) const;

  // Elements first, first + step, ... of a tensor of this file, row-major, as f32. Requires that
  // the tensor has them. An input error if its type is none of FileType. Thread-safe.
  absl::Status Read(const FileTensor& tensor, int64_t first, std::span<float> values,
                    int64_t step = 1) const;
  // Bytes of a tensor of any type. Requires that the tensor has them. Thread-safe.
  absl::Status ReadBytes(const FileTensor& tensor, int64_t first, std::span<std::byte> bytes) const;

 private:
  SafetensorsFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status ReadHeader();
  absl::Status ReadBytes(int64_t offset, std::span<std::byte> bytes) const;

  std::string path_;
  int fd_;
  int64_t data_ = 0;  // the data's first byte
  SafetensorsHeader header_;
};

class SafetensorsWriter {
 public:
  // Creates or replaces the file, and writes its header. `tensors` have names, types and dims.
  static absl::StatusOr<SafetensorsWriter> Create(
      const std::string& path, const std::map<std::string, std::string>& metadata,
      std::vector<FileTensor> tensors);

  const std::vector<FileTensor>& tensors() const { return tensors_; }

  // Writes elements first, first + step, ... of tensor `index`, in any order, and leaves those
  // between as they are. An input error names a finite value that its type cannot hold. Requires
  // that the tensor has them.
  absl::Status Write(size_t index, int64_t first, std::span<const float> values, int64_t step = 1);
  // Makes the file durable. Requires that every element was written.
  absl::Status Finish();

 private:
  SafetensorsWriter(DurableFile file, int64_t data, std::vector<FileTensor> tensors)
      : file_(std::move(file)), data_(data), tensors_(std::move(tensors)) {}

  DurableFile file_;
  int64_t data_;
  std::vector<FileTensor> tensors_;
  std::vector<std::byte> buffer_, between_;
};

}  // namespace oneflow

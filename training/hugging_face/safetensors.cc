#include "training/hugging_face/safetensors.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/stand_in.h"
#include "oneflow_core/base/status.h"
#include "training/hugging_face/strict_json.h"

namespace oneflow {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kStartBytes = 64;  // by which a file of another format is known
constexpr size_t kChunkElements = size_t{1} << 18;

absl::Status CannotRead(const std::string& path, int error) {
  const std::string what = std::string("cannot be read: ") + std::strerror(error);
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(path + ": no such file");
  if (error == EIO || error == ESTALE) return absl::DataLossError(path + ": " + what);
  return InputError(path, what, "give a file that this user may read");
}

int64_t LittleEndian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint64_t>(bytes[i]);
  return static_cast<int64_t>(value);
}

// The bytes from the first of `count` elements to the last, of which each `step`-th is taken.
int64_t SpannedBytes(size_t count, int64_t step, int64_t element) {
  return (static_cast<int64_t>(count - 1) * step + 1) * element;
}

// ", and begins with "<!DOCTYP"", of a length that is none: a page of an error, for instance.
std::string DescribeText(std::string_view start) {
  const bool text = std::all_of(start.begin(), start.end(), [](unsigned char c) {
    return std::isprint(c) != 0 || std::isspace(c) != 0;
  });
  return text ? "; it begins with " + Quoted(start) : "";
}

}  // namespace

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  // Without O_NONBLOCK a pipe would be waited for.
  SafetensorsFile file(path, open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd_ < 0) {
    const int error = errno;
    RETURN_IF_ERROR(CheckLink(path));
    return CannotRead(path, error);
  }
  RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      data_(other.data_),
      header_(std::move(other.header_)) {}

SafetensorsFile::~SafetensorsFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status SafetensorsFile::ReadHeader() {
  struct stat info;
  if (fstat(fd_, &info) != 0) return CannotRead(path_, errno);
  if (S_ISDIR(info.st_mode)) return CannotRead(path_, EISDIR);
  if (!S_ISREG(info.st_mode)) return InputError(path_, "is no regular file", "give a file");
  const int64_t size = info.st_size;
  if (size < kLengthBytes) {
    return InputError(path_, absl::StrCat("has ", size, " bytes, and a header's length has 8"),
                      kDamagedFile);
  }
  std::string start(std::min(size, kStartBytes), '\0');
  RETURN_IF_ERROR(ReadBytes(0, std::as_writable_bytes(std::span(start))));
  RETURN_IF_ERROR(CheckNoPointer(path_, start));
  start.resize(kLengthBytes);
  const int64_t header_bytes = LittleEndian(std::as_bytes(std::span(start)));
  // Negative: 2^63 or more.
  if (header_bytes < 0 || header_bytes > size - kLengthBytes) {
    return InputError(path_,
                      absl::StrCat("its header has ", static_cast<uint64_t>(header_bytes),
                                   " bytes, and the file ", size, DescribeText(start)),
                      kDamagedFile);
  }
  if (header_bytes > kMostHeaderBytes) {
    return InputError(path_,
                      absl::StrCat("its header has ", header_bytes,
                                   " bytes, and the format allows ", kMostHeaderBytes),
                      kDamagedFile);
  }
  std::string text(header_bytes, '\0');
  RETURN_IF_ERROR(ReadBytes(kLengthBytes, std::as_writable_bytes(std::span(text))));
  data_ = kLengthBytes + header_bytes;
  ASSIGN_OR_RETURN(header_, ParseSafetensorsHeader(text, size - data_, path_));
  return absl::OkStatus();
}

absl::Status SafetensorsFile::ReadBytes(int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = pread(fd_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CannotRead(path_, errno);
    if (n == 0) {  // the file was truncated since it was opened
      return absl::DataLossError(absl::StrCat(path_, ": is truncated at byte ", offset));
    }
    bytes = bytes.subspan(n);
    offset += n;
  }
  return absl::OkStatus();
}

absl::StatusOr<const FileTensor*> SafetensorsFile::Find(std::string_view name) const {
  for (const FileTensor& tensor : header_.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return absl::NotFoundError(path_ + ": has no tensor " + Quoted(name));
}

absl::Status SafetensorsFile::Read(const FileTensor& tensor, int64_t first, std::span<float> values,
                                   int64_t step) const {
  if (!tensor.type) {
    return InputError(path_ + ": tensor " + Quoted(tensor.name),
                      "has elements of type " + tensor.type_name, "save it as F32, BF16 or F16");
  }
  const int64_t element = ElementBytes(*tensor.type);
  if (values.empty()) return absl::OkStatus();
  CHECK(first >= 0 && first * element + SpannedBytes(values.size(), step, element) <= tensor.bytes);
  int64_t offset = data_ + tensor.offset + first * element;
  if (step > 1) {
    std::vector<std::byte> bytes;
    while (!values.empty()) {
      const auto chunk = values.first(std::min(values.size(), kChunkElements / step));
      bytes.resize(SpannedBytes(chunk.size(), step, element));
      RETURN_IF_ERROR(ReadBytes(offset, bytes));
      for (size_t i = 1; i < chunk.size(); ++i) {
        std::memcpy(&bytes[i * element], &bytes[i * step * element], element);
      }
      Widen(*tensor.type, std::span(bytes).first(chunk.size() * element), chunk);
      offset += static_cast<int64_t>(chunk.size()) * step * element;
      values = values.subspan(chunk.size());
    }
    return absl::OkStatus();
  }
  if (*tensor.type == FileType::kF32) return ReadBytes(offset, std::as_writable_bytes(values));
  // Each chunk is read into the upper half of its values and widened from there on.
  while (!values.empty()) {
    const auto chunk = values.first(std::min(values.size(), kChunkElements));
    const auto bytes = std::as_writable_bytes(chunk).last(chunk.size() * element);
    RETURN_IF_ERROR(ReadBytes(offset, bytes));
    Widen(*tensor.type, bytes, chunk);
    offset += static_cast<int64_t>(bytes.size());
    values = values.subspan(chunk.size());
  }
  return absl::OkStatus();
}

absl::Status SafetensorsFile::ReadBytes(const FileTensor& tensor, int64_t first,
                                        std::span<std::byte> bytes) const {
  CHECK(first >= 0 && first + static_cast<int64_t>(bytes.size()) <= tensor.bytes);
  return ReadBytes(data_ + tensor.offset + first, bytes);
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(
    const std::string& path, const std::map<std::string, std::string>& metadata,
    std::vector<FileTensor> tensors) {
  const std::string header = SafetensorsHeaderText(metadata, tensors);
  if (static_cast<int64_t>(header.size()) > kMostHeaderBytes) {
    return InputError(path, "would have a header larger than the format allows",
                      "write more, smaller files");
  }
  std::string bytes(kLengthBytes, '\0');
  for (int64_t i = 0; i < kLengthBytes; ++i) {
    bytes[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  }
  bytes += header;
  ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(path));
  RETURN_IF_ERROR(file.WriteAt(0, std::as_bytes(std::span(bytes))));
  return SafetensorsWriter(std::move(file), static_cast<int64_t>(bytes.size()), std::move(tensors));
}

absl::Status SafetensorsWriter::Write(size_t index, int64_t first, std::span<const float> values,
                                      int64_t step) {
  const FileTensor& tensor = tensors_[index];
  const int64_t element = ElementBytes(*tensor.type);
  if (values.empty()) return absl::OkStatus();
  CHECK(first >= 0 && first * element + SpannedBytes(values.size(), step, element) <= tensor.bytes);
  int64_t offset = data_ + tensor.offset + first * element;
  while (!values.empty()) {
    const auto chunk = values.first(std::min(values.size(), kChunkElements / step));
    buffer_.resize(std::max(buffer_.size(), chunk.size() * element));
    const auto bytes = std::span(buffer_).first(chunk.size() * element);
    if (const auto bad = Narrow(*tensor.type, chunk, bytes)) {
      return InputError(
          "tensor " + Quoted(tensor.name),
          absl::StrCat("element ", first + static_cast<int64_t>(*bad) * step, " is ", chunk[*bad],
                       ", which ", std::string(Name(*tensor.type)), " cannot hold"),
          "write another type, such as f32");
    }
    if (step > 1) {
      between_.resize(SpannedBytes(chunk.size(), step, element));
      RETURN_IF_ERROR(file_.ReadAt(offset, between_));
      for (size_t i = 0; i < chunk.size(); ++i) {
        std::memcpy(&between_[i * step * element], &bytes[i * element], element);
      }
      RETURN_IF_ERROR(file_.WriteAt(offset, between_));
    } else {
      RETURN_IF_ERROR(file_.WriteAt(offset, bytes));
    }
    first += static_cast<int64_t>(chunk.size()) * step;
    offset += static_cast<int64_t>(chunk.size()) * step * element;
    values = values.subspan(chunk.size());
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Finish() { return file_.Sync(); }

}  // namespace oneflow

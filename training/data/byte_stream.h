// ByteStream: the bytes of a file from its begin to its end, unpacked if gzip or zstd packed them:
// by the first bytes, whatever its name. Members of gzip, or frames of zstd, one after the other
// are one text. Memory: about 1 MB, what Peek asks for, and the window that a frame of zstd
// announces (8 MB as zstd packs by default, up to 2 GB with its --long=31).
//
//   ASSIGN_OR_RETURN(ByteStream stream, ByteStream::Open("book.txt.gz"));
//   for (;;) {
//     ASSIGN_OR_RETURN(const std::string_view block, stream.Next());
//     if (block.empty()) break;
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "training/data/data_file.h"
#include "training/data/recognize_data.h"

namespace oneflow {

class ByteStream {
 public:
  // Errors are those of DataFile::Open.
  static absl::StatusOr<ByteStream> Open(const std::string& path);
  ByteStream(ByteStream&&) noexcept;
  ByteStream& operator=(ByteStream&&) noexcept;
  ~ByteStream();

  Compression compression() const { return compression_; }
  const DataFile& file() const { return file_; }
  int64_t position() const { return at_; }  // bytes of the file that have been read

  // The next bytes, valid until the next call; empty at the end. Errors: what is packed is damaged,
  // ends too early, or is followed by other bytes; those of DataFile::Read.
  absl::StatusOr<std::string_view> Next();

  // The first `bytes` of what Next will return, or all where there are fewer.
  absl::StatusOr<std::string_view> Peek(size_t bytes);

 private:
  class Unpacker;  // of gzip or zstd
  class Gunzip;
  class Unzstd;

  ByteStream(DataFile file, Compression compression);
  // Appends to ready_, at least a byte unless the end has come.
  absl::Status Fill();
  absl::Status ReadPacked();
  absl::Status Damaged(std::string_view what) const;

  DataFile file_;
  Compression compression_;
  int64_t at_ = 0;
  std::unique_ptr<Unpacker> unpacker_;  // null: not packed
  std::string packed_;                  // read, and not yet unpacked from packed_at_ on
  size_t packed_at_ = 0;
  std::string ready_;  // unpacked; [0, taken_) has been handed out
  size_t taken_ = 0;
  bool end_ = false;
};

}  // namespace oneflow

#include "training/data/byte_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr size_t kStreamBlock = 1 << 18;
constexpr size_t kHeadBytes = 64;  // that tell the compression
constexpr int kLongestWindow = 31;

}  // namespace

// Unpacks a stream piece by piece.
class ByteStream::Unpacker {
 public:
  virtual ~Unpacker() = default;
  // Unpacks from `*in`, which advances, to `*out`, which advances too. What is damaged, in words;
  // empty: nothing.
  virtual std::string Unpack(std::string_view* in, std::span<char>* out) = 0;
  // True between two members or frames, and before the first.
  virtual bool between() const = 0;
};

class ByteStream::Gunzip : public Unpacker {
 public:
  Gunzip() { CHECK_EQ(inflateInit2(&stream_, 15 + 16), Z_OK); }
  ~Gunzip() override { inflateEnd(&stream_); }

  std::string Unpack(std::string_view* in, std::span<char>* out) override {
    if (between_) {
      // Zeros may fill the last block of a tape, or of a disk.
      if (members_ > 0) {
        in->remove_prefix(std::min(in->find_first_not_of('\0'), in->size()));
        if (in->empty()) return "";
        if (in->front() != '\x1f') return "other bytes follow what is packed";
      }
      inflateReset(&stream_);
      between_ = false;
    }
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in->data()));
    stream_.avail_in = static_cast<uInt>(in->size());
    stream_.next_out = reinterpret_cast<Bytef*>(out->data());
    stream_.avail_out = static_cast<uInt>(out->size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    in->remove_prefix(in->size() - stream_.avail_in);
    *out = out->last(stream_.avail_out);
    if (result == Z_STREAM_END) {
      between_ = true;
      ++members_;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return stream_.msg != nullptr ? stream_.msg : "its data are damaged";
    }
    return "";
  }
  bool between() const override { return between_; }

 private:
  z_stream stream_ = {};
  bool between_ = true;
  int64_t members_ = 0;
};

class ByteStream::Unzstd : public Unpacker {
 public:
  Unzstd() { ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kLongestWindow); }

  std::string Unpack(std::string_view* in, std::span<char>* out) override {
    ZSTD_inBuffer input{in->data(), in->size(), 0};
    ZSTD_outBuffer output{out->data(), out->size(), 0};
    const size_t result = ZSTD_decompressStream(stream_.get(), &output, &input);
    if (ZSTD_isError(result)) return ZSTD_getErrorName(result);
    in->remove_prefix(input.pos);
    *out = out->subspan(output.pos);
    between_ = result == 0;
    return "";
  }
  bool between() const override { return between_; }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  const std::unique_ptr<ZSTD_DStream, Free> stream_{ZSTD_createDStream()};
  bool between_ = true;
};

ByteStream::ByteStream(DataFile file, Compression compression)
    : file_(std::move(file)), compression_(compression) {
  if (compression == Compression::kGzip) unpacker_ = std::make_unique<Gunzip>();
  if (compression == Compression::kZstd) unpacker_ = std::make_unique<Unzstd>();
}

ByteStream::ByteStream(ByteStream&&) noexcept = default;
ByteStream& ByteStream::operator=(ByteStream&&) noexcept = default;
ByteStream::~ByteStream() = default;

absl::StatusOr<ByteStream> ByteStream::Open(const std::string& path) {
  ASSIGN_OR_RETURN(DataFile file, DataFile::Open(path));
  std::string head(std::min<int64_t>(kHeadBytes, file.size()), '\0');
  RETURN_IF_ERROR(file.Read(0, std::as_writable_bytes(std::span(head))));
  const Compression compression = FindCompression(head);
  return ByteStream(std::move(file), compression);
}

absl::Status ByteStream::Damaged(std::string_view what) const {
  return InputError(file_.path(),
                    absl::StrCat("cannot be unpacked near byte ", at_, ": ", ToAbsl(what)),
                    "it is damaged; make it or fetch it again");
}

absl::Status ByteStream::ReadPacked() {
  packed_.resize(std::min<int64_t>(kStreamBlock, file_.size() - at_));
  packed_at_ = 0;
  if (packed_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(file_.Read(at_, std::as_writable_bytes(std::span(packed_))));
  at_ += std::ssize(packed_);
  return absl::OkStatus();
}

absl::Status ByteStream::Fill() {
  const size_t before = ready_.size();
  if (unpacker_ == nullptr) {
    RETURN_IF_ERROR(ReadPacked());
    ready_ += packed_;
    end_ = packed_.empty();
    return absl::OkStatus();
  }
  ready_.resize(before + kStreamBlock);
  std::span<char> room = std::span(ready_).subspan(before);
  while (room.size() == kStreamBlock) {
    if (packed_at_ == packed_.size()) {
      RETURN_IF_ERROR(ReadPacked());
      if (packed_.empty()) {
        // The unpacker may hold bytes that had no room before: they come without more to read.
        std::string_view none;
        const std::string damage = unpacker_->between() ? "" : unpacker_->Unpack(&none, &room);
        if (room.size() < kStreamBlock) break;
        if (!damage.empty()) return Damaged(damage);
        if (!unpacker_->between()) return Damaged("it ends too early, as one that is truncated");
        end_ = true;
        break;
      }
    }
    std::string_view left = std::string_view(packed_).substr(packed_at_);
    const std::string damage = unpacker_->Unpack(&left, &room);
    packed_at_ = packed_.size() - left.size();
    if (!damage.empty()) return Damaged(damage);
  }
  ready_.resize(ready_.size() - room.size());
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> ByteStream::Next() {
  ready_.erase(0, taken_);
  taken_ = 0;
  if (ready_.empty() && !end_) RETURN_IF_ERROR(Fill());
  taken_ = ready_.size();
  return std::string_view(ready_);
}

absl::StatusOr<std::string_view> ByteStream::Peek(size_t bytes) {
  ready_.erase(0, taken_);
  taken_ = 0;
  while (ready_.size() < bytes && !end_) RETURN_IF_ERROR(Fill());
  return std::string_view(ready_).substr(0, bytes);
}

}  // namespace oneflow

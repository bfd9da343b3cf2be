#include "training/data/token_file_writer.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "training/data/chat_file.h"
#include "training/data/token_file.h"
#include "training/data/token_file_meta.h"

namespace oneflow {
namespace {

constexpr int64_t kMostOfUint16 = int64_t{1} << 16;
constexpr int64_t kMegatronNarrow = 65500;

absl::Status CannotWrite(const std::string& path) {
  return WriteError(path, "cannot be written", errno);
}

template <typename T>
void Put(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string TemporaryPath(const std::string& path) { return path + ".tmp"; }

std::string IndexPath(const std::string& path) { return path.substr(0, path.size() - 4) + ".idx"; }

absl::Status RemoveIfThere(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return WriteError(path, "cannot be removed", errno,
                    "it belongs to what stood here before: remove it");
}

}  // namespace

absl::Status RemoveTokenFile(const std::string& path) {
  CHECK(path.ends_with(".bin")) << path;
  RETURN_IF_ERROR(RemoveIfThere(path));
  RETURN_IF_ERROR(RemoveIfThere(MetaPath(path)));
  RETURN_IF_ERROR(RemoveIfThere(ChatsPath(path)));
  return RemoveIfThere(IndexPath(path));
}

absl::StatusOr<TokenFormat> ParseTokenFormat(std::string_view name) {
  if (name == "nanogpt") return TokenFormat::kNanoGpt;
  if (name == "llmc") return TokenFormat::kLlmc;
  if (name == "megatron") return TokenFormat::kMegatron;
  return InputError(absl::StrCat("--token_format=", ToAbsl(name)), "is not known",
                    "use nanogpt, llmc or megatron");
}

absl::StatusOr<TokenFileWriter> TokenFileWriter::Create(const std::string& path, TokenFormat format,
                                                        int64_t vocab, TokenizerId tokenizer) {
  CHECK(path.ends_with(".bin")) << path;
  if (format == TokenFormat::kNanoGpt && vocab > kMostOfUint16) {
    return InputError(
        path,
        absl::StrCat("its format holds ids below ", kMostOfUint16, ", the tokenizer has ", vocab),
        "use --token_format=llmc or megatron");
  }
  const bool wide =
      format == TokenFormat::kMegatron ? vocab >= kMegatronNarrow : vocab > kMostOfUint16;
  TokenFileWriter writer(path, format, wide ? 4 : 2, std::move(tokenizer));
  writer.file_.reset(std::fopen(TemporaryPath(path).c_str(), "wb"));
  if (!writer.file_) return CannotWrite(path);
  if (format == TokenFormat::kLlmc) RETURN_IF_ERROR(writer.WriteHeader());
  return writer;
}

TokenFileWriter::~TokenFileWriter() {
  if (!file_) return;
  file_.reset();
  std::remove(TemporaryPath(path_).c_str());
}

absl::Status TokenFileWriter::Append(std::span<const int32_t> ids) {
  if (ids.empty())
    return absl::OkStatus();  // An empty span may have no address, which fwrite needs.
  const void* bytes = ids.data();
  if (token_bytes_ == 2) {
    narrow_.assign(ids.begin(), ids.end());
    bytes = narrow_.data();
  }
  if (std::fwrite(bytes, token_bytes_, ids.size(), file_.get()) != ids.size()) {
    return CannotWrite(path_);
  }
  tokens_ += static_cast<int64_t>(ids.size());
  return absl::OkStatus();
}

void TokenFileWriter::EndDocument() {
  if (tokens_ > (document_ends_.empty() ? 0 : document_ends_.back())) {
    document_ends_.push_back(tokens_);
  }
}

absl::Status TokenFileWriter::WriteHeader() {
  if (tokens_ > std::numeric_limits<int32_t>::max()) {
    return InputError(path_, absl::StrCat(tokens_, " tokens are more than the header can count"),
                      "split the text, or use --token_format=megatron");
  }
  const bool wide = token_bytes_ == 4;
  std::array<int32_t, kLlmcHeaderBytes / 4> header = {wide ? kLlmcLlamaMagic : kLlmcMagic,
                                                      wide ? kLlmcLlamaVersion : kLlmcVersion,
                                                      static_cast<int32_t>(tokens_)};
  std::rewind(file_.get());
  if (std::fwrite(header.data(), 4, header.size(), file_.get()) == header.size()) {
    return absl::OkStatus();
  }
  return CannotWrite(path_);
}

absl::Status TokenFileWriter::WriteIndex() const {
  std::string index(kMegatronMagic, sizeof kMegatronMagic), offsets, documents;
  Put(kMegatronVersion, &index);
  Put(token_bytes_ == 2 ? kMegatronUint16 : kMegatronInt32, &index);
  Put(static_cast<uint64_t>(document_ends_.size()), &index);
  Put(static_cast<uint64_t>(document_ends_.size() + 1), &index);
  Put(int64_t{0}, &documents);
  int64_t begin = 0;
  for (size_t i = 0; i < document_ends_.size(); ++i) {
    const int64_t size = document_ends_[i] - begin;
    if (size > std::numeric_limits<int32_t>::max()) {
      return InputError(path_, absl::StrCat("a document of ", size, " tokens is too long"),
                        "split it into several files");
    }
    Put(static_cast<int32_t>(size), &index);
    Put(begin * token_bytes_, &offsets);
    Put(static_cast<int64_t>(i + 1), &documents);
    begin = document_ends_[i];
  }
  return WriteFile(IndexPath(path_), index + offsets + documents);
}

absl::Status TokenFileWriter::Finish(const ChatTable* chats) {
  EndDocument();
  if (format_ == TokenFormat::kLlmc) RETURN_IF_ERROR(WriteHeader());
  if (std::fflush(file_.get()) != 0) return CannotWrite(path_);
  if (format_ == TokenFormat::kMegatron) RETURN_IF_ERROR(WriteIndex());
  RETURN_IF_ERROR(tokenizer_.known() ? WriteTokenFileMeta(path_, {tokens_, tokenizer_})
                                     : RemoveIfThere(MetaPath(path_)));
  if (chats != nullptr) {
    CHECK_EQ(chats->tokens(), tokens_) << path_;
    RETURN_IF_ERROR(WriteChats(path_, *chats));
  }
  if (std::rename(TemporaryPath(path_).c_str(), path_.c_str()) != 0) return CannotWrite(path_);
  file_.reset();
  // Last: a file whose index or chats do not fit is refused, one that lost them would be misread.
  if (chats == nullptr) RETURN_IF_ERROR(RemoveIfThere(ChatsPath(path_)));
  return format_ == TokenFormat::kMegatron ? absl::OkStatus() : RemoveIfThere(IndexPath(path_));
}

}  // namespace oneflow

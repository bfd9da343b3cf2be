// TokenFileWriter: writes a file of token ids that token_file.h reads, and the systems that define
// the formats, too.
//
//   ASSIGN_OR_RETURN(TokenFileWriter out, TokenFileWriter::Create("train.bin", format, 50257));
//   RETURN_IF_ERROR(out.Append(ids));   // any number of times
//   out.EndDocument();
//   RETURN_IF_ERROR(out.Finish());      // now the file is there
//
// Until Finish an existing file of that name is unchanged; a writer that is destroyed before leaves
// no files.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "training/data/chat_file.h"
#include "training/tokenizer/tokenizer_id.h"

namespace oneflow {

enum class TokenFormat : uint8_t {
  kNanoGpt,   // "nanogpt": uint16
  kLlmc,      // "llmc": header, uint16; uint32 (Llama 3's kind) where ids need it
  kMegatron,  // "megatron": .bin of uint16 or int32, .idx
};
absl::StatusOr<TokenFormat> ParseTokenFormat(std::string_view name);

// Removes the token file `path`, which ends in .bin, its index, its facts (token_file_meta.h) and
// its chats (chat_file.h), if they exist.
absl::Status RemoveTokenFile(const std::string& path);

class TokenFileWriter {
 public:
  // `path` ends in .bin; ids will be below `vocab`. Megatron's ids take two bytes if vocab is below
  // 65500, as in its own tool, else four; llm.c's take two if vocab is at most 65536; nanoGPT's
  // format refuses a larger one. `tokenizer`, if it is known, is written to the facts beside the
  // file.
  static absl::StatusOr<TokenFileWriter> Create(const std::string& path, TokenFormat format,
                                                int64_t vocab, TokenizerId tokenizer = {});
  TokenFileWriter(TokenFileWriter&&) = default;
  TokenFileWriter& operator=(TokenFileWriter&&) = default;
  ~TokenFileWriter();

  absl::Status Append(std::span<const int32_t> ids);
  // Ends a document: all tokens appended since the last call (Megatron's index; empty documents are
  // left out).
  void EndDocument();
  // Writes header, index, facts and chats, and renames the files. An index of an earlier file is
  // removed if the format has none, and so are its chats if none are given, and facts if none are
  // known. Requires chats of all tokens, ended.
  absl::Status Finish(const ChatTable* chats = nullptr);

  int64_t tokens() const { return tokens_; }
  int token_bytes() const { return token_bytes_; }

 private:
  struct Close {
    void operator()(FILE* file) const { std::fclose(file); }
  };

  TokenFileWriter(std::string path, TokenFormat format, int token_bytes, TokenizerId tokenizer)
      : path_(std::move(path)),
        format_(format),
        token_bytes_(token_bytes),
        tokenizer_(std::move(tokenizer)) {}
  absl::Status WriteHeader();
  absl::Status WriteIndex() const;

  std::string path_;
  TokenFormat format_;
  int token_bytes_;
  TokenizerId tokenizer_;
  std::unique_ptr<FILE, Close> file_;  // path_ + ".tmp"; null once finished
  int64_t tokens_ = 0;
  std::vector<int64_t> document_ends_;  // in tokens
  std::vector<uint16_t> narrow_;        // kept for its memory
};

}  // namespace oneflow

// Chats of a token file: where each ends, and which tokens count as labels. Those of FILE.bin are
// in FILE.chats beside it, little-endian:
//
//   "OFCHATS1"                 8 bytes
//   chats, tokens              u64 each
//   ends[chats]                u64 each: the position behind the last token of each chat
//   mask[(tokens + 7) / 8]     bytes, the lowest bit first: 1: the token counts as a label
//
//   ChatTable chats;
//   chats.Append(ids.size(), false);   // the question
//   chats.Append(reply.size(), true);  // the answer
//   chats.EndChat();
//   RETURN_IF_ERROR(writer.Finish(&chats));   // of the TokenFileWriter of train.bin
//
// They are kept in memory: 8 bytes a chat, and a bit a token. OpenTokenFile reads them
// (TokenFile::chats).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace oneflow {

class ChatTable {
 public:
  // The next tokens of the chat that has begun: all of them count as labels, or none does.
  void Append(int64_t tokens, bool counts);
  // The same, token by token: those count whose byte is not zero.
  void Append(std::span<const uint8_t> counts);
  // Ends a chat: all tokens appended since the last call. A chat of no tokens is left out.
  void EndChat();

  int64_t chats() const { return static_cast<int64_t>(ends_.size()); }
  int64_t tokens() const { return tokens_; }
  // Tokens [begin(i), end(i)) are chat i.
  int64_t begin(int64_t chat) const { return chat == 0 ? 0 : ends_[chat - 1]; }
  int64_t end(int64_t chat) const { return ends_[chat]; }
  // True if the token counts as a label.
  bool counts(int64_t token) const { return (mask_[token / 8] >> (token % 8) & 1) != 0; }
  // How many of the tokens [begin, end) count.
  int64_t CountLabels(int64_t begin, int64_t end) const;

 private:
  friend absl::Status WriteChats(const std::string& bin, const ChatTable& chats);
  friend absl::StatusOr<std::optional<ChatTable>> ReadChats(const std::string& bin, int64_t tokens);

  int64_t tokens_ = 0;
  std::vector<int64_t> ends_;  // increasing
  std::vector<uint8_t> mask_;  // as in the file
};

// The path of the chats of `bin`, which ends in .bin.
std::string ChatsPath(const std::string& bin);

// Writes the chats of `bin`. Requires that all are ended. Errors: the file cannot be written.
absl::Status WriteChats(const std::string& bin, const ChatTable& chats);

// Nothing if there is no such file. Input errors: it is of another kind, truncated or damaged; it
// is not of a .bin of `tokens` tokens.
absl::StatusOr<std::optional<ChatTable>> ReadChats(const std::string& bin, int64_t tokens);

}  // namespace oneflow

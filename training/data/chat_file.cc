#include "training/data/chat_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "training/data/data_file.h"

namespace oneflow {
namespace {

constexpr std::string_view kChatsMagic = "OFCHATS1";
constexpr int64_t kChatsHead = 8 + 8 + 8;

template <typename T>
std::span<std::byte> BytesFor(std::vector<T>* values) {
  return std::as_writable_bytes(std::span(*values));
}

template <typename T>
void AppendBytes(std::span<const T> values, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

absl::Status BadChats(const std::string& path, std::string_view what) {
  return InputError(path, what, "make it again, with the .bin beside it: `oneflow data --chat`");
}

}  // namespace

void ChatTable::Append(int64_t tokens, bool counts) {
  CHECK_GE(tokens, 0);
  mask_.resize((tokens_ + tokens + 7) / 8);
  for (int64_t end = tokens_ + tokens; tokens_ < end; ++tokens_) {
    if (counts) mask_[tokens_ / 8] |= static_cast<uint8_t>(1 << (tokens_ % 8));
  }
}

void ChatTable::Append(std::span<const uint8_t> counts) {
  for (const uint8_t one : counts) Append(1, one != 0);
}

void ChatTable::EndChat() {
  if (tokens_ > (ends_.empty() ? 0 : ends_.back())) ends_.push_back(tokens_);
}

int64_t ChatTable::CountLabels(int64_t begin, int64_t end) const {
  CHECK(0 <= begin && begin <= end && end <= tokens_);
  int64_t labels = 0;
  for (int64_t token = begin; token < end;) {
    if (token % 8 == 0 && end - token >= 8) {
      labels += std::popcount(mask_[token / 8]);
      token += 8;
    } else {
      labels += counts(token++) ? 1 : 0;
    }
  }
  return labels;
}

std::string ChatsPath(const std::string& bin) { return bin.substr(0, bin.size() - 4) + ".chats"; }

absl::Status WriteChats(const std::string& bin, const ChatTable& chats) {
  CHECK(bin.ends_with(".bin")) << bin;
  CHECK_EQ(chats.tokens(), chats.ends_.empty() ? 0 : chats.ends_.back()) << "a chat is not ended";
  const uint64_t head[] = {static_cast<uint64_t>(chats.chats()),
                           static_cast<uint64_t>(chats.tokens())};
  std::string bytes(kChatsMagic);
  AppendBytes(std::span<const uint64_t>(head), &bytes);
  AppendBytes(std::span<const int64_t>(chats.ends_), &bytes);
  AppendBytes(std::span<const uint8_t>(chats.mask_), &bytes);
  return WriteFile(ChatsPath(bin), bytes);
}

absl::StatusOr<std::optional<ChatTable>> ReadChats(const std::string& bin, int64_t tokens) {
  const std::string path = ChatsPath(bin);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path));
  char magic[8] = {};
  uint64_t head[2] = {};
  if (file.size() < kChatsHead) return BadChats(path, "is shorter than its head: it is truncated");
  RETURN_IF_ERROR(file.Read(0, std::as_writable_bytes(std::span(magic))));
  RETURN_IF_ERROR(file.Read(8, std::as_writable_bytes(std::span(head))));
  if (std::string_view(magic, sizeof magic) != kChatsMagic) {
    return BadChats(path, "holds no chats: it does not begin with OFCHATS1");
  }
  // Each chat has a token.
  if (head[0] > head[1] || head[1] != static_cast<uint64_t>(tokens)) {
    return BadChats(path, absl::StrCat("says ", head[0], " chats of ", head[1],
                                       " tokens, but the .bin holds ", tokens, " tokens"));
  }
  const auto chats = static_cast<int64_t>(head[0]);
  const int64_t size = kChatsHead + 8 * chats + (tokens + 7) / 8;
  if (file.size() != size) {
    return BadChats(path, absl::StrCat("has ", file.size(), " bytes, and ", chats, " chats of ",
                                       tokens, " tokens take ", size));
  }
  ChatTable table;
  table.tokens_ = tokens;
  table.ends_.resize(chats);
  table.mask_.resize((tokens + 7) / 8);
  RETURN_IF_ERROR(file.Read(kChatsHead, BytesFor(&table.ends_)));
  RETURN_IF_ERROR(file.Read(kChatsHead + 8 * chats, BytesFor(&table.mask_)));
  int64_t begin = 0;
  for (const int64_t end : table.ends_) {
    if (end <= begin) return BadChats(path, absl::StrCat("has a chat that ends at ", end));
    begin = end;
  }
  if (begin != tokens) {
    return BadChats(path, absl::StrCat("its chats end at ", begin, " of ", tokens, " tokens"));
  }
  if (tokens % 8 != 0 && table.mask_.back() >> (tokens % 8) != 0) {
    return BadChats(path, "has a mask behind its last token");
  }
  return table;
}

}  // namespace oneflow

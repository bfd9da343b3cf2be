#include "tools/oneflow/model/tokenize_text.h"

#include <algorithm>
#include <utility>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr size_t kPieceBytes = 1 << 20;
constexpr int64_t kMostReach = 1 << 20, kLookAhead = 1 << 16;  // in a text that is unpacked
constexpr size_t kMostLocations = 5;

// The bytes of `text` to encode next: about a piece, or as much as must stay together.
size_t NextPiece(std::string_view text, const Tokenizer& tokenizer) {
  for (size_t limit = kPieceBytes; limit < text.size(); limit *= 2) {
    if (const size_t size = tokenizer.find_split(text, limit)) return size;
  }
  return text.size();
}

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool IsInCharacter(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// The position at which to split `text`: at most `limit`, and no more than `reach` below it unless
// a character is in the way.
size_t SplitNear(std::string_view text, const Tokenizer& tokenizer, size_t limit, size_t reach) {
  if (const size_t at = tokenizer.find_split(text, limit); limit - at <= reach) return at;
  for (size_t at = limit; at > 0 && limit - at <= reach; --at) {
    if (IsSpace(text[at]) && !IsSpace(text[at - 1])) return at;
  }
  size_t at = limit;
  while (at > 0 && IsInCharacter(text[at])) --at;
  return at;
}

bool EndsWith(const std::vector<int32_t>& ids, int32_t id) {
  return !ids.empty() && ids.back() == id;
}

}  // namespace

DocumentEncoder::DocumentEncoder(const Tokenizer& tokenizer, const TokenizeOptions& options,
                                 Append append, std::function<void()> on_end)
    : tokenizer_(tokenizer),
      options_(options),
      append_(std::move(append)),
      on_end_(std::move(on_end)),
      end_(tokenizer.end),
      limit_(kPieceBytes) {
  if (options.end_of_text && !EndsWith(end_, *tokenizer.end_of_text)) {
    end_.push_back(*tokenizer.end_of_text);
  }
}

absl::Status DocumentEncoder::Begin(bool part) {
  tokens_ = 0;
  ++counts_.documents;
  return part ? absl::OkStatus() : append_(tokenizer_.begin);
}

absl::Status DocumentEncoder::Encode(std::string_view text) {
  ids_.clear();
  tokenizer_.encode(text, &ids_);
  tokens_ += std::ssize(ids_);
  counts_.text_bytes += std::ssize(text);
  RETURN_IF_ERROR(append_(ids_));
  if (options_.on_progress) options_.on_progress(std::ssize(text));
  return absl::OkStatus();
}

absl::Status DocumentEncoder::Add(std::string_view text) {
  const bool joined = !kept_.empty();
  if (joined) text = kept_.append(text);
  // What follows a split decides nothing beyond a few bytes: as much again is there.
  while (2 * limit_ <= text.size()) {
    const size_t size = tokenizer_.find_split(text, limit_);
    if (size == 0) {
      limit_ *= 2;
      continue;
    }
    RETURN_IF_ERROR(Encode(text.substr(0, size)));
    text.remove_prefix(size);
    limit_ = kPieceBytes;
  }
  if (joined) {
    kept_.erase(0, kept_.size() - text.size());
  } else {
    kept_ = text;
  }
  return absl::OkStatus();
}

absl::Status DocumentEncoder::End(const std::string& location, bool part) {
  for (std::string_view text = kept_; !text.empty();) {
    const size_t size = NextPiece(text, tokenizer_);
    RETURN_IF_ERROR(Encode(text.substr(0, size)));
    text.remove_prefix(size);
  }
  kept_.clear();
  limit_ = kPieceBytes;
  if (!part) RETURN_IF_ERROR(append_(end_));
  if (on_end_) on_end_();
  counts_.text_tokens += tokens_;
  if (tokens_ > 0) return absl::OkStatus();
  ++counts_.silent;
  if (counts_.first_silent.size() < kMostLocations) counts_.first_silent.push_back(location);
  return absl::OkStatus();
}

ValidationShare ShareText(int64_t bytes, double fraction) {
  const auto train = static_cast<int64_t>(static_cast<double>(bytes) * (1 - fraction));
  return {train, std::min(train, bytes - train) / 10};
}

absl::Status TextDivider::Add(const TextReader& reader, const TextBlock& block,
                              int64_t document_bytes) {
  if (block.begins && validation_ == nullptr) RETURN_IF_ERROR(train_->Begin());
  if (block.begins && validation_ != nullptr) {
    const int64_t bytes = block.ends ? std::ssize(block.text) : document_bytes;
    const bool full = share_.train_bytes >= bytes;
    fate_ = full                                                ? Fate::kTrain
            : reader.facts.records() || share_.train_bytes == 0 ? Fate::kValidation
                                                                : Fate::kSplit;
    if (full) share_.train_bytes -= bytes;
    if (fate_ == Fate::kTrain) RETURN_IF_ERROR(train_->Begin());
    if (fate_ == Fate::kValidation) {
      share_.train_bytes = 0;
      RETURN_IF_ERROR(validation_->Begin());
    }
    window_text_.clear();
    sent_ = 0;
  }
  if (fate_ == Fate::kSplit) return AddPart(reader, block);
  DocumentEncoder* const to = fate_ == Fate::kTrain ? train_ : validation_;
  RETURN_IF_ERROR(to->Add(block.text));
  if (block.ends) RETURN_IF_ERROR(to->End(reader.location()));
  return absl::OkStatus();
}

// The document that is split. Once it is, the rest is for validation.
absl::Status TextDivider::AddPart(const TextReader& reader, const TextBlock& block) {
  const bool all = block.begins && block.ends;
  const int64_t reach = all ? share_.reach : std::min(share_.reach, kMostReach);
  if (all) {
    window_ = block.text;
  } else {
    window_ = window_text_.append(block.text);
    auto before = std::clamp<int64_t>(share_.train_bytes - reach - sent_, 0, std::ssize(window_));
    while (before > 0 && before < std::ssize(window_) && IsInCharacter(window_[before])) --before;
    if (before > 0) {
      if (sent_ == 0) RETURN_IF_ERROR(train_->Begin());
      RETURN_IF_ERROR(train_->Add(window_.substr(0, before)));
      window_text_.erase(0, before);
      window_ = window_text_;
      sent_ += before;
    }
    if (!block.ends && sent_ + std::ssize(window_) < share_.train_bytes + kLookAhead) {
      return absl::OkStatus();
    }
  }
  RETURN_IF_ERROR(Divide(reader.location(), reach));
  if (block.ends) RETURN_IF_ERROR(validation_->End(reader.location()));
  fate_ = Fate::kValidation;
  return absl::OkStatus();
}

absl::Status TextDivider::Divide(const std::string& location, int64_t reach) {
  const size_t size = SplitNear(window_, tokenizer_, share_.train_bytes - sent_, reach);
  const bool both = sent_ > 0 || size > 0;
  if (sent_ == 0 && size > 0) RETURN_IF_ERROR(train_->Begin());
  if (both) {
    RETURN_IF_ERROR(train_->Add(window_.substr(0, size)));
    RETURN_IF_ERROR(train_->End(location, /*part=*/true));
  }
  RETURN_IF_ERROR(validation_->Begin(/*part=*/both));
  RETURN_IF_ERROR(validation_->Add(window_.substr(size)));
  window_text_.clear();
  share_.train_bytes = 0;
  return absl::OkStatus();
}

}  // namespace oneflow

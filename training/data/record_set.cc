#include "training/data/record_set.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/random/random.h"
#include "glog/logging.h"
#include "oneflow_core/base/status.h"
#include "training/data/epoch_order.h"
#include "training/data/pack_chats.h"

namespace oneflow {
namespace {

// The tokens behind `end_of_text` begin documents.
void MarkBehind(int32_t end_of_text, std::span<int32_t> tokens) {
  bool ended = false;
  for (int32_t& token : tokens) {
    const bool ends = token == end_of_text;
    if (ended) token = MakeToken(token, {.begins = true});
    ended = ends;
  }
}

std::string ChatName(const TokenDataset::FilePart& part, int64_t chat) {
  return absl::StrCat("chat ", chat + 1, " of ", *part.path);
}

}  // namespace

struct RecordSet::Table {
  // A chat that is read, its end left out where it is too long. No padding bytes: it is hashed.
  struct KeptChat {
    int64_t begin = 0;  // in the dataset
    int64_t tokens = 0;
  };

  // Records of one kind, of files that follow each other.
  struct Run {
    int64_t first_record = 0, records = 0;
    bool chats = false;
    int64_t begin = 0;  // of windows: the first token; of chats: the first of their records
  };

  TokenDataset data;
  RecordOptions options;
  std::vector<TokenDataset::FilePart> parts;  // of the dataset
  std::vector<Run> runs;                      // in the order of records
  std::vector<KeptChat> chats;                // in the order in which records have them
  std::vector<int64_t> firsts;                // of each record of chats: its first one; and the end
  RecordCounts counts;
  uint64_t hash = 0;

  explicit Table(TokenDataset dataset, const RecordOptions& chosen)
      : data(std::move(dataset)), options(chosen), parts(data.FileParts()) {}

  absl::Status Fill() {
    for (size_t begin = 0, end = 0; begin < parts.size(); begin = end) {
      const bool chats_here = parts[begin].chats != nullptr;
      for (end = begin; end < parts.size() && (parts[end].chats != nullptr) == chats_here;) ++end;
      const auto of_kind = std::span(parts).subspan(begin, end - begin);
      RETURN_IF_ERROR(chats_here ? AddChats(of_kind) : AddWindows(of_kind));
    }
    firsts.push_back(std::ssize(chats));
    hash = ComputeHash();
    return absl::OkStatus();
  }

  absl::Status AddWindows(std::span<const TokenDataset::FilePart> joined) {
    const int64_t begin = joined.front().begin, size = joined.back().end - begin;
    const int64_t windows = std::max<int64_t>(0, size - 1) / options.sequence;
    counts.left_out += size - (windows > 0 ? windows * options.sequence + 1 : 0);
    counts.windows += windows;
    AddRun({.records = windows, .chats = false, .begin = begin});
    return absl::OkStatus();
  }

  absl::Status AddChats(std::span<const TokenDataset::FilePart> joined) {
    std::vector<KeptChat> kept;
    for (const TokenDataset::FilePart& part : joined) {
      const int64_t file_end = part.first + part.end - part.begin;
      for (int64_t i = 0; i < part.chats->chats(); ++i) {
        const int64_t begin = part.chats->begin(i), end = part.chats->end(i);
        if (begin < part.first || end > file_end) continue;  // of another part of the dataset
        RETURN_IF_ERROR(AddChat(part, i, &kept));
      }
    }
    const auto first = std::ssize(chats);
    int64_t records = 0;
    if (!options.documents) {
      records = std::ssize(kept);
      for (int64_t i = 0; i < records; ++i) firsts.push_back(first + i);
      chats.insert(chats.end(), kept.begin(), kept.end());
    } else {
      std::vector<int64_t> lengths;
      for (const KeptChat& chat : kept) lengths.push_back(chat.tokens);
      const PackedChats packed = PackChats(lengths, options.sequence);
      records = std::ssize(packed.firsts) - 1;
      for (int64_t i = 0; i < records; ++i) firsts.push_back(first + packed.firsts[i]);
      for (const int64_t chat : packed.chats) chats.push_back(kept[chat]);
    }
    AddRun({.records = records, .chats = true, .begin = counts.packed});
    counts.packed += records;
    return absl::OkStatus();
  }

  absl::Status AddChat(const TokenDataset::FilePart& part, int64_t chat,
                       std::vector<KeptChat>* kept) {
    const int64_t begin = part.chats->begin(chat), all = part.chats->end(chat) - begin;
    const bool is_long = all > options.sequence;
    if (is_long && options.long_chats == LongChats::kError) {
      return InputError(ChatName(part, chat),
                        absl::StrCat("has ", all, " tokens, and a sequence ", options.sequence),
                        "use a model of longer sequences, or --long_chats=truncate or drop");
    }
    if (is_long && options.long_chats == LongChats::kDrop) {
      ++counts.too_long;
      return absl::OkStatus();
    }
    const int64_t tokens = std::min(all, options.sequence);
    // The first token is the label of none.
    const int64_t labels = part.chats->CountLabels(begin + 1, begin + tokens);
    if (labels == 0) {
      ++counts.no_labels;
      return absl::OkStatus();
    }
    ++counts.chats;
    counts.chat_tokens += tokens;
    counts.chat_labels += labels;
    counts.truncated += is_long ? 1 : 0;
    kept->push_back({part.begin + begin - part.first, tokens});
    return absl::OkStatus();
  }

  void AddRun(Run run) {
    run.first_record = counts.records;
    counts.records += run.records;
    if (run.records > 0) runs.push_back(run);
  }

  uint64_t ComputeHash() const {
    std::vector<int64_t> numbers = {options.sequence, counts.records};
    for (const Run& run : runs) {
      numbers.insert(numbers.end(), {run.first_record, run.begin, run.records, run.chats ? 1 : 0});
    }
    numbers.insert(numbers.end(), firsts.begin(), firsts.end());
    numbers.push_back(counts.chat_labels);  // other masks count other labels
    const uint64_t of_chats = XXH3_64bits(chats.data(), chats.size() * sizeof(KeptChat));
    return XXH3_64bits_withSeed(numbers.data(), numbers.size() * sizeof(int64_t), of_chats);
  }

  absl::Status ReadChat(const KeptChat& chat, std::span<int32_t> tokens) const {
    RETURN_IF_ERROR(data.Read(chat.begin, tokens));
    const auto part = std::upper_bound(parts.begin(), parts.end(), chat.begin,
                                       [](int64_t at, const TokenDataset::FilePart& one) {
                                         return at < one.begin;
                                       }) -
                      1;
    const int64_t first = part->first + chat.begin - part->begin;
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] =
          MakeToken(tokens[i], {.counts = part->chats->counts(first + i), .begins = i == 0});
    }
    return absl::OkStatus();
  }

  absl::Status Read(int64_t record, std::span<int32_t> tokens) const {
    CHECK(record >= 0 && record < counts.records && std::ssize(tokens) == options.sequence + 1);
    const auto run =
        std::upper_bound(runs.begin(), runs.end(), record,
                         [](int64_t r, const Run& one) { return r < one.first_record; }) -
        1;
    const int64_t of_run = record - run->first_record;
    if (!run->chats) {
      RETURN_IF_ERROR(data.Read(run->begin + of_run * options.sequence, tokens));
      if (options.documents) MarkBehind(options.end_of_text, tokens);
      return absl::OkStatus();
    }
    const int64_t packed = run->begin + of_run;
    for (int64_t i = firsts[packed]; i < firsts[packed + 1]; ++i) {
      RETURN_IF_ERROR(ReadChat(chats[i], tokens.first(chats[i].tokens)));
      tokens = tokens.subspan(chats[i].tokens);
    }
    std::fill(tokens.begin(), tokens.end(), kPaddingToken);
    return absl::OkStatus();
  }
};

namespace {

class EpochSource : public TokenSource {
 public:
  EpochSource(RecordSet records, uint64_t seed, int64_t batch)
      : records_(std::move(records)), seed_(seed), batch_(batch) {}

  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    CHECK(step >= 0 && step < kMost && sample >= 0 && sample < batch_ && batch_ < kMost);
    const auto k =
        static_cast<uint64_t>(step) * static_cast<uint64_t>(batch_) + static_cast<uint64_t>(sample);
    const auto size = static_cast<uint64_t>(records_.size());
    const EpochOrder order(seed_, k / size, records_.size());
    return records_.Read(order(static_cast<int64_t>(k % size)), tokens);
  }

 private:
  RecordSet records_;
  uint64_t seed_;
  int64_t batch_;
};

class RecordDraws : public TokenSource {
 public:
  RecordDraws(RecordSet records, uint64_t seed)
      : records_(std::move(records)), draws_(seed, "record_draws") {}

  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    CHECK(step >= 0 && step < kMost && sample >= 0 && sample < kMost);
    // Both share one 64-bit index, as in TokenDataset::Source.
    const auto index = static_cast<uint64_t>(step) << 32 | static_cast<uint64_t>(sample);
    return records_.Read(static_cast<int64_t>(draws_.Below(index, records_.size())), tokens);
  }

 private:
  RecordSet records_;
  RandomStream draws_;
};

class RecordPass : public TokenSource {
 public:
  RecordPass(RecordSet records, int64_t batch) : records_(std::move(records)), batch_(batch) {}

  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    CHECK(step >= 0 && step < kMost && sample >= 0 && sample < batch_);
    const int64_t record = step * batch_ + sample;
    if (record < records_.size()) return records_.Read(record, tokens);
    std::fill(tokens.begin(), tokens.end(), kPadding);
    return absl::OkStatus();
  }

 private:
  RecordSet records_;
  int64_t batch_;
};

class DocumentMarker : public TokenSource {
 public:
  DocumentMarker(std::unique_ptr<TokenSource> source, int32_t end_of_text)
      : source_(std::move(source)), end_of_text_(end_of_text) {}

  absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const override {
    RETURN_IF_ERROR(source_->Sample(step, sample, tokens));
    MarkBehind(end_of_text_, tokens);
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<TokenSource> source_;
  int32_t end_of_text_;
};

absl::Status NoRecords(const TokenDataset& data, const RecordCounts& counts, int64_t sequence) {
  if (counts.too_long + counts.no_labels > 0) {
    return InputError(data.path(),
                      absl::StrCat("none of its chats can be trained on: ", counts.no_labels,
                                   " have no token that counts, ", counts.too_long,
                                   " are longer than a sequence of ", sequence),
                      "use other chats, longer sequences or --long_chats=truncate");
  }
  return InputError(data.path(),
                    absl::StrCat("has no record: neither a chat nor ", sequence + 1, " tokens"),
                    "use more data or shorter sequences");
}

}  // namespace

void RecordCounts::Add(const RecordCounts& other) {
  for (const auto number :
       {&RecordCounts::records, &RecordCounts::windows, &RecordCounts::packed, &RecordCounts::chats,
        &RecordCounts::chat_tokens, &RecordCounts::chat_labels, &RecordCounts::truncated,
        &RecordCounts::too_long, &RecordCounts::no_labels, &RecordCounts::left_out}) {
    this->*number += other.*number;
  }
}

absl::StatusOr<RecordSet> RecordSet::Make(TokenDataset data, const RecordOptions& options) {
  CHECK_GE(options.sequence, 1);
  auto table = std::make_shared<Table>(std::move(data), options);
  RETURN_IF_ERROR(table->Fill());
  if (table->counts.records == 0 && !options.may_be_empty) {
    return NoRecords(table->data, table->counts, options.sequence);
  }
  return RecordSet(std::move(table));
}

int64_t RecordSet::size() const { return table_->counts.records; }
const RecordCounts& RecordSet::counts() const { return table_->counts; }
uint64_t RecordSet::hash() const { return table_->hash; }

absl::Status RecordSet::Read(int64_t record, std::span<int32_t> tokens) const {
  return table_->Read(record, tokens);
}

std::unique_ptr<TokenSource> RecordSet::Epochs(uint64_t seed, int64_t batch) const {
  CHECK_GE(size(), 1);
  return std::make_unique<EpochSource>(*this, seed, batch);
}

std::unique_ptr<TokenSource> RecordSet::Draws(uint64_t seed) const {
  CHECK_GE(size(), 1);
  return std::make_unique<RecordDraws>(*this, seed);
}

std::unique_ptr<TokenSource> RecordSet::Pass(int64_t batch) const {
  return std::make_unique<RecordPass>(*this, batch);
}

std::unique_ptr<TokenSource> MarkDocuments(std::unique_ptr<TokenSource> source,
                                           int32_t end_of_text) {
  return std::make_unique<DocumentMarker>(std::move(source), end_of_text);
}

int64_t CountValidationChats(int64_t chats, double validation) {
  return std::llround(validation * static_cast<double>(chats));
}

absl::StatusOr<TokenSplit> SplitChats(const TokenDataset& data, double validation) {
  if (!(validation >= 0 && validation < 1)) {
    return InputError("validation fraction", absl::StrCat(validation, " is not in [0, 1)"),
                      "use a number such as 0.1");
  }
  int64_t all = 0;
  const std::vector<TokenDataset::FilePart> parts = data.FileParts();
  for (const TokenDataset::FilePart& part : parts) {
    CHECK(part.chats != nullptr) << *part.path;
    all += part.chats->chats();
  }
  int64_t train = all - CountValidationChats(all, validation);
  if (validation > 0 && (train == 0 || train == all)) {
    return InputError(data.path(),
                      absl::StrCat("of ", all, " chats the ",
                                   train == 0 ? "training" : "validation", " part has none"),
                      "use more chats, or another part");
  }
  int64_t boundary = 0;
  for (const TokenDataset::FilePart& part : parts) {
    const int64_t here = std::min(train, part.chats->chats());
    if (here > 0) boundary = part.begin + part.chats->end(here - 1);
    train -= here;
  }
  return TokenSplit{data.Part(0, boundary), data.Part(boundary, data.size())};
}

}  // namespace oneflow

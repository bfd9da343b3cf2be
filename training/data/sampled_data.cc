#include "training/data/sampled_data.h"

#include <utility>

#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "oneflow_core/base/status.h"

namespace oneflow {

absl::StatusOr<SampledData> SampledData::Make(TokenMixture data, const RecordOptions& options,
                                              bool epochs) {
  if (epochs && !data.parts().empty()) {
    return InputError("--epochs",
                      "cannot be given together with weights of --data: a file of a "
                      "large weight would be read more often than the others",
                      "leave the weights out, or give --steps in the place of --epochs");
  }
  SampledData made(std::move(data), options, epochs);
  for (const TokenDataset& dataset : made.tokens_.datasets()) {
    std::optional<RecordSet>& records = made.records_.emplace_back();
    made.has_chats_ = made.has_chats_ || dataset.HasChats();
    if (dataset.size() == 0 || !(epochs || dataset.HasChats())) continue;
    ASSIGN_OR_RETURN(records, RecordSet::Make(dataset, options));
  }
  return made;
}

const RecordSet* SampledData::records() const {
  return tokens_.parts().empty() && records_[0] ? &*records_[0] : nullptr;
}

RecordCounts SampledData::counts() const {
  RecordCounts all;
  for (const std::optional<RecordSet>& records : records_) {
    if (records) all.Add(records->counts());
  }
  return all;
}

RecordsId SampledData::id() const {
  const int64_t count = counts().records;
  if (count == 0) return {};
  std::vector<uint64_t> hashes;
  for (const std::optional<RecordSet>& records : records_) {
    hashes.push_back(records ? records->hash() : 0);
  }
  const uint64_t hash = XXH3_64bits(hashes.data(), hashes.size() * sizeof(uint64_t));
  return {count, absl::StrCat(absl::Hex(hash, absl::kZeroPad16)), epochs_};
}

std::unique_ptr<TokenSource> SampledData::Draws(uint64_t seed, bool marks) const {
  CHECK(!epochs_);
  std::vector<std::unique_ptr<TokenSource>> sources;
  for (size_t i = 0; i < records_.size(); ++i) {
    const bool any_position = !records_[i].has_value();
    auto source = any_position ? tokens_.datasets()[i].Source(seed) : records_[i]->Draws(seed);
    sources.push_back(any_position && marks ? MarkDocuments(std::move(source), options_.end_of_text)
                                            : std::move(source));
  }
  return tokens_.Mix(seed, std::move(sources));
}

std::unique_ptr<TokenSource> SampledData::Epochs(uint64_t seed, int64_t batch) const {
  CHECK(epochs_ && records_[0]);
  return records_[0]->Epochs(seed, batch);
}

}  // namespace oneflow

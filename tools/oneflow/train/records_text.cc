#include "tools/oneflow/train/records_text.h"

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/time_text.h"

namespace oneflow {
namespace {

double Share(int64_t part, int64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

double FindFill(const RecordCounts& counts, int64_t sequence) {
  return Share(counts.chat_tokens, counts.packed * sequence);
}

}  // namespace

std::string LeftOutText(const RecordCounts& counts) {
  std::string text;
  const auto add = [&](int64_t number, const char* one, const char* many) {
    if (number == 0) return;
    absl::StrAppend(&text, text.empty() ? "" : "; ", number, number == 1 ? one : many);
  };
  add(counts.truncated, " chat is truncated", " chats are truncated");
  add(counts.too_long, " chat is left out: it is too long",
      " chats are left out: they are too long");
  add(counts.no_labels, " chat is left out: none of its tokens counts",
      " chats are left out: none of their tokens counts");
  return text;
}

std::string RecordsText(const SampledData& data, int64_t sequence, bool documents,
                        const proto::Run& run, int64_t batch) {
  const RecordCounts counts = data.counts();
  if (counts.records == 0) return "";
  std::string text = absl::StrCat("data: ", counts.records, " records: ");
  if (counts.windows > 0) {
    absl::StrAppend(&text, counts.windows, " windows of ", sequence, " tokens",
                    counts.packed > 0 ? ", " : "");
  }
  if (counts.packed > 0) {
    absl::StrAppend(
        &text, counts.chats, " chats of ", counts.chat_tokens, " tokens, ",
        PercentText(Share(counts.chat_labels, counts.chat_tokens)), " of which count as labels, ",
        documents ? absl::StrCat("packed into ", counts.packed, " windows of ", sequence)
                  : absl::StrCat("each in a window of ", sequence),
        " that are ", PercentText(FindFill(counts, sequence)), " full");
  }
  if (counts.left_out > 0) {
    absl::StrAppend(&text, "; the last ", counts.left_out, " tokens are left out");
  }
  text += '\n';
  if (const std::string out = LeftOutText(counts); !out.empty()) {
    absl::StrAppend(&text, "data: ", out, "\n");
  }
  if (run.has_epochs()) {
    absl::StrAppend(&text, run.epochs(), run.epochs() == 1 ? " epoch of " : " epochs of ",
                    counts.records, " records: ", run.steps(), " steps of ", batch, "\n");
  } else {
    absl::StrAppend(&text,
                    "records are drawn with replacement; --epochs reads each once an epoch\n");
  }
  return text;
}

nlohmann::ordered_json RecordsJson(const SampledData& data, int64_t sequence,
                                   const proto::Run& run) {
  const RecordCounts counts = data.counts();
  nlohmann::ordered_json json = {{"records", counts.records}};
  json["epochs"] = run.has_epochs() ? nlohmann::ordered_json(run.epochs()) : nullptr;
  json["steps"] = run.steps();
  json["windows"] = counts.windows;
  json["tokens_left_out"] = counts.left_out;
  json["chats"] = counts.chats;
  json["chat_tokens"] = counts.chat_tokens;
  json["label_tokens"] = counts.chat_labels;
  json["label_share"] = Share(counts.chat_labels, counts.chat_tokens);
  json["chat_windows"] = counts.packed;
  json["window_fill"] = FindFill(counts, sequence);
  json["chats_truncated"] = counts.truncated;
  json["chats_too_long"] = counts.too_long;
  json["chats_without_labels"] = counts.no_labels;
  return json;
}

}  // namespace oneflow

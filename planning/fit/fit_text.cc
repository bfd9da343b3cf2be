#include "planning/fit/fit_text.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/print/band.h"
#include "planning/search/plan_words.h"
#include "planning/search/result_text.h"
#include "planning/search/simplest.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLeastGain = 0.01;  // of a step, that is worth a line

std::string InBrackets(const std::string& note) {
  return note.empty() ? "" : absl::StrCat(" (", note, ")");
}

std::string Plural(int64_t count, const std::string& what) {
  return absl::StrCat(DigitsText(count), " ", what, count == 1 ? "" : "s");
}

// "llama3.1-8b, 8.03 billion parameters, on 64 devices (8 x 8) of H100s; batch 512 ...".
std::string QuestionText(const FitFrame& frame) {
  const std::string grid =
      frame.nodes > 0 ? absl::StrCat(" (", frame.nodes, " x ", frame.devices / frame.nodes, ")")
                      : "";
  std::string text =
      absl::StrCat(frame.model, ", ", CountText(static_cast<double>(frame.parameters)),
                   " parameters, on ", Plural(frame.devices, "device"), grid, " of ", frame.cluster,
                   "; batch ", Plural(frame.batch, "sequence"));
  if (frame.sequence > 0) {
    absl::StrAppend(&text, " of ", DigitsText(frame.sequence), " tokens");
  }
  std::vector<std::string> notes;
  if (!frame.sequence_note.empty()) notes.push_back(frame.sequence_note);
  if (!frame.batch_note.empty()) notes.push_back(frame.batch_note);
  return absl::StrCat(text, InBrackets(absl::StrJoin(notes, "; ")), ", ", frame.precision);
}

std::string OfCapacity(const FitFrame& frame, int64_t bytes) {
  return absl::StrCat(ShortBytesText(bytes),
                      frame.capacity > 0 ? " of " + ShortBytesText(frame.capacity) : "");
}

std::string ChangeWords(const FitFrame& frame, const FitChange& change) {
  if (!change.plan) return absl::StrCat(change.what, " ", change.why);
  const std::string more = change.at_least ? " or more" : "";
  if (change.what == "batch") {
    const std::string each =
        change.batch % frame.devices == 0
            ? absl::StrCat(", ", DigitsText(change.batch / frame.devices), " a device")
            : "";
    return absl::StrCat("a batch of ", Plural(change.batch, "sequence"), more, " at once", each,
                        " (any by accumulation)");
  }
  if (change.what == "sequence") {
    return absl::StrCat("sequences of ", DigitsText(change.sequence), " tokens", more);
  }
  if (change.what == "imbalance") {
    if (change.imbalance == 0) return "any imbalance of experts";
    return absl::StrCat("experts at an imbalance of ", absl::StrFormat("%.2f", change.imbalance),
                        more);
  }
  return absl::StrCat(DigitsText(change.devices), " ", change.what);
}

Json ChangeJson(const FitFrame& frame, const FitChange& change) {
  Json json = {{"what", change.what}};
  if (!change.plan) {
    json["none"] = change.why;
    return json;
  }
  json.update(Json{{"devices", change.devices},
                   {"batch", change.batch},
                   {"sequence", change.sequence},
                   {"at_least", change.at_least}});
  if (change.what == "imbalance") json["any_imbalance"] = change.imbalance == 0;
  json["plan"] = FoundPlanJson(
      *change.plan, "A",
      absl::StrCat(frame.given_flags(change.batch, change.sequence), " ", PlanFlags(*change.plan)));
  return json;
}

std::string AllFlags(const FitFrame& frame, const FoundPlan& plan) {
  return absl::StrCat(frame.given_flags(frame.batch, frame.sequence), " ", PlanFlags(plan));
}

std::string Figures(const FitFrame& frame, const FoundPlan& plan) {
  std::string text;
  if (plan.tokens_a_second > 0) {
    absl::StrAppend(&text, ", ", DigitsText(static_cast<int64_t>(plan.tokens_a_second)),
                    " tokens/s");
    if (frame.devices > 1) {
      absl::StrAppend(&text, " (", DigitsText(std::llround(plan.device_tokens_a_second)),
                      " a device)");
    }
  }
  if (plan.mfu) absl::StrAppend(&text, ", MFU ", PercentText(*plan.mfu));
  return absl::StrCat(text, ", ", OfCapacity(frame, plan.bytes), " a device");
}

}  // namespace

std::string FitsLine(const FitFrame& frame, const FitAnswer&) {
  return absl::StrCat("fits: ", QuestionText(frame), "\n");
}

std::string BestLine(const FitFrame& frame, const FitAnswer& answer) {
  const FoundPlan& plan = answer.plans[0];
  return absl::StrCat("best plan: step ", TimeText(plan.step_seconds), BandText(plan.band),
                      Figures(frame, plan), "\n");
}

std::string LimitsLine(const FitFrame& frame, const FitAnswer& answer) {
  std::vector<std::string> words;
  for (const FitChange& limit : answer.limits) words.push_back(ChangeWords(frame, limit));
  return absl::StrCat("largest that fits: ", absl::StrJoin(words, "; "), "\n");
}

std::string MissLine(const FitFrame& frame, const FitMiss& miss) {
  return absl::StrCat("does not fit: ", QuestionText(frame), ": the nearest plan needs ",
                      miss.bounded ? "at least " : "", ShortBytesText(miss.bytes),
                      " a device, which has ", ShortBytesText(frame.capacity),
                      " for a plan: ", ShortBytesText(miss.bytes - frame.capacity), " too many\n");
}

std::string BindsLine(const FitFrame& frame, const FitMiss& miss,
                      const std::vector<ClassBytes>& classes) {
  std::vector<std::string> words;
  for (const ClassBytes& part : classes) {
    if (part.bytes > 0) words.push_back(absl::StrCat(part.what, " ", ShortBytesText(part.bytes)));
  }
  return absl::StrCat(
      "what binds: ",
      words.empty() ? "a bound of the bytes of all plans" : absl::StrJoin(words, ", "), "; with ",
      CandidateFlags(miss.candidate), "\n");
}

std::string ChangesLine(const FitFrame& frame, const FitMiss& miss) {
  std::vector<std::string> words;
  for (const FitChange& change : miss.changes) {
    words.push_back(absl::StrCat(ChangeWords(frame, change), " (",
                                 ShortBytesText(change.plan->bytes), " a device, a step of ",
                                 TimeText(change.plan->step_seconds), ")"));
  }
  return absl::StrCat("nearest that fits: ",
                      words.empty() ? "none was found among more devices and shorter sequences"
                                    : absl::StrJoin(words, "; or "),
                      "\n");
}

std::string UnknownLine(const FitFrame& frame, const FitAnswer& answer) {
  return absl::StrCat("not known: ", QuestionText(frame), ": no plan was found in ",
                      TimeText(answer.search.seconds),
                      "; narrow the space with --fix, or give `oneflow search` more time\n");
}

std::string PlanText(const FitFrame& frame, const FitAnswer& answer, size_t index) {
  const FoundPlan& plan = answer.plans[index];
  std::string text = absl::StrCat(index == 0 ? "\n" : "", "plan ", index + 1, ": step ",
                                  TimeText(plan.step_seconds), Figures(frame, plan),
                                  "\n  oneflow compile ", AllFlags(frame, plan), "\n");
  if (index > 0) {
    absl::StrAppend(&text, "  ", DifferenceText(plan, answer.plans[0], "plan 1"), "\n");
  }
  return text;
}

std::string ChangeText(const FitFrame& frame, const FitChange& change) {
  if (!change.plan) return "";
  return absl::StrCat(ChangeWords(frame, change), ": step ", TimeText(change.plan->step_seconds),
                      ", ", ShortBytesText(change.plan->bytes), " a device\n  oneflow compile ",
                      frame.given_flags(change.batch, change.sequence), " ",
                      PlanFlags(*change.plan), "\n");
}

std::string ExtentLine(const FitAnswer& answer) {
  const SearchCounts& counts = answer.search.counts;
  // Plans that were compiled behind the three lines may be faster than short plans promised.
  std::string faster;
  for (size_t i = 1; i < answer.plans.size(); ++i) {
    const double gain = 1 - answer.plans[i].step_seconds / answer.plans[0].step_seconds;
    if (gain < kLeastGain) continue;
    faster = absl::StrCat("plan ", i + 1, " is ", PercentText(gain),
                          " faster than plan 1, and was compiled behind it\n");
  }
  const int64_t looked = counts.groups - counts.listed - counts.unlisted;
  return absl::StrCat(faster, "plans of ", DigitsText(looked), " of ", DigitsText(counts.groups),
                      " plan groups were looked at",
                      answer.search.complete ? "" : "; `oneflow search` goes on for longer", "\n");
}

Json FitJson(const FitFrame& frame, const FitAnswer& answer,
             const std::vector<ClassBytes>& classes) {
  Json json = {{"model", frame.model},
               {"parameters", frame.parameters},
               {"cluster", frame.cluster},
               {"devices", frame.devices},
               {"nodes", frame.nodes},
               {"device_capacity_bytes", frame.capacity + frame.kept},
               {"device_kept_bytes", frame.kept},
               {"batch", frame.batch},
               {"batch_note", frame.batch_note},
               {"sequence", frame.sequence},
               {"sequence_note", frame.sequence_note},
               {"precision", frame.precision},
               {"fits", nullptr}};
  if (!answer.plans.empty() || answer.miss) json["fits"] = !answer.plans.empty();
  if (!answer.plans.empty()) {
    const std::vector<std::string> bits = GroupByBits(answer.plans);
    Json plans = Json::array(), limits = Json::array();
    for (size_t i = 0; i < answer.plans.size(); ++i) {
      plans.push_back(FoundPlanJson(answer.plans[i], bits[i], AllFlags(frame, answer.plans[i])));
    }
    for (const FitChange& limit : answer.limits) limits.push_back(ChangeJson(frame, limit));
    json["plans"] = std::move(plans);
    json["limits"] = std::move(limits);
  }
  if (answer.miss) {
    const FitMiss& miss = *answer.miss;
    Json parts = Json::array(), changes = Json::array();
    for (const ClassBytes& part : classes) {
      parts.push_back({{"what", part.what}, {"bytes", part.bytes}});
    }
    for (const FitChange& change : miss.changes) changes.push_back(ChangeJson(frame, change));
    json["miss"] = {{"bytes_a_device", miss.bytes},
                    {"bytes_too_many", miss.bytes - frame.capacity},
                    {"bounded", miss.bounded},
                    {"classes", std::move(parts)},
                    {"flags", absl::StrCat(frame.given_flags(frame.batch, frame.sequence), " ",
                                           CandidateFlags(miss.candidate))},
                    {"changes", std::move(changes)}};
  }
  json["complete"] = answer.search.complete;
  json["plan_groups"] = answer.search.counts.groups;
  json["seconds"] = answer.search.seconds;
  return json;
}

}  // namespace oneflow

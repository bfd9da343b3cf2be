#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/forms.h"
#include "oneflow_core/recipe/message_form.h"

namespace oneflow {
namespace {

constexpr int64_t kMostRank = 1 << 16;

// Takes one word, "rank:16".
absl::Status TakeWord(std::string_view where, const std::string& word, proto::Lora* lora) {
  constexpr char kHint[] =
      "write rank:N, and if wanted alpha:N, targets:attn+mlp, dropout:RATE and rslora, as in "
      "--lora=rank:16,alpha:32,targets:attn+mlp";
  const size_t colon = word.find(':');
  const std::string name = word.substr(0, colon);
  const std::string value = colon == word.npos ? "" : word.substr(colon + 1);
  const auto refuse = [&](const char* what) {
    return InputError(where, absl::StrCat("has the word ", word, ", which ", what), kHint);
  };
  if (name == "rslora") {
    lora->set_rslora(value != "false");
    return value.empty() || value == "true" || value == "false"
               ? absl::OkStatus()
               : refuse("is neither true nor false");
  }
  if (name == "rank" || name == "r") {
    int64_t rank = 0;
    if (!absl::SimpleAtoi(value, &rank) || rank < 1 || rank > kMostRank) {
      return refuse("is no rank of 1 to 65536");
    }
    lora->set_rank(rank);
    return absl::OkStatus();
  }
  if (name == "alpha") {
    double alpha = 0;
    if (!absl::SimpleAtod(value, &alpha) || !(alpha > 0) || alpha > 1e9) {
      return refuse("is no number above 0");
    }
    lora->set_alpha(alpha);
    return absl::OkStatus();
  }
  if (name == "dropout") {
    double rate = 0;
    if (!absl::SimpleAtod(value, &rate) || !(rate >= 0) || rate > 0.999) {
      return refuse("is no rate of 0 to 0.999");
    }
    lora->set_dropout(rate);
    return absl::OkStatus();
  }
  if (name == "targets" || name == "target") {
    for (const absl::string_view target : absl::StrSplit(value, '+')) {
      if (target.empty()) return refuse("names no target");
      lora->add_target(std::string(target));
    }
    return absl::OkStatus();
  }
  const std::string nearest = Nearest(name, {"rank", "alpha", "targets", "dropout", "rslora"});
  return InputError(where, absl::StrCat("has the word ", word, ", which is not known"),
                    nearest.empty() ? kHint : absl::StrCat("did you mean ", nearest, "? ", kHint));
}

absl::Status ParseLora(std::string_view where, std::string_view text, proto::Lora* lora) {
  std::set<std::string> names;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(ToAbsl(text), ','))) {
    RETURN_IF_ERROR(TakeWord(where, word, lora));
    std::string name = word.substr(0, word.find(':'));
    if (name == "r") name = "rank";
    if (name == "target") name = "targets";
    if (names.insert(name).second) continue;
    return InputError(where, absl::StrCat("says ", name, " twice"),
                      name == "targets" ? "write one, with + between names: targets:attn+mlp"
                                        : "leave one of the two out");
  }
  if (lora->rank() > 0) return absl::OkStatus();
  return InputError(where, "has no rank", "write --lora=rank:16");
}

std::string PrintLora(const proto::Lora& lora) {
  std::string text = absl::StrCat("rank:", lora.rank());
  if (lora.has_alpha()) absl::StrAppend(&text, ",alpha:", ExactText(lora.alpha()));
  if (!lora.target().empty()) {
    absl::StrAppend(&text, ",targets:", absl::StrJoin(lora.target(), "+"));
  }
  if (lora.dropout() > 0) absl::StrAppend(&text, ",dropout:", ExactText(lora.dropout()));
  if (lora.rslora()) absl::StrAppend(&text, ",rslora");
  return text;
}

}  // namespace

const Form kLoraForm = MessageForm<proto::Lora, ParseLora, PrintLora>();

}  // namespace oneflow

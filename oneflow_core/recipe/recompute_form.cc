#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/forms.h"
#include "oneflow_core/recipe/message_form.h"

namespace oneflow {
namespace {

constexpr std::string_view kPolicies[] = {"none", "attention", "selective", "full"};

// "full:3/2/1/0": the counts behind the colon. Digits only: no signs, no blanks.
absl::Status ParseCounts(std::string_view where, std::string_view counts,
                         proto::Recompute::Term* term) {
  for (const absl::string_view part : absl::StrSplit(ToAbsl(counts), '/')) {
    int count = 0;
    const bool digits = std::all_of(part.begin(), part.end(), absl::ascii_isdigit);
    if (!digits || !absl::SimpleAtoi(part, &count)) {
      return InputError(where, absl::StrCat("\"", part, "\" is no number of blocks"),
                        "write 0 or more, as full:2, or one for each slice along the pipe, as "
                        "full:3/2/1/0");
    }
    term->add_counts(count);
  }
  return absl::OkStatus();
}

absl::Status ParseRecomputeTerms(std::string_view where, std::string_view text,
                                 proto::Recompute* recompute) {
  std::set<std::string> seen;
  std::string rest;  // the policy without counts
  for (const absl::string_view part : absl::StrSplit(ToAbsl(text), ',', absl::SkipEmpty())) {
    if (part == "gather") {
      recompute->set_gather(true);
      continue;
    }
    proto::Recompute::Term term;
    const std::string word(part.substr(0, part.find(':')));
    term.set_policy(word);
    if (std::find(std::begin(kPolicies), std::end(kPolicies), word) == std::end(kPolicies)) {
      return InputError(where, absl::StrCat("\"", part, "\" is not known"),
                        "use none, attention, selective or full, and gather beside it");
    }
    if (!seen.insert(word).second) {
      return InputError(where, absl::StrCat(word, " is given twice"), "give each policy once");
    }
    if (word.size() < part.size()) {
      RETURN_IF_ERROR(ParseCounts(where, ToStd(part).substr(word.size() + 1), &term));
    } else if (!rest.empty()) {
      return InputError(where, absl::StrCat(rest, " and ", word, " contradict"),
                        absl::StrCat("choose one of none, attention, selective and full, or write "
                                     "how many blocks of each slice one of them takes: ",
                                     rest, ":2,", word));
    } else {
      rest = word;
    }
    // Blocks that no term takes are none anyway.
    if (term.counts_size() > 0 || word != "none") *recompute->add_term() = std::move(term);
  }
  return absl::OkStatus();
}

std::string PrintRecompute(const proto::Recompute& recompute) {
  std::vector<std::string> parts;
  for (const proto::Recompute::Term& term : recompute.term()) {
    parts.push_back(term.policy());
    if (term.counts_size() > 0) {
      absl::StrAppend(&parts.back(), ":", absl::StrJoin(term.counts(), "/"));
    }
  }
  if (parts.empty()) parts.emplace_back("none");
  if (recompute.gather()) parts.emplace_back("gather");
  return absl::StrJoin(parts, ",");
}

}  // namespace

const Form kRecomputeForm = MessageForm<proto::Recompute, ParseRecomputeTerms, PrintRecompute>();

}  // namespace oneflow

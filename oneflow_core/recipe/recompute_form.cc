#include <algorithm>
#include <iterator>
#include <map>
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

// "full@b": a policy, and the class of the blocks that it is for.
absl::Status ParsePolicy(std::string_view where, std::string_view part,
                         proto::Recompute::Term* term) {
  const std::string_view word = part.substr(0, part.find_first_of("@:"));
  if (std::find(std::begin(kPolicies), std::end(kPolicies), word) == std::end(kPolicies)) {
    return InputError(where, absl::StrCat("\"", ToAbsl(part), "\" is not known"),
                      "use none, attention, selective or full, and gather beside it");
  }
  term->set_policy(std::string(word));
  const std::string_view rest = part.substr(word.size());
  if (!rest.starts_with('@')) return absl::OkStatus();
  const std::string_view name = rest.substr(1, rest.find(':') - 1);
  if (name.empty() || !std::all_of(name.begin(), name.end(), absl::ascii_islower)) {
    return InputError(where, absl::StrCat("\"", ToAbsl(name), "\" is no class of blocks"),
                      "write its letter, as full@b:2; oneflow explain lists the classes");
  }
  term->set_blocks(std::string(name));
  return absl::OkStatus();
}

// "full@b", but for its counts.
std::string PolicyText(const proto::Recompute::Term& term) {
  return absl::StrCat(term.policy(), term.blocks().empty() ? "" : "@", term.blocks());
}

absl::Status ParseRecomputeTerms(std::string_view where, std::string_view text,
                                 proto::Recompute* recompute) {
  std::set<std::string> seen;
  std::map<std::string, std::string> rest;  // by class, the policy without counts
  for (const absl::string_view part : absl::StrSplit(ToAbsl(text), ',', absl::SkipEmpty())) {
    if (part == "gather") {
      recompute->set_gather(true);
      continue;
    }
    proto::Recompute::Term term;
    RETURN_IF_ERROR(ParsePolicy(where, ToStd(part), &term));
    const std::string word = PolicyText(term);
    if (!seen.insert(word).second) {
      return InputError(where, absl::StrCat(word, " is given twice"), "give each policy once");
    }
    if (const size_t colon = part.find(':'); colon != part.npos) {
      RETURN_IF_ERROR(ParseCounts(where, ToStd(part).substr(colon + 1), &term));
    } else if (const auto [other, first] = rest.emplace(term.blocks(), word); !first) {
      return InputError(where, absl::StrCat(other->second, " and ", word, " contradict"),
                        absl::StrCat("choose one of none, attention, selective and full, or write "
                                     "how many blocks of each slice one of them takes: ",
                                     other->second, ":2,", word));
    }
    // Blocks that no term takes are none anyway.
    const bool says_nothing = word == "none" && term.counts().empty();
    if (!says_nothing) *recompute->add_term() = std::move(term);
  }
  return absl::OkStatus();
}

std::string PrintRecompute(const proto::Recompute& recompute) {
  std::vector<std::string> parts;
  for (const proto::Recompute::Term& term : recompute.term()) {
    parts.push_back(PolicyText(term));
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

#include "oneflow_core/model/annotate_recompute.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

// One of the ops that unfused attention consists of, from queries, keys and values to its result.
bool IsOfUnfusedAttention(const Graph& graph, const Op& op) {
  constexpr std::string_view kKinds[] = {"split_heads", "batch_matmul", "causal_softmax",
                                         "swap_dims"};
  const OpDef* def = FindOpDef(op);
  return std::find(std::begin(kKinds), std::end(kKinds), op.kind) != std::end(kKinds) ||
         (def != nullptr && def->random && graph.Producer(op.inputs[0]).kind == "causal_softmax");
}

// True for an op that makes scores, probabilities and weighted values in one kernel, and true of
// what `selective` names where the policy is that.
bool IsRecomputedAlone(const Op& op, bool selective) {
  const OpDef* def = FindOpDef(op);
  return def != nullptr && (def->own_products || (selective && def->selective));
}

// By block, the name of the last op of unfused attention: all of its ops are one scope.
std::map<int, std::string> FindUnfusedAttention(const Graph& graph) {
  std::map<int, std::string> last;
  for (const Op& op : graph.ops) {
    if (op.block >= 0 && IsOfUnfusedAttention(graph, op)) last[op.block] = op.name;
  }
  return last;
}

constexpr std::string_view kPolicies[] = {"none", "attention", "selective", "full"};

// "full:3/2/1/0": the counts behind the colon. Digits only: no signs, no blanks.
absl::Status ParseCounts(std::string_view term, google::protobuf::RepeatedField<int>* counts) {
  const std::string_view list = term.substr(term.find(':') + 1);
  for (const absl::string_view part : absl::StrSplit(ToAbsl(list), '/')) {
    const bool digits = std::all_of(part.begin(), part.end(), absl::ascii_isdigit);
    if (!digits || !absl::SimpleAtoi(part, counts->Add())) {
      return InputError(absl::StrCat("recompute ", ToAbsl(term)),
                        absl::StrCat("\"", part, "\" is no number of blocks"),
                        "write 0 or more, as full:2, or one for each slice along the pipe, as "
                        "full:3/2/1/0");
    }
  }
  return absl::OkStatus();
}

// "pipe=4, chunks 2: 8 slices".
std::string SlicesText(int stages, int chunks) {
  std::string text = absl::StrCat("pipe=", stages);
  if (chunks > 1) absl::StrAppend(&text, ", chunks ", chunks);
  const int slices = stages * chunks;
  return absl::StrCat(text, ": ", slices, slices == 1 ? " slice" : " slices");
}

absl::Status CheckCounts(const proto::Recompute& recompute, int stages, int chunks) {
  for (const proto::Recompute::Term& term : recompute.term()) {
    const int counts = term.counts_size();
    if (counts < 2 || counts == stages * chunks) continue;
    return InputError(
        absl::StrCat("recompute ", term.policy(), ":", absl::StrJoin(term.counts(), "/")),
        absl::StrCat("has ", counts, " numbers; ", SlicesText(stages, chunks)),
        "write one number for each slice along the pipe, or one for all");
  }
  return absl::OkStatus();
}

bool IsOfBlock(const Op& op) { return op.block >= 0 && !HasOwnShape(op.kind); }

// The policy of each block.
std::map<int, std::string> ChoosePolicies(const Graph& graph, const proto::Recompute& recompute) {
  std::map<int, int> slice_of;
  for (const Op& op : graph.ops) {
    if (!IsOfBlock(op)) continue;
    const auto [slice, first] = slice_of.emplace(op.block, op.stage);
    if (!first) slice->second = std::min(slice->second, op.stage);
  }
  std::map<int, std::vector<int>> blocks_of;
  for (const auto& [block, slice] : slice_of) blocks_of[slice].push_back(block);

  std::map<int, std::string> result;
  for (const auto& [slice, blocks] : blocks_of) {
    std::string rest = "none";
    size_t next = 0;
    for (const proto::Recompute::Term& term : recompute.term()) {
      if (term.counts().empty()) {
        rest = term.policy();
        continue;
      }
      // A graph's own stages may lie beyond the pipe; a later pass reports them.
      const int index = term.counts_size() == 1 ? 0 : slice;
      const int count = index < term.counts_size() ? term.counts(index) : 0;
      for (int i = 0; i < count && next < blocks.size(); ++i) {
        result[blocks[next++]] = term.policy();
      }
    }
    while (next < blocks.size()) result[blocks[next++]] = rest;
  }
  return result;
}

}  // namespace

absl::StatusOr<proto::Recompute> ParseRecompute(std::string_view policy) {
  proto::Recompute result;
  std::set<std::string> seen;
  std::string rest;  // the policy without counts
  for (const absl::string_view part : absl::StrSplit(ToAbsl(policy), ',', absl::SkipEmpty())) {
    if (part == "gather") {
      result.set_gather(true);
      continue;
    }
    proto::Recompute::Term term;
    const std::string word(part.substr(0, part.find(':')));
    term.set_policy(word);
    if (std::find(std::begin(kPolicies), std::end(kPolicies), word) == std::end(kPolicies)) {
      return InputError("recompute", absl::StrCat("\"", part, "\" is not known"),
                        "use none, attention, selective or full, and gather beside it");
    }
    if (!seen.insert(word).second) {
      return InputError("recompute", absl::StrCat(word, " is given twice"),
                        "give each policy once");
    }
    if (word.size() < part.size()) {
      RETURN_IF_ERROR(ParseCounts(ToStd(part), term.mutable_counts()));
    } else if (!rest.empty()) {
      return InputError("recompute", absl::StrCat(rest, " and ", word, " contradict"),
                        absl::StrCat("choose one of none, attention, selective and full, or write "
                                     "how many blocks of each slice one of them takes: ",
                                     rest, ":2,", word));
    } else {
      rest = word;
    }
    if (!term.counts().empty() || word != "none") *result.add_term() = std::move(term);
  }
  return result;
}

std::string ToString(const proto::Recompute& recompute) {
  std::vector<std::string> parts;
  for (const proto::Recompute::Term& term : recompute.term()) {
    parts.push_back(term.policy());
    if (term.counts().empty()) continue;
    absl::StrAppend(&parts.back(), ":", absl::StrJoin(term.counts(), "/"));
  }
  if (parts.empty()) parts.emplace_back("none");
  if (recompute.gather()) parts.emplace_back("gather");
  return absl::StrJoin(parts, ",");
}

absl::Status AnnotateRecompute(Graph* graph, const proto::Recompute& recompute, int chunks) {
  RETURN_IF_ERROR(CheckCounts(recompute, graph->mesh.stages(), chunks));
  const bool nothing =
      std::all_of(recompute.term().begin(), recompute.term().end(),
                  [](const proto::Recompute::Term& term) { return term.policy() == "none"; });
  if (nothing) return absl::OkStatus();
  const std::map<int, std::string> policy_of = ChoosePolicies(*graph, recompute);
  if (policy_of.empty()) {
    proto::Recompute terms = recompute;
    terms.set_gather(false);
    return InputError("recompute " + ToString(terms), "\"" + graph->name + "\" has no blocks",
                      "write `recompute: \"name\"` on the graph's ops");
  }
  const std::map<int, std::string> unfused = FindUnfusedAttention(*graph);
  for (Op& op : graph->ops) {
    if (!IsOfBlock(op) || !op.recompute.empty()) continue;  // the user's own stay
    const std::string& chosen = policy_of.at(op.block);
    if (chosen == "none") continue;
    if (chosen == "full") {
      op.recompute = absl::StrCat("h.", op.block);
    } else if (IsOfUnfusedAttention(*graph, op)) {
      op.recompute = unfused.at(op.block);
    } else if (IsRecomputedAlone(op, chosen == "selective")) {
      op.recompute = op.name;
    }
  }
  return absl::OkStatus();
}

}  // namespace oneflow

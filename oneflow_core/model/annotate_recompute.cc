#include "oneflow_core/model/annotate_recompute.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/recipe/forms.h"

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

// "pipe=4, chunks 2: 8 slices".
std::string SlicesText(int stages, int chunks) {
  std::string text = absl::StrCat("pipe=", stages);
  if (chunks > 1) absl::StrAppend(&text, ", chunks ", chunks);
  const int slices = stages * chunks;
  return absl::StrCat(text, ": ", slices, slices == 1 ? " slice" : " slices");
}

proto::Recompute OnlyTerm(const proto::Recompute::Term& term) {
  proto::Recompute recompute;
  *recompute.add_term() = term;
  return recompute;
}

bool IsOfBlock(const Op& op) { return op.block >= 0 && !HasOwnShape(op.kind); }

// A term for a class that the graph does not have would do nothing.
absl::Status CheckClasses(const proto::Recompute& recompute, const Graph& graph,
                          const BlockClasses& classes) {
  for (const proto::Recompute::Term& term : recompute.term()) {
    if (term.blocks().empty()) continue;
    const std::optional<int> index = ParseBlockClassName(term.blocks());
    if (index && *index < classes.size()) continue;
    return InputError(
        "--recompute=" + kRecomputeForm.print(OnlyTerm(term)),
        absl::StrCat("names a class of blocks that \"", graph.name, "\" does not have; its blocks ",
                     classes.size() == 0 ? "do not number from 0 without a gap"
                                         : "are " + classes.PatternText()),
        classes.size() < 2 ? "leave @" + term.blocks() + " out" : "name one of these classes");
  }
  return absl::OkStatus();
}

// The blocks of each slice, in order.
std::map<int, std::vector<int>> FindBlocksOfSlices(const Graph& graph) {
  std::map<int, int> slice_of;
  for (const Op& op : graph.ops) {
    if (!IsOfBlock(op)) continue;
    const auto [slice, first] = slice_of.emplace(op.block, op.stage);
    if (!first) slice->second = std::min(slice->second, op.stage);
  }
  std::map<int, std::vector<int>> blocks_of;
  for (const auto& [block, slice] : slice_of) blocks_of[slice].push_back(block);
  return blocks_of;
}

}  // namespace

absl::Status CheckCounts(const proto::Recompute& recompute, int stages, int chunks) {
  for (const proto::Recompute::Term& term : recompute.term()) {
    const int counts = term.counts_size();
    if (counts < 2 || counts == stages * chunks) continue;
    return InputError("--recompute=" + kRecomputeForm.print(OnlyTerm(term)),
                      absl::StrCat("has ", counts, " numbers; ", SlicesText(stages, chunks)),
                      "write one number for each slice along the pipe, or one for all");
  }
  return absl::OkStatus();
}

std::vector<std::string> ChoosePolicies(const proto::Recompute& recompute, int slice,
                                        const std::vector<int>& classes) {
  std::vector<std::string> result(classes.size());
  // Gives `policy` to the first `count` blocks that have none, of the class or of all.
  const auto take = [&](const proto::Recompute::Term& term, int64_t count) {
    const std::optional<int> index = ParseBlockClassName(term.blocks());
    for (size_t i = 0; i < classes.size() && count > 0; ++i) {
      if (!result[i].empty() || (index && classes[i] != *index)) continue;
      result[i] = term.policy();
      --count;
    }
  };
  for (const bool of_class : {true, false}) {
    for (const bool counted : {true, false}) {
      for (const proto::Recompute::Term& term : recompute.term()) {
        const int counts = term.counts_size();
        if (term.blocks().empty() == of_class || (counts > 0) != counted) continue;
        // A graph's own stages may lie beyond the pipe; a later pass reports them.
        const int index = counts == 1 ? 0 : slice;
        take(term, !counted ? std::ssize(classes) : index < counts ? term.counts(index) : 0);
      }
    }
  }
  std::replace(result.begin(), result.end(), std::string(), std::string("none"));
  return result;
}

absl::Status AnnotateRecompute(Graph* graph, const proto::Recompute& recompute,
                               const BlockClasses& classes, int chunks) {
  RETURN_IF_ERROR(CheckCounts(recompute, graph->mesh.stages(), chunks));
  RETURN_IF_ERROR(CheckClasses(recompute, *graph, classes));
  const bool nothing =
      std::all_of(recompute.term().begin(), recompute.term().end(),
                  [](const proto::Recompute::Term& term) { return term.policy() == "none"; });
  if (nothing) return absl::OkStatus();
  std::map<int, std::string> policy_of;  // of blocks
  for (const auto& [slice, blocks] : FindBlocksOfSlices(*graph)) {
    std::vector<int> classes_of_slice(blocks.size(), 0);
    for (size_t i = 0; i < blocks.size() && classes.size() > 0; ++i) {
      classes_of_slice[i] = classes.class_of[blocks[i]];
    }
    const std::vector<std::string> policies = ChoosePolicies(recompute, slice, classes_of_slice);
    for (size_t i = 0; i < blocks.size(); ++i) policy_of[blocks[i]] = policies[i];
  }
  if (policy_of.empty()) {
    proto::Recompute terms = recompute;
    terms.set_gather(false);
    return InputError("--recompute=" + kRecomputeForm.print(terms),
                      "\"" + graph->name + "\" has no blocks",
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

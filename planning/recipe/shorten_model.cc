#include "planning/recipe/shorten_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/block_classes.h"

namespace oneflow {
namespace {

using BlockOps = std::map<int, std::vector<const proto::Op*>>;
using Names = std::map<std::string, std::string>;  // of ops: what each is called instead

BlockOps OpsByBlock(const proto::Graph& graph) {
  BlockOps blocks;
  for (const proto::Op& op : graph.op()) {
    if (op.has_block()) blocks[op.block()].push_back(&op);
  }
  return blocks;
}

// Renames the op of a tensor "op" or "op:2", if it is among `names`.
void Rename(const Names& names, std::string* tensor) {
  const std::string op = tensor->substr(0, tensor->find(':'));
  const auto found = names.find(op);
  if (found != names.end()) *tensor = found->second + tensor->substr(op.size());
}

absl::Status CheckAlike(const proto::Graph& graph) {
  const BlockClasses classes = FindBlockClasses(graph);
  if (classes.size() < 2) return absl::OkStatus();
  return InputError(absl::StrCat("block ", classes.FirstBlocks()[1]),
                    "is not like block 0: a search measures few blocks and concludes from them to "
                    "all",
                    "compile it with flags of your own");
}

// "h.7.attn" of "h.3.attn": what rules by name say of a block's variables holds for its copy.
std::string RenamedTo(const std::string& name, int from, int to) {
  const std::string number = absl::StrCat(".", from, ".");
  const size_t at = name.find(number);
  if (at == std::string::npos) return absl::StrCat(name, "@", to);
  return absl::StrCat(name.substr(0, at), ".", to, ".", name.substr(at + number.size()));
}

Names NamesBetween(const std::vector<const proto::Op*>& from,
                   const std::vector<const proto::Op*>& to) {
  Names names;
  for (size_t i = 0; i < from.size(); ++i) names[from[i]->name()] = to[i]->name();
  return names;
}

bool IsSource(const proto::Op& op) { return op.kind() == "variable" || op.kind() == "input"; }

// The tensor that a block reads of what is before it, and the tensor of the block that is read
// behind it. An input error where these are more than one each.
absl::StatusOr<std::pair<std::string, std::string>> FindEnds(
    const proto::Graph& graph, const std::vector<const proto::Op*>& block) {
  std::map<std::string, const proto::Op*> ops;
  for (const proto::Op& op : graph.op()) ops[op.name()] = &op;
  const auto find = [&](const std::string& tensor) {
    const auto at = ops.find(tensor.substr(0, tensor.find(':')));
    return at == ops.end() ? nullptr : at->second;
  };
  std::set<std::string> before, behind;
  for (const proto::Op* op : block) {
    for (const std::string& input : op->input()) {
      const proto::Op* from = find(input);
      if (from != nullptr && !from->has_block() && !IsSource(*from)) before.insert(input);
    }
  }
  for (const proto::Op& op : graph.op()) {
    if (op.has_block()) continue;
    for (const std::string& input : op.input()) {
      const proto::Op* from = find(input);
      if (from != nullptr && from->has_block()) behind.insert(input);
    }
  }
  if (before.size() == 1 && behind.size() == 1) return std::pair(*before.begin(), *behind.begin());
  return InputError("the only block",
                    absl::StrCat("reads ", before.size(), " tensors and writes ", behind.size(),
                                 ": a search of stages continues it with a tensor each"),
                    "search a model of two blocks or more");
}

// Copies of the last block until there are `blocks`, each behind the one before it.
absl::Status Lengthen(int blocks, proto::Graph* graph) {
  for (int have = CountBlocks(*graph); have < blocks; ++have) {
    const proto::Graph now = *graph;
    const BlockOps all = OpsByBlock(now);
    const auto& [block, ops] = *all.rbegin();
    // What the block reads of the one before it, its copy reads of the block.
    Names read;
    std::pair<std::string, std::string> ends;  // of an only block: read, and written
    if (all.size() > 1) {
      read = NamesBetween(std::next(all.rbegin())->second, ops);
    } else {
      ASSIGN_OR_RETURN(ends, FindEnds(now, ops));
    }
    Names copied;
    for (const proto::Op* op : ops) copied[op->name()] = RenamedTo(op->name(), block, block + 1);
    for (proto::Op& op : *graph->mutable_op()) {
      if (op.has_block()) continue;
      for (std::string& input : *op.mutable_input()) Rename(copied, &input);
    }
    for (const proto::Op* op : ops) {
      proto::Op* copy = graph->add_op();
      *copy = *op;
      copy->set_name(copied.at(op->name()));
      copy->set_block(block + 1);
      for (std::string& input : *copy->mutable_input()) {
        const std::string before = input;
        Rename(copied, &input);
        if (input == before) Rename(read, &input);
        if (before == ends.first) input = ends.second;
      }
    }
    Rename(copied, graph->mutable_loss());
    for (std::string& output : *graph->mutable_output()) Rename(copied, &output);
  }
  return absl::OkStatus();
}

}  // namespace

int CountBlocks(const proto::Graph& graph) { return static_cast<int>(OpsByBlock(graph).size()); }

absl::StatusOr<proto::Graph> WithBlocks(const proto::Graph& graph, int blocks) {
  const BlockOps all = OpsByBlock(graph);
  RETURN_IF_ERROR(CheckAlike(graph));
  const auto kept = std::next(all.begin(), std::min<int64_t>(blocks, std::ssize(all)) - 1);
  const Names behind = NamesBetween(all.rbegin()->second, kept->second);
  proto::Graph result = graph;
  result.clear_op();
  for (const proto::Op& op : graph.op()) {
    if (op.has_block() && op.block() > kept->first) continue;
    proto::Op* copy = result.add_op();
    *copy = op;
    if (op.has_block()) continue;
    for (std::string& input : *copy->mutable_input()) Rename(behind, &input);
  }
  Rename(behind, result.mutable_loss());
  for (std::string& output : *result.mutable_output()) Rename(behind, &output);
  RETURN_IF_ERROR(Lengthen(blocks, &result));
  return result;
}

}  // namespace oneflow

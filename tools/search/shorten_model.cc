#include "tools/search/shorten_model.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

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

bool IsAlike(const proto::Op& a, const proto::Op& b) {
  return a.kind() == b.kind() && a.input_size() == b.input_size() &&
         a.shape().SerializeAsString() == b.shape().SerializeAsString();
}

absl::Status CheckAlike(const std::vector<const proto::Op*>& a,
                        const std::vector<const proto::Op*>& b) {
  const bool alike =
      a.size() == b.size() &&
      std::equal(a.begin(), a.end(), b.begin(), [](auto* x, auto* y) { return IsAlike(*x, *y); });
  if (alike) return absl::OkStatus();
  return InputError(absl::StrCat("block ", b.front()->block()),
                    absl::StrCat("is not like block ", a.front()->block(),
                                 ": a search measures few blocks and concludes from them to all"),
                    "compile it with flags of your own");
}

// "h.7.attn" of "h.3.attn": what rules by name say of a block's variables holds for its copy.
std::string RenamedTo(const std::string& name, int from, int to) {
  const std::string number = absl::StrCat(".", from, ".");
  const size_t at = name.find(number);
  if (at == std::string::npos) return absl::StrCat(name, "@", to);
  return absl::StrCat(name.substr(0, at), ".", to, ".", name.substr(at + number.size()));
}

// Renames the op of a tensor "op" or "op:2", if it is among `names`.
void Rename(const Names& names, std::string* tensor) {
  const std::string op = tensor->substr(0, tensor->find(':'));
  const auto found = names.find(op);
  if (found != names.end()) *tensor = found->second + tensor->substr(op.size());
}

Names NamesBetween(const std::vector<const proto::Op*>& from,
                   const std::vector<const proto::Op*>& to) {
  Names names;
  for (size_t i = 0; i < from.size(); ++i) names[from[i]->name()] = to[i]->name();
  return names;
}

// Copies of the last block until there are `blocks`, each behind the one before it.
void Lengthen(int blocks, proto::Graph* graph) {
  for (int have = CountBlocks(*graph); have < blocks; ++have) {
    const proto::Graph now = *graph;
    const BlockOps all = OpsByBlock(now);
    const auto& [block, ops] = *all.rbegin();
    // What the block reads of the one before it, its copy reads of the block.
    Names read;
    if (all.size() > 1) read = NamesBetween(std::next(all.rbegin())->second, ops);
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
      }
    }
    Rename(copied, graph->mutable_loss());
    for (std::string& output : *graph->mutable_output()) Rename(copied, &output);
  }
}

}  // namespace

int CountBlocks(const proto::Graph& graph) { return static_cast<int>(OpsByBlock(graph).size()); }

absl::StatusOr<proto::Graph> WithBlocks(const proto::Graph& graph, int blocks) {
  const BlockOps all = OpsByBlock(graph);
  for (const auto& [block, ops] : all) RETURN_IF_ERROR(CheckAlike(all.begin()->second, ops));
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
  Lengthen(blocks, &result);
  return result;
}

}  // namespace oneflow

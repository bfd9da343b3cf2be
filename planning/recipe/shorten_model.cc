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

// "h.7.attn" of "h.3.attn": what rules by name say of a block's variables holds for its copy.
std::string RenamedTo(const std::string& name, int from, int to) {
  if (from == to) return name;
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

// What a block reads of the tensors that are computed before it, and its tensors that are read
// behind it.
struct Ends {
  std::set<std::string> read, written;

  // An input error where these are more than one each. `why`: that matters.
  absl::Status CheckOneEach(const std::string& where, const std::string& why) const {
    if (read.size() == 1 && written.size() == 1) return absl::OkStatus();
    return InputError(
        where,
        absl::StrCat("reads ", read.size(), " tensors and writes ", written.size(), ": ", why),
        "search a model of two blocks or more, which are alike");
  }
};

std::map<int, Ends> FindEnds(const proto::Graph& graph) {
  std::map<std::string, const proto::Op*> ops;
  for (const proto::Op& op : graph.op()) ops[op.name()] = &op;
  std::map<int, Ends> ends;
  for (const proto::Op& op : graph.op()) {
    for (const std::string& input : op.input()) {
      const auto at = ops.find(input.substr(0, input.find(':')));
      if (at == ops.end() || IsSource(*at->second)) continue;
      const proto::Op& from = *at->second;
      if (from.has_block() == op.has_block() && from.block() == op.block()) continue;
      if (op.has_block()) ends[op.block()].read.insert(input);
      if (from.has_block()) ends[from.block()].written.insert(input);
    }
  }
  return ends;
}

// Copies of the last block until there are `blocks`, each behind the one before it.
absl::Status Lengthen(int blocks, proto::Graph* graph) {
  for (int have = CountBlocks(*graph); have < blocks; ++have) {
    const proto::Graph now = *graph;
    const BlockOps all = OpsByBlock(now);
    const auto& [block, ops] = *all.rbegin();
    // What the block reads of the one before it, its copy reads of the block.
    Names read;
    Ends ends;  // of an only block
    if (all.size() > 1) {
      read = NamesBetween(std::next(all.rbegin())->second, ops);
    } else {
      ends = FindEnds(now)[block];
      RETURN_IF_ERROR(ends.CheckOneEach("the only block",
                                        "a search of stages continues it with a tensor each"));
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
        if (ends.read.contains(before)) input = *ends.written.begin();
      }
    }
    Rename(copied, graph->mutable_loss());
    for (std::string& output : *graph->mutable_output()) Rename(copied, &output);
  }
  return absl::OkStatus();
}

}  // namespace

int CountBlocks(const proto::Graph& graph) { return static_cast<int>(OpsByBlock(graph).size()); }

absl::StatusOr<proto::Graph> KeepBlocks(const proto::Graph& graph, const std::vector<int>& kept) {
  const BlockOps all = OpsByBlock(graph);
  std::map<int, int> numbers;
  for (const int block : kept) numbers.emplace(block, static_cast<int>(numbers.size()));
  // What stands for a tensor that a block left out writes, and the names of other blocks' ops.
  Names written, names;
  for (const auto& [block, ends] : FindEnds(graph)) {
    if (numbers.contains(block)) continue;
    RETURN_IF_ERROR(
        ends.CheckOneEach(absl::StrCat("block ", block),
                          "a search leaves out blocks of other classes with a tensor each"));
    const std::string& read = *ends.read.begin();
    const auto before = written.find(read);
    written[*ends.written.begin()] = before == written.end() ? read : before->second;
  }
  for (const auto& [block, number] : numbers) {
    for (const proto::Op* op : all.at(block))
      names[op->name()] = RenamedTo(op->name(), block, number);
  }
  const auto rename = [&](std::string* tensor) {
    const auto stands_in = written.find(*tensor);
    if (stands_in != written.end()) *tensor = stands_in->second;
    Rename(names, tensor);
  };
  proto::Graph result = graph;
  result.clear_op();
  for (const proto::Op& op : graph.op()) {
    if (op.has_block() && !numbers.contains(op.block())) continue;
    proto::Op& copy = *result.add_op();
    copy = op;
    for (std::string& input : *copy.mutable_input()) rename(&input);
    if (!op.has_block()) continue;
    copy.set_name(names.at(op.name()));
    copy.set_block(numbers.at(op.block()));
  }
  rename(result.mutable_loss());
  for (std::string& output : *result.mutable_output()) rename(&output);
  return result;
}

absl::StatusOr<proto::Graph> WithBlocks(const proto::Graph& given, int blocks, int block_class) {
  const BlockClasses classes = FindBlockClasses(given);
  proto::Graph graph = given;
  if (classes.size() > 1) {
    std::vector<int> its;
    for (int b = 0; b < std::ssize(classes.class_of); ++b) {
      if (classes.class_of[b] == block_class) its.push_back(b);
    }
    ASSIGN_OR_RETURN(graph, KeepBlocks(given, its));
  }
  const BlockOps all = OpsByBlock(graph);
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

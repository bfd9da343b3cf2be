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

BlockOps OpsByBlock(const proto::Graph& graph) {
  BlockOps blocks;
  for (const proto::Op& op : graph.op()) {
    if (op.has_block()) blocks[op.block()].push_back(&op);
  }
  return blocks;
}

// "op" of "op" and of "op:2".
std::string ProducerOf(const std::string& tensor) { return tensor.substr(0, tensor.find(':')); }

bool IsAlike(const proto::Op& a, const proto::Op& b) {
  return a.kind() == b.kind() && a.input_size() == b.input_size() &&
         a.shape().SerializeAsString() == b.shape().SerializeAsString();
}

absl::Status CheckAlike(const std::vector<const proto::Op*>& a,
                        const std::vector<const proto::Op*>& b) {
  const bool alike =
      a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](auto* x, auto* y) {
        return IsAlike(*x, *y);
      });
  if (alike) return absl::OkStatus();
  return InputError(absl::StrCat("block ", b.front()->block()),
                    absl::StrCat("is another than block ", a.front()->block(),
                                 ": a search compiles few blocks to tell of all"),
                    "compile it with flags of your own");
}

}  // namespace

int CountBlocks(const proto::Graph& graph) { return static_cast<int>(OpsByBlock(graph).size()); }

absl::StatusOr<proto::Graph> WithBlocks(const proto::Graph& graph, int blocks) {
  const BlockOps all = OpsByBlock(graph);
  const auto& last = *all.rbegin();
  const auto kept = std::next(all.begin(), blocks - 1);
  for (const auto& [block, ops] : all) RETURN_IF_ERROR(CheckAlike(all.begin()->second, ops));
  std::map<std::string, std::string> behind;  // names in the last block -> in the last kept one
  for (size_t i = 0; i < last.second.size(); ++i) {
    behind[last.second[i]->name()] = kept->second[i]->name();
  }
  const auto rename = [&](std::string* tensor) {
    const std::string producer = ProducerOf(*tensor);
    const auto found = behind.find(producer);
    if (found != behind.end()) *tensor = found->second + tensor->substr(producer.size());
  };
  proto::Graph shorter = graph;
  shorter.clear_op();
  for (const proto::Op& op : graph.op()) {
    if (op.has_block() && op.block() > kept->first) continue;
    proto::Op* copy = shorter.add_op();
    *copy = op;
    if (op.has_block()) continue;
    for (std::string& input : *copy->mutable_input()) rename(&input);
  }
  rename(shorter.mutable_loss());
  for (std::string& output : *shorter.mutable_output()) rename(&output);
  return shorter;
}

}  // namespace oneflow

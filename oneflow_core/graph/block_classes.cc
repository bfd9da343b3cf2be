#include "oneflow_core/graph/block_classes.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/graph/graph.h"

namespace oneflow {
namespace {

constexpr int kLetters = 26;
constexpr size_t kLongestClassName = 5;

struct OpFacts {
  int block = -1;
  bool source = false;
  std::string text;                         // all that two ops must have in common, but for inputs
  std::vector<std::pair<int, int>> inputs;  // op (-1: none of the graph), output
};

// What tells a block from one of another class. Of the first block, and of blocks that are compared
// with it, all tensors computed before the block stand for what the block before it gives.
struct BlockKeys {
  std::string strict, as_first;
};

class Classifier {
 public:
  explicit Classifier(std::vector<OpFacts> ops) : ops_(std::move(ops)) {
    index_.resize(ops_.size());
    for (size_t i = 0; i < ops_.size(); ++i) {
      const int block = ops_[i].block;
      if (block < 0) continue;
      if (block >= static_cast<int>(ops_.size())) return;  // there is a gap
      if (block >= static_cast<int>(blocks_.size())) blocks_.resize(block + 1);
      index_[i] = static_cast<int>(blocks_[block].size());
      blocks_[block].push_back(static_cast<int>(i));
    }
    complete_ = std::none_of(blocks_.begin(), blocks_.end(),
                             [](const std::vector<int>& ops) { return ops.empty(); });
  }

  BlockClasses Find() const {
    if (!complete_ || blocks_.empty()) return {};
    std::map<std::string, int> known;
    std::vector<std::string> as_first;  // of the first block of each class but for block 0
    std::vector<int> found(blocks_.size());
    for (size_t b = 1; b < blocks_.size(); ++b) {
      BlockKeys keys = MakeKeys(static_cast<int>(b));
      const auto [at, is_new] = known.emplace(std::move(keys.strict), known.size());
      if (is_new) as_first.push_back(std::move(keys.as_first));
      found[b] = at->second;
    }
    const auto like_first = std::find(as_first.begin(), as_first.end(), MakeKeys(0).as_first);
    found[0] = static_cast<int>(like_first - as_first.begin());
    // In the order of first blocks.
    std::vector<int> renamed(known.size() + 1, -1);
    int next = 0;
    for (int& index : found) {
      if (renamed[index] < 0) renamed[index] = next++;
      index = renamed[index];
    }
    return {std::move(found)};
  }

 private:
  BlockKeys MakeKeys(int block) const {
    BlockKeys keys;
    std::map<std::pair<int, int>, size_t> before, outside;  // tensors, numbered as they are read
    for (const int i : blocks_[block]) {
      absl::StrAppend(&keys.strict, ops_[i].text, "(");
      absl::StrAppend(&keys.as_first, ops_[i].text, "(");
      for (const auto& [op, output] : ops_[i].inputs) {
        const int from = op < 0 ? -1 : ops_[op].block;
        const bool computed = op >= 0 && !ops_[op].source;
        std::string name = absl::StrCat(op, ":", output), as_first = name;
        if (from == block) {
          name = as_first = absl::StrCat("this ", index_[op], ":", output);
        } else {
          const std::pair<int, int> tensor(op, output);
          if (from >= 0 && from == block - 1) {
            name = absl::StrCat("before ", before.emplace(tensor, before.size()).first->second);
          }
          if (computed || (from >= 0 && from == block - 1)) {
            as_first = absl::StrCat("any ", outside.emplace(tensor, outside.size()).first->second);
          }
        }
        absl::StrAppend(&keys.strict, name, ",");
        absl::StrAppend(&keys.as_first, as_first, ",");
      }
      keys.strict += ")\n";
      keys.as_first += ")\n";
    }
    return keys;
  }

  std::vector<OpFacts> ops_;
  std::vector<std::vector<int>> blocks_;  // their ops
  std::vector<int> index_;                // of each op in its block
  bool complete_ = false;
};

bool IsOfBeginning(std::string_view attribute) { return attribute.starts_with("init"); }

// "5*a" or "a".
std::string RepeatedText(size_t count, const std::string& what) {
  return count == 1 ? what : absl::StrCat(count, "*", what);
}

}  // namespace

int BlockClasses::size() const {
  return class_of.empty() ? 0 : *std::max_element(class_of.begin(), class_of.end()) + 1;
}

std::vector<int> BlockClasses::FirstBlocks() const {
  std::vector<int> first(size());
  for (int b = static_cast<int>(class_of.size()) - 1; b >= 0; --b) first[class_of[b]] = b;
  return first;
}

std::vector<int> BlockClasses::CountBlocks() const {
  std::vector<int> counts(size());
  for (const int index : class_of) ++counts[index];
  return counts;
}

std::string BlockClasses::PatternText() const {
  std::vector<std::string> runs;
  for (size_t b = 0; b < class_of.size();) {
    size_t end = b;
    while (end < class_of.size() && class_of[end] == class_of[b]) ++end;
    runs.push_back(RepeatedText(end - b, BlockClassName(class_of[b])));
    b = end;
  }
  std::vector<std::string> parts;
  for (size_t at = 0; at < runs.size();) {
    // The runs from here that repeat and cover most; of these, the shortest period.
    size_t period = 1, covered = 1;
    for (size_t p = 2; at + 2 * p <= runs.size(); ++p) {
      size_t end = at + p;
      while (end < runs.size() && runs[end] == runs[end - p]) ++end;
      const size_t repeated = (end - at) / p * p;
      if (repeated > p && repeated > covered) period = p, covered = repeated;
    }
    const auto first = runs.begin() + static_cast<int64_t>(at);
    const std::string once = absl::StrJoin(first, first + static_cast<int64_t>(period), " ");
    parts.push_back(covered == 1 ? once
                                 : RepeatedText(covered / period, absl::StrCat("(", once, ")")));
    at += covered;
  }
  return absl::StrJoin(parts, " ");
}

BlockClasses FindBlockClasses(const proto::Graph& graph) {
  std::unordered_map<std::string, int> ids;
  for (int i = 0; i < graph.op_size(); ++i) ids.emplace(graph.op(i).name(), i);
  std::vector<OpFacts> ops;
  for (const proto::Op& op : graph.op()) {
    OpFacts& facts = ops.emplace_back();
    facts.block = op.has_block() ? op.block() : -1;
    facts.source = HasOwnShape(op.kind());
    absl::StrAppend(&facts.text, op.kind(), " ", op.dtype(), " ", op.recompute().empty(), " ",
                    op.shape().SerializeAsString());
    std::map<std::string, std::string> attributes;  // in the order of their names
    for (const auto& [name, value] : op.attr()) {
      if (!IsOfBeginning(name)) attributes[name] = value.SerializeAsString();
    }
    for (const auto& [name, value] : attributes) {
      absl::StrAppend(&facts.text, " ", name, "=", value);
    }
    for (const std::string& input : op.input()) {
      const size_t colon = input.find(':');
      const auto from = ids.find(input.substr(0, colon));
      int output = 0;
      if (colon != input.npos) output = std::atoi(input.c_str() + colon + 1);
      facts.inputs.emplace_back(from == ids.end() ? -1 : from->second, output);
    }
  }
  return Classifier(std::move(ops)).Find();
}

std::string BlockClassName(int index) {
  std::string name;
  for (int rest = index + 1; rest > 0; rest = (rest - 1) / kLetters) {
    name.insert(name.begin(), static_cast<char>('a' + (rest - 1) % kLetters));
  }
  return name;
}

std::optional<int> ParseBlockClassName(std::string_view name) {
  if (name.empty() || name.size() > kLongestClassName) return std::nullopt;
  int index = 0;
  for (const char c : name) {
    if (c < 'a' || c > 'z') return std::nullopt;
    index = index * kLetters + (c - 'a' + 1);
  }
  return index - 1;
}

}  // namespace oneflow

#include "oneflow_core/model/block_lists.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/model/block_numbers.h"
#include "oneflow_core/model/decoder.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

using google::protobuf::util::MessageDifferencer;

constexpr int64_t kMostBlocks = 10000;  // as many layers as a model may have

// Numbers that act on nothing in blocks without experts.
constexpr std::string_view kOfMixtures[] = {
    "experts_per_token", "shared_inner", "norm_topk_prob", "scores",
    "bias_rate",         "router_bias",  "expert_bias",    "routed_scale"};

int64_t CountListed(const proto::Model& model) { return std::min(model.layers(), kMostBlocks); }

// A word for blocks with these numbers, among those of all classes.
std::string_view NameClass(const proto::Model& numbers, const std::vector<proto::Model>& classes) {
  const auto dense = [](const proto::Model& m) { return m.experts() == 0; };
  const auto local = [](const proto::Model& m) { return m.window() > 0; };
  const auto plain = [](const proto::Model& m) { return m.rotary_share() == 0; };
  const auto differ = [&](bool (*is)(const proto::Model&)) {
    const auto count = std::count_if(classes.begin(), classes.end(), is);
    return count > 0 && count < static_cast<int64_t>(classes.size());
  };
  if (differ(dense)) return dense(numbers) ? "dense" : "mixture";
  if (differ(local)) return local(numbers) ? "local" : "full";
  if (differ(plain)) return plain(numbers) ? "plain" : "rotary";
  return "block";
}

// Appends a run for each stretch of equal classes.
void AddRuns(const std::vector<int>& list, size_t size, proto::BlockPattern* pattern) {
  for (size_t i = 0; i < size; ++i) {
    if (i == 0 || list[i] != list[i - 1]) pattern->add_run()->set_index(list[i]);
    proto::BlockPattern::Run& run = *pattern->mutable_run()->rbegin();
    run.set_count(run.count() + 1);
  }
}

void AddPattern(const std::vector<int>& list, proto::BlockPattern* pattern) {
  const auto repeats = [&](size_t period) {
    for (size_t i = period; i < list.size(); ++i) {
      if (list[i] != list[i - period]) return false;
    }
    return true;
  };
  size_t period = 1;
  while (!repeats(period)) ++period;
  AddRuns(list, period, pattern);
  proto::BlockPattern::Run& last = *pattern->mutable_run()->rbegin();
  if (period == list.size() && last.count() > 1) last.set_count(0);
}

// Numbers that say the same have the same values.
proto::Model Normalize(proto::Model numbers) {
  numbers.clear_family();
  numbers.clear_preset();
  const double usual = 1 / std::sqrt(static_cast<double>(numbers.head_dim()));
  if (numbers.has_attention_scale() && numbers.attention_scale() == usual) {
    numbers.set_attention_scale(0);
  }
  if (numbers.bias_rate() > 0) numbers.set_bias_rate(1);  // no file says at which rate
  if (!numbers.qk_norm()) numbers.clear_norm_all_heads();
  if (numbers.experts() == 0) {
    for (const std::string_view name : kOfMixtures) {
      ClearField(*FindRow(ModelRows(), name), &numbers);
    }
  }
  if (numbers.rotary_share() > 0 && numbers.head_dim() > 0) {
    numbers.set_rotary_share(RotaryShare(RotatedElements(numbers), numbers.head_dim()));
  }
  if (numbers.has_rotary_share() && numbers.rotary_share() == 0) {
    numbers.clear_theta();
    numbers.clear_rope_scaling();
  }
  return numbers;
}

}  // namespace

std::vector<proto::Model> ListOwnNumbers(const proto::Model& model) {
  return std::vector<proto::Model>(CountListed(model));
}

void SetBlocks(const std::vector<proto::Model>& own, proto::Model* model) {
  model->mutable_blocks()->Clear();
  std::vector<proto::Model> classes;
  std::vector<int> list;
  for (const proto::Model& numbers : own) {
    const auto found = std::find_if(classes.begin(), classes.end(), [&](const proto::Model& known) {
      return MessageDifferencer::Equals(known, numbers);
    });
    list.push_back(static_cast<int>(found - classes.begin()));
    if (found == classes.end()) classes.push_back(numbers);
  }
  if (classes.size() == 1) {
    CopyFields(ModelRows(), classes[0], model);
    return;
  }
  std::set<std::string> names;
  std::vector<proto::Model> complete;
  for (const proto::Model& numbers : classes) {
    CopyFields(ModelRows(), numbers, &complete.emplace_back(*model));
  }
  for (size_t i = 0; i < classes.size(); ++i) {
    const std::string word(NameClass(complete[i], complete));
    std::string name = word;
    for (int more = 2; !names.insert(name).second; ++more) name = absl::StrCat(word, more);
    proto::BlockPattern::Class& added = *model->mutable_blocks()->add_classes();
    added.set_name(name);
    *added.mutable_numbers() = classes[i];
  }
  if (!list.empty()) AddPattern(list, model->mutable_blocks());
}

std::vector<proto::Model> ListBlocks(const proto::Model& model) {
  std::vector<proto::Model> blocks;
  for (int64_t i = 0; i < CountListed(model); ++i) blocks.push_back(BlockNumbers(model, i));
  return blocks;
}

proto::Model FindBlock(const proto::Model& model, bool has_window) {
  for (const int64_t block : FirstBlocks(model)) {
    proto::Model numbers = BlockNumbers(model, block);
    if ((numbers.window() > 0) == has_window) return numbers;
  }
  return model;
}

proto::Model ListChanges(const proto::Model& base, const proto::Model& numbers) {
  proto::Model changes;
  for (const Row& row : ModelRows()) {
    if (row.name == "blocks" || !HasField(row, numbers)) continue;
    if (HasField(row, base) && FieldText(row, base) == FieldText(row, numbers)) continue;
    CopyField(row, numbers, &changes);
  }
  return changes;
}

std::vector<std::string> ListDifferences(const proto::Model& a, const proto::Model& b) {
  if (a.layers() != b.layers()) return {absl::StrCat("layers=", a.layers())};
  std::set<std::string> found;
  std::vector<std::string> differences;
  for (int64_t i = 0; i < CountListed(a); ++i) {
    const bool alike = a.blocks().run().empty() && b.blocks().run().empty();
    if (alike && i > 0) break;
    const proto::Model block = BlockNumbers(a, i);
    const proto::Model ours = Normalize(block), theirs = Normalize(BlockNumbers(b, i));
    for (const Row& row : ModelRows()) {
      const bool has = HasField(row, ours);
      if (has == HasField(row, theirs) &&
          (!has || FieldText(row, ours) == FieldText(row, theirs))) {
        continue;
      }
      const std::string text =
          absl::StrCat(ToAbsl(row.name), "=", has ? FieldText(row, block) : "none");
      if (found.insert(text).second) differences.push_back(text);
    }
  }
  return differences;
}

}  // namespace oneflow

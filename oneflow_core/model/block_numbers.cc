#include "oneflow_core/model/block_numbers.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/forms.h"

namespace oneflow {

absl::Status CheckPattern(const proto::Model& model) {
  const std::string where = "--blocks=" + kBlocksForm.print(model.blocks());
  std::set<int> found;
  for (const int64_t block : FirstBlocks(model)) found.insert(FindBlockClass(model, block));
  std::set<std::string> names;
  for (int i = 0; i < model.blocks().classes_size(); ++i) {
    const std::string& name = model.blocks().classes(i).name();
    if (!names.insert(name).second) {
      return InputError(where, "has two classes " + name, "give each a name of its own");
    }
    if (std::ranges::none_of(model.blocks().run(),
                             [&](const auto& run) { return run.index() == i; })) {
      return InputError(where, "has a class " + name + " that no run names",
                        "add a run of it, or leave it out");
    }
    if (found.contains(i)) continue;
    return InputError(where, absl::StrCat("leaves no block of ", model.layers(), " for ", name),
                      "use more layers, or a pattern without it");
  }
  return absl::OkStatus();
}

int FindBlockClass(const proto::Model& model, int64_t block) {
  const proto::BlockPattern& pattern = model.blocks();
  if (pattern.run().empty()) return 0;
  int64_t period = 0;
  for (const proto::BlockPattern::Run& run : pattern.run()) period += run.count();
  const proto::BlockPattern::Run& last = *pattern.run().rbegin();
  if (last.count() == 0 && block >= period) return last.index();
  int64_t left = block % period;
  for (const proto::BlockPattern::Run& run : pattern.run()) {
    if (left < run.count()) return run.index();
    left -= run.count();
  }
  return last.index();
}

std::vector<int64_t> FirstBlocks(const proto::Model& model) {
  std::vector<int64_t> first;
  std::set<int> found;
  for (int64_t block = 0; block < model.layers(); ++block) {
    if (found.insert(FindBlockClass(model, block)).second) first.push_back(block);
  }
  return first;
}

proto::Model BlockNumbers(const proto::Model& model, int64_t block) {
  proto::Model result = model;
  result.clear_blocks();
  if (model.blocks().classes().empty()) return result;
  const int index = FindBlockClass(model, block);
  CopyFields(ModelRows(), model.blocks().classes(index).numbers(), &result);
  return result;
}

}  // namespace oneflow

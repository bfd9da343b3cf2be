// The text of a pattern of blocks: "5*local(window=1024 theta=10000),full".
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/forms.h"
#include "oneflow_core/recipe/message_form.h"

namespace oneflow {
namespace {

constexpr std::string_view kAlike = "none";
constexpr char kBlocksHint[] =
    "write runs of classes with commas between, a class with its own numbers where it comes first, "
    "as in --blocks='5*local(window=1024 theta=10000),full' or "
    "--blocks='3*dense(experts=0 inner=10944),*mixture'";
constexpr int64_t kMostRepeats = 10000;

// Numbers that all blocks share, or that are of no block.
constexpr std::string_view kOfModel[] = {"graph",           "family",      "preset",
                                         "layers",          "hidden",      "sequence",
                                         "vocab",           "tied",        "blocks",
                                         "logit_cap",       "lora",        "train_only",
                                         "embedding_scale", "next_tokens", "next_tokens_coeff",
                                         "capacity",        "slots",       "slot_groups",
                                         "routed_positions"};

absl::Status ParseClassNumbers(std::string_view where, const std::string& text,
                               proto::Model* numbers) {
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const size_t equal = word.find('=');
    if (equal != word.rfind('=')) {
      return InputError(where, absl::StrCat("has \"", word, "\", which is more than one number"),
                        "write blanks between the numbers of a class");
    }
    const std::string name(word.substr(0, equal));
    const Row* const row = FindRow(ModelRows(), name);
    if (row == nullptr || equal == word.npos) {
      std::vector<std::string> names;
      for (const Row& known : ModelRows()) names.emplace_back(known.name);
      const std::string nearest = Nearest(name, names);
      return InputError(
          where, absl::StrCat("has \"", word, "\", which is no number of a class"),
          nearest.empty() || equal == word.npos ? kBlocksHint : "did you mean " + nearest + "?");
    }
    if (std::find(std::begin(kOfModel), std::end(kOfModel), name) != std::end(kOfModel)) {
      return InputError(
          where, absl::StrCat("gives a class its own ", name, ", which is the same in all blocks"),
          absl::StrCat("write --", name, " beside it"));
    }
    if (HasField(*row, *numbers)) {
      return InputError(where, absl::StrCat("gives a class its ", name, " twice"), "give it once");
    }
    RETURN_IF_ERROR(
        SetField(*row, ToStd(word.substr(equal + 1)), numbers, absl::StrCat(ToAbsl(where), ": ")));
  }
  return absl::OkStatus();
}

// "5*local(window=1024)": a run, and perhaps its class.
absl::Status ParseBlockRun(std::string_view where, const std::string& text, bool last,
                           proto::BlockPattern* pattern) {
  const size_t open = text.find('(');
  std::string name = text.substr(0, open);
  int64_t count = 1;
  if (const size_t star = name.find('*'); star != name.npos) {
    count = 0;
    if (star > 0 &&
        (!absl::SimpleAtoi(name.substr(0, star), &count) || count < 1 || count > kMostRepeats)) {
      return InputError(
          where,
          absl::StrCat("has \"", text, "\", whose count is no number from 1 to ", kMostRepeats),
          kBlocksHint);
    }
    name = name.substr(star + 1);
  }
  if (count == 0 && !last) {
    return InputError(where, absl::StrCat("has *", name, ", all blocks that remain, before others"),
                      "write it last");
  }
  const bool letters = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '_';
  });
  if (!letters || (open != text.npos && text.back() != ')')) {
    return InputError(where, absl::StrCat("has \"", text, "\", which is no run of a class"),
                      kBlocksHint);
  }
  int index = 0;
  while (index < pattern->classes_size() && pattern->classes(index).name() != name) ++index;
  const bool is_new = index == pattern->classes_size();
  if (is_new) pattern->add_classes()->set_name(name);
  if (open != text.npos) {
    if (!is_new) {
      return InputError(where, absl::StrCat("gives the numbers of ", name, " twice"),
                        "give them where the class comes first");
    }
    RETURN_IF_ERROR(ParseClassNumbers(where, text.substr(open + 1, text.size() - open - 2),
                                      pattern->mutable_classes(index)->mutable_numbers()));
  }
  proto::BlockPattern::Run& run = *pattern->add_run();
  run.set_count(count), run.set_index(index);
  return absl::OkStatus();
}

// Splits at commas outside of parentheses.
std::vector<std::string> SplitRuns(std::string_view text) {
  std::vector<std::string> runs(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      runs.emplace_back();
    } else {
      runs.back() += c;
    }
  }
  return runs;
}

absl::Status ParseBlocks(std::string_view where, std::string_view text,
                         proto::BlockPattern* pattern) {
  if (text == kAlike) return absl::OkStatus();
  const std::vector<std::string> runs = SplitRuns(text);
  for (const std::string& run : runs) {
    RETURN_IF_ERROR(ParseBlockRun(where, run, &run == &runs.back(), pattern));
  }
  return absl::OkStatus();
}

std::string PrintBlocks(const proto::BlockPattern& pattern) {
  if (pattern.run().empty()) return std::string(kAlike);
  std::vector<bool> written(pattern.classes_size(), false);
  std::vector<std::string> runs;
  for (const proto::BlockPattern::Run& run : pattern.run()) {
    std::string& text = runs.emplace_back();
    if (run.count() == 0) text = "*";
    if (run.count() > 1 || run.count() < 0) text = absl::StrCat(run.count(), "*");
    if (run.index() < 0 || run.index() >= pattern.classes_size()) {
      text += "?";  // which a file may say, and no text that is parsed
      continue;
    }
    const proto::BlockPattern::Class& of = pattern.classes(run.index());
    text += of.name();
    if (written[run.index()]) continue;
    written[run.index()] = true;
    std::vector<std::string> numbers;
    for (const Row& row : ModelRows()) {
      if (!HasField(row, of.numbers())) continue;
      numbers.push_back(absl::StrCat(ToAbsl(row.name), "=", FieldText(row, of.numbers())));
    }
    if (!numbers.empty()) absl::StrAppend(&text, "(", absl::StrJoin(numbers, " "), ")");
  }
  return absl::StrJoin(runs, ",");
}

}  // namespace

const Form kBlocksForm = MessageForm<proto::BlockPattern, ParseBlocks, PrintBlocks>();

}  // namespace oneflow

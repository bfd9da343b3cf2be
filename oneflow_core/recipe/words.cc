#include "oneflow_core/recipe/words.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"

namespace oneflow {
namespace {

// In `value` of a row: a word of a list may have a class behind an @, and numbers behind a colon,
// which are not read here.
constexpr std::string_view kCounts = "[@CLASS][:COUNTS]";

// "zb" of "zero_bubble", "i" of nothing: the first letters of two words or more.
std::string Initials(std::string_view words) {
  std::string initials;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i == 0 || words[i - 1] == '_') initials += words[i];
  }
  return initials.size() > 1 ? initials : "";
}

// In rising order: bf61 is a mistyped bf16.
std::string Digits(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (absl::ascii_isdigit(c)) digits += c;
  }
  std::sort(digits.begin(), digits.end());
  return digits;
}

// Names of values in other programs.
constexpr std::pair<std::string_view, std::string_view> kForeignValues[] = {
    {"gpu", "cuda"},      {"fp32", "f32"},     {"float32", "f32"},
    {"bfloat16", "bf16"}, {"flash", "fused"},  {"virtual", "interleaved"},
    {"block", "full"},    {"uniform", "full"}, {"k8s", "kubernetes"},
    {"llm.c", "llmc"},
};

// The choice that a value stands for: in other letters, with more or fewer of them, or as initials.
std::string NearestChoice(const std::string& value, const std::vector<std::string>& choices) {
  std::string plain = absl::AsciiStrToLower(value);
  std::replace(plain.begin(), plain.end(), '-', '_');
  for (const auto& [foreign, choice] : kForeignValues) {
    const bool known = std::find(choices.begin(), choices.end(), choice) != choices.end();
    if (plain == foreign && known) return std::string(choice);
  }
  for (const std::string& choice : choices) {
    const std::string initials = Initials(choice);
    const bool short_form = plain.size() >= 3 && choice.starts_with(plain);
    if (choice == plain || short_form || (!initials.empty() && plain.starts_with(initials))) {
      return choice;
    }
  }
  for (const std::string& choice : choices) {
    if (choice.size() >= 3 && plain.starts_with(choice)) return choice;
  }
  // A number is not mistyped for another: fp8 is no f32.
  std::vector<std::string> alike;
  for (const std::string& choice : choices) {
    if (Digits(choice) == Digits(plain)) alike.push_back(choice);
  }
  return Nearest(plain, alike);
}

}  // namespace

std::vector<std::string> ListChoices(std::string_view value) {
  const bool words =
      value.find('|') != std::string_view::npos && !absl::ascii_isupper(value.front());
  if (!words) return {};
  std::string list(value);
  const size_t counts = list.find(kCounts);
  if (counts != std::string::npos) list.erase(counts, kCounts.size());
  const size_t more = list.find("[,");
  if (more != std::string::npos) list = list.substr(0, more) + "|" + list.substr(more + 2);
  if (list.ends_with(']')) list.pop_back();
  return absl::StrSplit(list, '|');
}

std::string OrList(const std::vector<std::string>& words) {
  if (words.size() < 2) return absl::StrJoin(words, "");
  const std::vector<std::string> all_but_last(words.begin(), words.end() - 1);
  return absl::StrCat(absl::StrJoin(all_but_last, ", "), " or ", words.back());
}

absl::Status CheckWords(std::string_view where, std::string_view value, std::string_view text) {
  const std::vector<std::string> choices = ListChoices(value);
  if (choices.empty()) return absl::OkStatus();
  const bool list = value.find('[') != std::string_view::npos;
  const std::vector<std::string> words =
      list ? std::vector<std::string>(absl::StrSplit(ToAbsl(text), ','))
           : std::vector<std::string>{std::string(text)};
  const bool counted = value.find(kCounts) != std::string_view::npos;
  for (const std::string& word : words) {
    const std::string choice = counted ? word.substr(0, word.find_first_of("@:")) : word;
    if (std::find(choices.begin(), choices.end(), choice) != choices.end()) continue;
    const std::string nearest = choice.empty() ? "" : NearestChoice(choice, choices);
    return InputError(where, list ? absl::StrCat("\"", word, "\" is not known") : "is not known",
                      absl::StrCat(nearest.empty() ? "" : "did you mean " + nearest + "? ", "use ",
                                   OrList(choices)));
  }
  return absl::OkStatus();
}

}  // namespace oneflow

#include "tools/foreign/emit/text.h"

#include <cctype>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow::foreign {

std::string FloatText(double number) {
  std::string text = ExactText(number);
  if (text.find('.') != std::string::npos) return text;
  // YAML 1.1 reads 1e-05 as a word.
  const size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text + ".0";
  return text.insert(exponent, ".0");
}

std::string ShellQuoted(const std::string& word) {
  constexpr std::string_view kPlain = "-_./:=,+@%";
  bool plain = !word.empty();
  for (const char c : word) {
    plain &= std::isalnum(static_cast<unsigned char>(c)) != 0 ||
             kPlain.find(c) != std::string_view::npos;
  }
  if (plain) return word;
  // A variable is expanded.
  if (word.starts_with("${")) return "\"" + word + "\"";
  return "'" + word + "'";
}

std::string ShellArray(const std::string& name, const std::vector<std::string>& words) {
  std::string text = name + "=(";
  for (const std::string& word : words) {
    const bool flag = word.starts_with("--");
    absl::StrAppend(&text, flag ? "\n  " : " ", ShellQuoted(word));
  }
  return text + "\n)\n";
}

std::string DescribeJob(const Job& job, const AxisDegrees& degrees) {
  std::vector<std::string> axes;
  const std::pair<const char*, int64_t> sizes[] = {{"pipe", degrees.pipe},
                                                   {"data", degrees.data},
                                                   {"context", degrees.context},
                                                   {"tensor", degrees.tensor}};
  for (const auto& [name, size] : sizes) {
    if (size > 1) axes.push_back(absl::StrCat(name, " ", size));
  }
  if (axes.empty()) axes.emplace_back("one device");
  return absl::StrCat(job.name, " on ", degrees.devices(), " GPUs: ", absl::StrJoin(axes, " x "),
                      degrees.expert > 1 ? absl::StrCat(", experts over ", degrees.expert) : "",
                      ", batch ", job.recipe.batch(), " in ", job.recipe.micro_batches(),
                      " micro-batches");
}

std::string QuotedList(const std::vector<std::string>& words) {
  return words.empty() ? "[]" : absl::StrCat("[\"", absl::StrJoin(words, "\", \""), "\"]");
}

}  // namespace oneflow::foreign

#include "oneflow_core/print/fold.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// A text in pieces: letters and numbers in turn, letters first.
std::vector<std::string> SplitPieces(std::string_view text) {
  std::vector<std::string> pieces(1);
  char before = '\0';
  bool number = false;
  for (const char c : text) {
    const bool digit = absl::ascii_isdigit(static_cast<unsigned char>(c));
    const bool begins = digit && !number && (before == '.' || before == '@' || before == ' ');
    if (begins || (number && !digit)) pieces.emplace_back();
    number = begins || (number && digit);
    pieces.back() += c;
    before = c;
  }
  return pieces;
}

}  // namespace

std::string WithoutNumbers(std::string_view text) {
  const std::vector<std::string> pieces = SplitPieces(text);
  std::string plain;
  for (size_t i = 0; i < pieces.size(); ++i) plain += i % 2 == 0 ? pieces[i] : "*";
  return plain;
}

std::string Folded(const std::vector<std::string>& alike) {
  std::vector<std::string> pieces = SplitPieces(alike[0]);
  for (const std::string& other : alike) {
    const std::vector<std::string> those = SplitPieces(other);
    for (size_t i = 1; i < std::min(pieces.size(), those.size()); i += 2) {
      if (pieces[i] != those[i]) pieces[i] = "*";
    }
  }
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

std::vector<std::string> FoldedLines(const std::vector<NumberedText>& texts) {
  std::map<std::string, size_t> known;
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;  // by the rest
  for (const auto& [name, rest] : texts) {
    const auto [at, is_new] = known.emplace(WithoutNumbers(name) + "\n" + rest, groups.size());
    if (is_new) groups.push_back({rest, {}});
    groups[at->second].second.push_back(name);
  }
  std::vector<std::string> lines;
  for (const auto& [rest, names] : groups) {
    const std::string times = names.size() > 1 ? absl::StrCat("; ", names.size(), " times") : "";
    lines.push_back(Folded(names) + rest + times);
  }
  return lines;
}

}  // namespace oneflow

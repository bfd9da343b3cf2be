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

std::vector<std::string> FoldedLines(const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<std::string>> alike;
  std::vector<std::string> keys;
  for (const std::string& text : texts) {
    std::string key = WithoutNumbers(text);
    std::vector<std::string>& those = alike[key];
    those.push_back(text);
    if (those.size() == 1) keys.push_back(std::move(key));
  }
  std::vector<std::string> lines;
  for (const std::string& key : keys) {
    const std::vector<std::string>& those = alike[key];
    const std::string times = those.size() > 1 ? absl::StrCat("; ", those.size(), " times") : "";
    lines.push_back(Folded(those) + times);
  }
  return lines;
}

}  // namespace oneflow

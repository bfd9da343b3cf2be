// Folds texts that differ only in the numbers of layers, replicas and stages.
//
//   WithoutNumbers("h.3.attn of stage 0")                    // "h.*.attn of stage *"
//   Folded({"h.3.attn of stage 0", "h.4.attn of stage 0"})   // "h.*.attn of stage 0"
//   FoldedLines({{"h.0.fc"}, {"h.1.fc"}, {"ln_f"}})          // "h.*.fc; 2 times", "ln_f"
//
// A number is a run of digits after '.', '@' or a blank.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace oneflow {

// Returns the text with every number replaced by "*". Texts that are equal without numbers can be
// folded.
std::string WithoutNumbers(std::string_view text);

// Returns one text for several that are equal without numbers: "*" where their numbers differ, so a
// single text has none. Requires one text at least.
std::string Folded(const std::vector<std::string>& alike);

// A text that begins with a name, in which alone numbers may differ.
struct NumberedText {
  NumberedText(std::string name, std::string rest = "")  // NOLINT: a name is one
      : name(std::move(name)), rest(std::move(rest)) {}

  std::string name, rest;
};

// Returns the texts; equal ones share a line at the position of the first, with their count.
std::vector<std::string> FoldedLines(const std::vector<NumberedText>& texts);

}  // namespace oneflow

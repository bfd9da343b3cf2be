#include "tools/foreign/read/shell_condition.h"

#include "absl/strings/numbers.h"

namespace oneflow::foreign {

Truth Not(Truth truth) {
  if (truth == Truth::kTrue) return Truth::kFalse;
  return truth == Truth::kFalse ? Truth::kTrue : truth;
}

Truth And(Truth a, Truth b) {
  if (a == Truth::kFalse || b == Truth::kFalse) return Truth::kFalse;
  return a == Truth::kTrue && b == Truth::kTrue ? Truth::kTrue : Truth::kUnknown;
}

Truth Or(Truth a, Truth b) { return Not(And(Not(a), Not(b))); }

bool MatchesPattern(std::string_view text, std::string_view pattern) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    for (size_t skip = 0; skip <= text.size(); ++skip) {
      if (MatchesPattern(text.substr(skip), pattern.substr(1))) return true;
    }
    return false;
  }
  if (text.empty() || (pattern[0] != '?' && pattern[0] != text[0])) return false;
  return MatchesPattern(text.substr(1), pattern.substr(1));
}

namespace {

Truth EvaluateOne(const std::vector<std::string>& words) {
  const auto known = [](const std::string& word) { return word.find('$') == std::string::npos; };
  const auto say = [](bool truth) { return truth ? Truth::kTrue : Truth::kFalse; };
  if (words.size() == 1) return known(words[0]) ? say(!words[0].empty()) : Truth::kUnknown;
  if (words.size() == 2 && (words[0] == "-z" || words[0] == "-n")) {
    if (!known(words[1])) return Truth::kUnknown;
    return say(words[1].empty() == (words[0] == "-z"));
  }
  if (words.size() != 3 || !known(words[0]) || !known(words[2])) return Truth::kUnknown;
  const std::string& op = words[1];
  if (op == "=" || op == "==") return say(MatchesPattern(words[0], words[2]));
  if (op == "!=") return say(!MatchesPattern(words[0], words[2]));
  long long a = 0, b = 0;
  if (!absl::SimpleAtoi(words[0], &a) || !absl::SimpleAtoi(words[2], &b)) return Truth::kUnknown;
  if (op == "-eq") return say(a == b);
  if (op == "-ne") return say(a != b);
  if (op == "-gt" || op == ">") return say(a > b);
  if (op == "-ge") return say(a >= b);
  if (op == "-lt" || op == "<") return say(a < b);
  if (op == "-le") return say(a <= b);
  return Truth::kUnknown;
}

}  // namespace

Truth EvaluateTest(const std::vector<std::string>& words) {
  Truth all = Truth::kFalse, part = Truth::kTrue;
  std::vector<std::string> one;
  bool negated = false;
  const auto end_one = [&] {
    const Truth truth = one.empty() ? Truth::kUnknown : EvaluateOne(one);
    part = And(part, negated ? Not(truth) : truth);
    one.clear();
    negated = false;
  };
  for (const std::string& word : words) {
    if (word == "(" || word == ")") return Truth::kUnknown;
    if (word == "&&" || word == "-a") {
      end_one();
    } else if (word == "||" || word == "-o") {
      end_one();
      all = Or(all, part);
      part = Truth::kTrue;
    } else if (word == "!" && one.empty()) {
      negated = !negated;
    } else {
      one.push_back(word);
    }
  }
  end_one();
  return Or(all, part);
}

}  // namespace oneflow::foreign

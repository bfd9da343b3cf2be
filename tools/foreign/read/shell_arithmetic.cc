#include "tools/foreign/read/shell_arithmetic.h"

#include <cstdlib>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace oneflow::foreign {
namespace {

// By recursive descent.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const ShellVariables& variables, int depth)
      : text_(text), variables_(variables), depth_(depth) {}

  std::optional<long long> Evaluate() {
    const std::optional<long long> value = Sum();
    Skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void Skip() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  }
  bool Take(char c) {
    Skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::optional<long long> Sum() {
    std::optional<long long> left = Product();
    while (left) {
      const bool plus = Take('+'), minus = !plus && Take('-');
      if (!plus && !minus) break;
      const std::optional<long long> right = Product();
      long long sum = 0;
      const bool overflows = !right || (plus ? __builtin_add_overflow(*left, *right, &sum)
                                             : __builtin_sub_overflow(*left, *right, &sum));
      if (overflows) return std::nullopt;
      left = sum;
    }
    return left;
  }
  std::optional<long long> Product() {
    std::optional<long long> left = Unary();
    while (left) {
      const char op = Take('*') ? '*' : Take('/') ? '/' : Take('%') ? '%' : '\0';
      if (op == '\0') break;
      const std::optional<long long> right = Unary();
      long long value = 0;
      if (!right || (op != '*' && (*right == 0 || *right == -1))) return std::nullopt;
      if (op == '*' && __builtin_mul_overflow(*left, *right, &value)) return std::nullopt;
      left = op == '*' ? value : op == '/' ? *left / *right : *left % *right;
    }
    return left;
  }
  std::optional<long long> Unary() {
    if (++nested_ > 200) return std::nullopt;
    if (Take('-')) {
      const std::optional<long long> value = Unary();
      return value ? std::optional<long long>(-*value) : std::nullopt;
    }
    if (Take('(')) {
      const std::optional<long long> value = Sum();
      return Take(')') ? value : std::nullopt;
    }
    const bool names = Take('$');
    const bool brace = Take('{');
    Skip();
    const size_t begin = at_;
    while (at_ < text_.size() && (absl::ascii_isalnum(text_[at_]) || text_[at_] == '_')) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (brace && !Take('}')) return std::nullopt;
    if (word.empty()) return std::nullopt;
    // $1 is an argument of the script, 1 is a number.
    if (!names && !(absl::ascii_isalpha(word[0]) || word[0] == '_')) {
      long long value = 0;
      return absl::SimpleAtoi(word, &value) && std::abs(value) < (1LL << 62)
                 ? std::optional<long long>(value)
                 : std::nullopt;
    }
    const auto found = variables_.find(word);
    if (found == variables_.end() || found->second.elements.empty() || depth_ > 20) {
      return std::nullopt;
    }
    return Arithmetic(found->second.elements[0].chars, variables_, depth_ + 1).Evaluate();
  }

  std::string_view text_;
  const ShellVariables& variables_;
  int depth_, nested_ = 0;
  size_t at_ = 0;
};

}  // namespace

std::optional<long long> EvaluateArithmetic(std::string_view expression,
                                            const ShellVariables& variables) {
  return Arithmetic(expression, variables, 0).Evaluate();
}

}  // namespace oneflow::foreign

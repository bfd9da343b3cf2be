// $((...)) of a script: + - * / %, parentheses, numbers and variables. Internal to shell.cc.
#pragma once

#include <optional>
#include <string_view>

#include "tools/foreign/read/shell_words.h"

namespace oneflow::foreign {

// Nothing where it is more than that, divides by zero, or overflows.
std::optional<long long> EvaluateArithmetic(std::string_view expression,
                                            const ShellVariables& variables);

}  // namespace oneflow::foreign

// Conditions of a script: [ ... ], [[ ... ]] and patterns of `case`. Internal to shell.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace oneflow::foreign {

// What a command says as a condition.
enum class Truth { kTrue, kFalse, kUnknown, kCommand };
Truth Not(Truth truth);
Truth And(Truth a, Truth b);
Truth Or(Truth a, Truth b);
// The words between [ and ].
Truth EvaluateTest(const std::vector<std::string>& words);
// A pattern of `case` and of [[ a == b ]], with * and ?.
bool MatchesPattern(std::string_view text, std::string_view pattern);

}  // namespace oneflow::foreign

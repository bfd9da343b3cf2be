#include "oneflow_core/tensor/sbp.h"

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string ToString(Sbp sbp) {
  switch (sbp.kind) {
    case Sbp::kBroadcast: return "B";
    case Sbp::kSplit: return "S(" + std::to_string(sbp.dim) + ")";
    case Sbp::kPartialSum: return "P";
    case Sbp::kPartialMax: return "Pmax";
  }
  return "?";
}

std::string ToString(const NdSbp& sbp) {
  if (sbp.empty()) return "B";
  if (sbp.size() == 1) return ToString(sbp[0]);
  std::string text = "(";
  for (size_t i = 0; i < sbp.size(); ++i) {
    if (i > 0) text += ',';
    text += ToString(sbp[i]);
  }
  return text + ')';
}

absl::StatusOr<Sbp> ParseSbp(std::string_view text) {
  if (text == "B") return B();
  if (text == "P") return P();
  if (text == "Pmax") return PMax();
  // S(0) .. S(99): no tensor has more dimensions.
  if (text.size() == 4 && text.substr(0, 2) == "S(" && IsDigit(text[2]) && text[3] == ')') {
    return S(text[2] - '0');
  }
  if (text.size() == 5 && text.substr(0, 2) == "S(" && IsDigit(text[2]) && text[2] != '0' &&
      IsDigit(text[3]) && text[4] == ')') {
    return S(10 * (text[2] - '0') + (text[3] - '0'));
  }
  return InputError("SBP \"" + std::string(text) + "\"", "is malformed",
                    "use B, P, Pmax, or S(i) with i the dimension that is split");
}

}  // namespace oneflow

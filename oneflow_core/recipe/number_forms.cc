// Forms of numbers that are written in words.
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/forms.h"
#include "oneflow_core/recipe/parse_bytes.h"

namespace oneflow {
namespace {

constexpr int64_t kAutoPieces = -1;

absl::StatusOr<int64_t> ParseLossPieces(std::string_view where, std::string_view text) {
  if (text == "auto") return kAutoPieces;
  int64_t pieces = 0;
  if (absl::SimpleAtoi(ToAbsl(text), &pieces) && pieces >= 0) return pieces;
  return InputError(where, "is no number of pieces", "use auto, 0 for whole logits, or 1 or more");
}

std::string PrintLossPieces(int64_t pieces) {
  return pieces == kAutoPieces ? "auto" : absl::StrCat(pieces);
}

}  // namespace

const Form kBytesForm = {.parse_number = ParseBytes, .print_number = PrintBytes};
const Form kLossPiecesForm = {.parse_number = ParseLossPieces, .print_number = PrintLossPieces};

}  // namespace oneflow

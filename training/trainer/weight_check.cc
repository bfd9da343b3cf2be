#include "training/trainer/weight_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

template <typename T>
bool IsFinite(const Piece& piece) {
  const auto* values = reinterpret_cast<const T*>(piece.data);
  return std::all_of(values, values + piece.slice->elements(),
                     [](T value) { return std::isfinite(value); });
}

}  // namespace

void WeightCheck::Look(const Piece& piece) {
  const bool finite = piece.dtype == DType::kF32   ? IsFinite<float>(piece)
                      : piece.dtype == DType::kF64 ? IsFinite<double>(piece)
                                                   : true;
  if (finite) return;
  const std::lock_guard lock(mutex_);
  bad_.insert(*piece.name);
}

std::string WeightCheck::Found() const {
  if (bad_.empty()) return "";
  const size_t others = bad_.size() - 1;
  return absl::StrCat(*bad_.begin(),
                      others == 0   ? " has"
                      : others == 1 ? " and another variable have"
                                    : absl::StrCat(" and ", others, " other variables have"),
                      " values that are not finite, NaN or infinity");
}

}  // namespace oneflow

#include "training/checkpoint/convert_slice.h"

#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/bf16.h"
#include "training/hugging_face/copy_slice.h"

namespace oneflow {
namespace {

void Convert(const float* from, int64_t count, Bf16* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = ToBf16(from[i]);
}
void Convert(const Bf16* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = ToFloat(from[i]);
}

}  // namespace

bool Converts(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; }

absl::Status CheckConverts(const std::string& variable, DType dtype) {
  if (Converts(dtype)) return absl::OkStatus();
  return InputError("variable " + variable,
                    absl::StrCat("is ", ToAbsl(Name(dtype)),
                                 " in the plan, and stored weights are read as f32 or bf16"),
                    "use a plan whose variables are f32");
}

absl::Status FillConverted(
    const Piece& piece, DType stored,
    absl::FunctionRef<absl::Status(const Slice& slice, std::byte* data)> read) {
  RETURN_IF_ERROR(CheckConverts(*piece.name, piece.dtype));
  if (piece.dtype == stored) return read(*piece.slice, piece.data);
  std::vector<std::byte> values;
  int64_t done = 0;
  // In the order of the slice's elements.
  for (Slice part : SplitTensor(piece.slice->size, kSliceElements)) {
    for (size_t d = 0; d < part.begin.size(); ++d) part.begin[d] += piece.slice->begin[d];
    const int64_t count = part.elements();
    values.resize(count * ElementBytes(stored));
    RETURN_IF_ERROR(read(part, values.data()));
    const std::byte* const from = values.data();
    if (stored == DType::kF32) {
      Convert(reinterpret_cast<const float*>(from), count,
              reinterpret_cast<Bf16*>(piece.data) + done);
    } else {
      Convert(reinterpret_cast<const Bf16*>(from), count,
              reinterpret_cast<float*>(piece.data) + done);
    }
    done += count;
  }
  return absl::OkStatus();
}

absl::Status CheckGraphVariables(const proto::Plan& plan,
                                 absl::FunctionRef<absl::Status(const proto::Variable&)> fn) {
  std::set<std::string_view> weights;
  for (const proto::Op& op : plan.graph().op()) {
    if (op.kind() == "variable") weights.insert(op.name());
  }
  for (const proto::Variable& v : plan.variable()) {
    if (weights.contains(v.name())) RETURN_IF_ERROR(fn(v));
  }
  return absl::OkStatus();
}

}  // namespace oneflow

#include "tools/oneflow/tensor_io.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
absl::Status CheckFeed(const proto::Plan& plan, const std::string& program, const std::string& name,
                       const NpyArray& array, const std::string& file) {
  const proto::Program& p = *FindProgram(plan, program);
  for (const proto::Actor& actor : p.actor()) {
    const auto it = actor.attr().find("name");
    if (actor.kernel() != "feed" || it == actor.attr().end() || it->second.s() != name) continue;
    const proto::Register& reg = *FindRegister(plan, p, actor.output(0));
    const Dims dims(reg.layout().dim().begin(), reg.layout().dim().end());
    ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(reg.dtype(), reg.name()));
    if (dims != array.dims || dtype != array.dtype) {
      return InputError(absl::StrCat("--feed=", name, "=", file),
                        "the file holds " + std::string(Name(array.dtype)) + ToString(array.dims) +
                            ", the graph wants " + std::string(Name(dtype)) + ToString(dims));
    }
  }
  return absl::OkStatus();
}

absl::Status CopyFeed(const NpyArray& array, const Piece& piece) {
  const size_t size = ElementBytes(piece.dtype);
  const auto copy = [&](int64_t local, int64_t at, int64_t n) {
    std::memcpy(piece.data + local * size, array.bytes.data() + at * size, n * size);
  };
  ForRuns(*piece.dims, *piece.slice, 0, piece.slice->elements(), copy);
  return absl::OkStatus();
}

absl::Status FetchedTensors::Take(const Piece& piece) {
  const size_t size = ElementBytes(piece.dtype);
  if (piece.as_produced) {
    NpyArray& shard = shards[*piece.name][piece.rank];
    shard.dtype = piece.dtype;
    shard.dims = piece.slice->size;
    shard.bytes.assign(piece.data, piece.data + piece.slice->elements() * size);
    return absl::OkStatus();
  }
  NpyArray& array = full[*piece.name];
  array.dtype = piece.dtype;
  array.dims = *piece.dims;
  array.bytes.resize(Product(*piece.dims) * size);
  const auto copy = [&](int64_t local, int64_t at, int64_t n) {
    std::memcpy(array.bytes.data() + at * size, piece.data + local * size, n * size);
  };
  ForRuns(*piece.dims, *piece.slice, 0, piece.slice->elements(), copy);
  return absl::OkStatus();
}

}  // namespace oneflow

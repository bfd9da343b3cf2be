#include "tools/oneflow/tensor_io.h"

#include <cstring>
#include <functional>

#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

// Calls row(offset in the whole tensor, offset in the slice, elements) for each dense row of
// `slice`.
void ForEachRow(const Dims& dims, const Slice& slice,
                const std::function<void(int64_t whole, int64_t local, int64_t elements)>& row) {
  if (slice.elements() == 0) return;
  const int rank = static_cast<int>(dims.size());
  const int64_t width = rank == 0 ? 1 : slice.size[rank - 1];
  Dims index(rank, 0);
  for (int64_t local = 0; local < slice.elements(); local += width) {
    int64_t whole = 0;
    for (int d = 0; d < rank; ++d) whole = whole * dims[d] + slice.begin[d] + index[d];
    row(whole, local, width);
    for (int d = rank - 2; d >= 0; --d) {
      if (++index[d] < slice.size[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace

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
      return InputError("--feed=" + name + "=" + file,
                        "the file holds " + std::string(Name(array.dtype)) + ToString(array.dims) +
                            ", the graph wants " + std::string(Name(dtype)) + ToString(dims));
    }
  }
  return absl::OkStatus();
}

absl::Status CopyFeed(const NpyArray& array, const Piece& piece) {
  const size_t size = SizeOf(piece.dtype);
  ForEachRow(*piece.dims, *piece.slice, [&](int64_t whole, int64_t local, int64_t n) {
    std::memcpy(piece.data + local * size, array.bytes.data() + whole * size, n * size);
  });
  return absl::OkStatus();
}

absl::Status FetchedTensors::Take(const Piece& piece) {
  const size_t size = SizeOf(piece.dtype);
  if (piece.raw) {
    NpyArray& shard = shards[*piece.name][piece.rank];
    shard.dtype = piece.dtype;
    shard.dims = piece.slice->size;
    shard.bytes.assign(piece.data, piece.data + piece.slice->elements() * size);
    return absl::OkStatus();
  }
  NpyArray& array = whole[*piece.name];
  array.dtype = piece.dtype;
  array.dims = *piece.dims;
  array.bytes.resize(Product(*piece.dims) * size);
  ForEachRow(*piece.dims, *piece.slice, [&](int64_t at, int64_t local, int64_t n) {
    std::memcpy(array.bytes.data() + at * size, piece.data + local * size, n * size);
  });
  return absl::OkStatus();
}

}  // namespace oneflow

#include "tools/oneflow/model/tensor_io.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/primitive.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

// An actor that selects by what a register holds: among so many elements.
struct Selection {
  const proto::Actor* reader = nullptr;
  int64_t elements = 0;
  bool ignores_negative = false;
};

// The selections by register `first` of a program, wherever its contents move.
std::vector<Selection> FindSelections(const proto::Plan& plan, const proto::Program& program,
                                      int first) {
  std::vector<Selection> found;
  std::set<int> known = {first};
  for (std::vector<int> registers = {first}; !registers.empty();) {
    const int reg = registers.back();
    registers.pop_back();
    for (const proto::Actor& actor : program.actor()) {
      const std::vector<int> in = DataInputs(plan, program, actor);
      const auto input = std::find(in.begin(), in.end(), reg);
      if (input == in.end()) continue;
      if (actor.has_boxing() || actor.kernel() == "copy_in") {
        const bool sent = IsSend(actor.kernel());
        const std::vector<int> out =
            DataOutputs(plan, program, sent ? program.actor(actor.exchange().partner()) : actor);
        const int to = out[std::min<size_t>(input - in.begin(), out.size() - 1)];
        if (known.insert(to).second) registers.push_back(to);
        continue;
      }
      const OpDef* def = FindOpDef(actor.kernel());
      if (def == nullptr || def->indices.input != input - in.begin()) continue;
      const Indices& indices = def->indices;
      const int of = indices.of < 0 ? DataOutputs(plan, program, actor)[0] : in[indices.of];
      const auto& dims = FindRegister(plan, program, of)->layout().dim();
      const auto ignores = actor.attr().find("ignore_negative");
      found.push_back({&actor, indices.dim < 0 ? *dims.rbegin() : dims[indices.dim],
                       ignores != actor.attr().end() && ignores->second.b()});
    }
  }
  return found;
}

absl::Status CheckIndices(const NpyArray& array, const Selection& selection,
                          const std::string& where) {
  for (int64_t at = 0; at < Product(array.dims); ++at) {
    int32_t index = 0;
    std::memcpy(&index, array.bytes.data() + at * sizeof(index), sizeof(index));
    const bool ignored = index < 0 && selection.ignores_negative;
    if (ignored || (index >= 0 && index < selection.elements)) continue;
    Dims position(array.dims.size());
    for (int64_t rest = at, d = std::ssize(position) - 1; d >= 0; rest /= array.dims[d--]) {
      position[d] = rest % array.dims[d];
    }
    return InputError(where,
                      absl::StrCat("element ", ToString(position), " is ", index, ", and ",
                                   selection.reader->name(), " (", selection.reader->kernel(),
                                   ") selects among ", selection.elements),
                      absl::StrCat("use 0 to ", selection.elements - 1,
                                   "; no index stands for a position to ignore"));
  }
  return absl::OkStatus();
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
      return InputError(absl::StrCat("--feed=", name, "=", file),
                        "the file holds " + std::string(Name(array.dtype)) + ToString(array.dims) +
                            ", the graph wants " + std::string(Name(dtype)) + ToString(dims));
    }
    if (dtype != DType::kI32) continue;
    for (const Selection& selection : FindSelections(plan, p, actor.output(0))) {
      RETURN_IF_ERROR(CheckIndices(array, selection, absl::StrCat("--feed=", name, "=", file)));
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

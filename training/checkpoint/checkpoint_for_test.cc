#include "training/checkpoint/checkpoint_for_test.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <utility>

#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

template <typename Fn>
void ForEachPiece(const Placement& placement, int rank, Fn fn) {
  for (int v = 0; v < static_cast<int>(kVariables.size()); ++v) {
    const Layout layout = {kVariables[v].dims, placement.splits[v]};
    const Slice slice = LocalSlice(layout, placement.mesh, placement.mesh.RankToCoordinate(rank));
    Piece piece = {
        .name = &kVariables[v].name, .dims = &kVariables[v].dims, .slice = &slice, .rank = rank};
    fn(v, piece);
  }
}

}  // namespace

proto::Plan TestPlan(const std::vector<TestVariable>& variables) {
  proto::Plan plan;
  plan.set_model("tiny");
  plan.set_fingerprint("f00d");
  plan.mutable_graph()->set_name("tiny");
  plan.mutable_recipe()->set_batch(8);
  plan.mutable_optimizer()->set_learning_rate(0.1);
  for (const TestVariable& v : variables) {
    proto::Variable* variable = plan.add_variable();
    variable->set_name(v.name);
    variable->set_dtype(proto::F32);
    *variable->mutable_layout() = ToProto(Layout{v.dims, {}});
  }
  return plan;
}

std::vector<float> Values(int v, const Slice& slice) {
  const Dims& dims = kVariables[v].dims;
  std::vector<float> values;
  for (int64_t e = 0; e < slice.elements(); ++e) {
    int64_t at = 0, rest = e, stride = 1;
    for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
      at += (slice.begin[d] + rest % slice.size[d]) * stride;
      rest /= slice.size[d];
      stride *= dims[d];
    }
    values.push_back(static_cast<float>(1000 * v + at));
  }
  return values;
}

Placement PlacementNumber(int n) {
  switch (n) {
    case 0: return {*ParseMesh("data=1"), {{}, {}, {}}};
    case 1: return {*ParseMesh("data=2"), {{{0, 0}}, {{0, 0}}, {}}};
    case 2: return {*ParseMesh("data=2,tensor=3"), {{{1, 1}}, {{0, 1}}, {}}};
    case 3: return {*ParseMesh("data=2,tensor=3"), {{{1, 1}, {0, 0}}, {{0, 0}, {0, 1}}, {}}};
    default: return {*ParseMesh("data=8"), {{{2, 0}}, {{0, 0}}, {}}};  // empty parts, too
  }
}

proto::Plan PlacedPlan(const Placement& placement) {
  proto::Plan plan = TestPlan();
  *plan.mutable_mesh() = ToProto(placement.mesh);
  plan.set_stage_axis(-1);
  for (int v = 0; v < static_cast<int>(kVariables.size()); ++v) {
    proto::Register* held = plan.add_persistent();
    held->set_id(v);
    *held->mutable_layout() = ToProto(Layout{kVariables[v].dims, placement.splits[v]});
    plan.mutable_variable(v)->add_register_(v);
  }
  return plan;
}

absl::Status WriteRank(CheckpointWriter& writer, const Placement& placement, int rank) {
  absl::Status status;
  ForEachPiece(placement, rank, [&](int v, Piece& piece) {
    bool held = false;
    for (int lower = 0; lower < rank; ++lower) {
      const Layout layout = {kVariables[v].dims, placement.splits[v]};
      const Coordinate at = placement.mesh.RankToCoordinate(lower);
      held = held || LocalSlice(layout, placement.mesh, at) == *piece.slice;
    }
    if (held) return;
    std::vector<float> values = Values(v, *piece.slice);
    piece.data = reinterpret_cast<std::byte*>(values.data());
    status.Update(writer.Write(piece));
  });
  return status;
}

absl::StatusOr<std::vector<std::string>> WriteParts(const std::string& dir, int64_t step,
                                                    const Placement& placement, int processes,
                                                    const WriterOptions& options) {
  const int ranks = placement.mesh.devices() / processes;
  std::vector<std::string> parts;
  for (int process = processes; process-- > 0;) {
    WriterOptions share = options;
    share.process = process;
    if (processes > 1) share.ranks = {process * ranks, (process + 1) * ranks};
    ASSIGN_OR_RETURN(const auto writer, CheckpointWriter::Create(
                                            dir, TestPlan(), {.step = step, .seed = kSeed}, share));
    for (int rank = process * ranks; rank < (process + 1) * ranks; ++rank) {
      RETURN_IF_ERROR(WriteRank(*writer, placement, rank));
    }
    ASSIGN_OR_RETURN(parts.emplace_back(), writer->Finish());
  }
  return parts;
}

std::shared_ptr<const ModelFiles> TestModelFiles() {
  return std::make_shared<ModelFiles>(
      ModelFiles{{"additional_chat_templates/a.jinja", "{{ a }}"}, {"config.json", "{}"}});
}

absl::StatusOr<std::string> TrySave(const std::string& dir, int64_t step,
                                    const Placement& placement, int processes,
                                    const WriterOptions& options,
                                    std::shared_ptr<const ModelFiles> files) {
  RETURN_IF_ERROR(BeginAttempt(dir, options.attempt));
  ASSIGN_OR_RETURN(const auto parts, WriteParts(dir, step, placement, processes, options));
  const CheckpointInfo info = {.step = step, .seed = kSeed, .model_files = std::move(files)};
  ASSIGN_OR_RETURN(std::string folder, CommitParts(dir, TestPlan(), info, options, parts));
  EndAttempt(dir, options.attempt);
  return folder;
}

std::string Save(const std::string& dir, int64_t step, const Placement& placement, int processes) {
  return TrySave(dir, step, placement, processes).value();
}

absl::Status LoadRank(const CheckpointReader& reader, const Placement& placement, int rank) {
  absl::Status status;
  ForEachPiece(placement, rank, [&](int v, Piece& piece) {
    std::vector<float> values(piece.slice->elements(), -1);
    piece.data = reinterpret_cast<std::byte*>(values.data());
    const absl::Status loaded = reader.Load(piece);
    if (loaded.ok()) REQUIRE(values == Values(v, *piece.slice));
    status.Update(loaded);
  });
  return status;
}

void CheckLoads(const CheckpointReader& reader, const Placement& placement) {
  for (int rank = 0; rank < placement.mesh.devices(); ++rank) {
    REQUIRE(LoadRank(reader, placement, rank).ok());
  }
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace oneflow

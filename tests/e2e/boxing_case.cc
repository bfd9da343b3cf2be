#include "tests/e2e/boxing_case.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/interleaved_for_test.h"
#include "actor_runtime/kernel/kernel.h"
#include "oneflow_core/tensor/all_sbps.h"
#include "oneflow_core/tensor/layout.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

using Values = std::vector<float>;

// The coordinate of a device on the axes of one kind: 0 on all others.
Coordinate On(const NdSbp& sbp, Sbp::Kind kind, Coordinate c) {
  for (size_t a = 0; a < sbp.size(); ++a) {
    if (sbp[a].kind != kind) c[a] = 0;
  }
  return c;
}

// The tensor that pieces stand for: over the axes that are Pmax the maximum of, over those that are
// P, the sums of their parts. `piece(rank)`: the local values on a rank of `stage`. Ranks that
// should hold the same are required to.
template <typename FindPiece>
Values Gather(const BoxingCase& c, const NdSbp& sbp, int stage, FindPiece piece) {
  const int64_t n = Product(c.dims);
  const Layout layout = MakeLayout(c.dims, sbp);
  std::map<std::pair<Coordinate, Coordinate>, Values> parts;  // by coordinate on Pmax, on P
  const int stage_axis = c.mesh.stage_axis();
  for (int rank = 0; rank < c.mesh.devices(); ++rank) {
    const Coordinate at = c.mesh.RankToCoordinate(rank);
    if (stage_axis >= 0 && at[stage_axis] != stage) continue;
    Values& part = parts
                       .try_emplace({On(sbp, Sbp::kPartialMax, at), On(sbp, Sbp::kPartialSum, at)},
                                    n, std::nanf(""))
                       .first->second;
    const Values& local = piece(rank);
    const Slice slice = LocalSlice(layout, c.mesh, at);
    REQUIRE(static_cast<int64_t>(local.size()) == slice.elements());
    for (int64_t i = 0; i < slice.elements(); ++i) {
      float& value = part[IndexInTensor(c.dims, slice, i)];
      if (!std::isnan(value)) REQUIRE(value == local[i]);
      value = local[i];
    }
  }
  std::map<Coordinate, Values> sums;
  for (const auto& [key, part] : parts) {
    Values& sum = sums.try_emplace(key.first, n, 0.f).first->second;
    for (int64_t i = 0; i < n; ++i) sum[i] += part[i];
  }
  Values full(n, -std::numeric_limits<float>::infinity());
  for (const auto& [at, sum] : sums) {
    for (int64_t i = 0; i < n; ++i) full[i] = std::max(full[i], sum[i]);
  }
  return full;
}

// The values of rank `rank`: slices of tensors drawn for each coordinate on the partial axes.
Values Fed(const BoxingCase& c, int rank) {
  const NdSbp sbp = FedAs(c);
  const Layout layout = MakeLayout(c.dims, sbp);
  const Coordinate at = c.mesh.RankToCoordinate(rank);
  Coordinate at_partial = On(sbp, Sbp::kPartialMax, at);
  const Coordinate sum = On(sbp, Sbp::kPartialSum, at);
  for (size_t a = 0; a < at_partial.size(); ++a) at_partial[a] += sum[a];
  std::mt19937 random(static_cast<uint32_t>(c.mesh.CoordinateToRank(at_partial) + 1));
  Values tensor(Product(c.dims));
  for (float& v : tensor) v = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
  const Slice slice = LocalSlice(layout, c.mesh, at);
  Values piece(slice.elements());
  for (int64_t i = 0; i < slice.elements(); ++i) piece[i] = tensor[IndexInTensor(c.dims, slice, i)];
  return piece;
}

using Pieces = std::map<int, Values>;  // by rank

// Runs the plan in a drawn order; what each reader got on each rank.
std::map<std::string, Pieces> Run(const BoxingCase& c, uint64_t seed) {
  const auto runtime =
      Runtime::Create(MakeBoxingPlan(c), Interleaved(seed, {.make_kernel = MakeKernel})).value();
  std::map<std::string, Pieces> fetched;
  RunContext context;
  context.load = [&](const Piece& piece) {
    const Values values = Fed(c, piece.rank);
    std::copy(values.begin(), values.end(), reinterpret_cast<float*>(piece.data));
    return absl::OkStatus();
  };
  context.save = [&](const Piece& piece) {
    Values& values = fetched[*piece.name][piece.rank];
    const float* data = reinterpret_cast<const float*>(piece.data);
    values.assign(data, data + piece.slice->elements());
    return absl::OkStatus();
  };
  const absl::Status status = runtime->Run("run", context, 1);
  INFO(status.ToString());
  REQUIRE(status.ok());
  return fetched;
}

}  // namespace

NdSbp FedAs(const BoxingCase& c) { return c.constrained ? NdSbp(c.mesh.axes.size(), B()) : c.from; }

std::vector<NdSbp> AllSbps(const Mesh& mesh, int rank) {
  std::vector<Sbp> any = {B(), P(), PMax()};
  for (int d = 0; d < rank; ++d) any.push_back(S(d));
  std::vector<std::vector<Sbp>> choices(mesh.axes.size(), any);
  if (mesh.stage_axis() >= 0) choices[mesh.stage_axis()] = {B()};
  return AllSbps(choices);
}

proto::Cluster NodesOfTwo() {
  proto::Cluster cluster;
  for (const double bandwidth : {1e11, 1e8}) {
    proto::Level* level = cluster.add_level();
    level->set_size(2);
    level->set_latency(1e-7);
    level->set_bandwidth(bandwidth);
  }
  return cluster;
}

std::string RecordKey(const BoxingCase& c) {
  std::string key = absl::StrCat(ToString(c.mesh), ToString(c.dims), ToString(c.from));
  for (const NdSbp& to : c.to) absl::StrAppend(&key, ToString(to));
  return absl::StrCat(key, c.cluster.ShortDebugString(), c.constrained ? "constrained" : "");
}

void CheckBoxing(const BoxingCase& c, uint64_t seed) {
  const auto fetched = Run(c, seed);
  const Values full = Gather(c, FedAs(c), 0, [&](int rank) { return Fed(c, rank); });
  for (size_t i = 0; i < c.to.size(); ++i) {
    INFO(ToString(c.mesh) << " " << ToString(c.dims) << ": " << ToString(c.from) << " to "
                          << ToString(c.to[i]));
    const Pieces& pieces = fetched.at("y" + std::to_string(i));
    const int last = c.mesh.stages() - 1;
    CHECK(Gather(c, c.to[i], last, [&](int rank) { return pieces.at(rank); }) == full);
  }
}

}  // namespace oneflow

#include "actor_runtime/exec/instantiate.h"

#include <catch2/catch.hpp>

#include <algorithm>

#include "actor_runtime/exec/test_plans.h"

namespace oneflow {
namespace {

ActorNet NetOf(const proto::Plan& plan, int program) {
  absl::StatusOr<StageMesh> mesh = StageMeshOf(plan);
  REQUIRE(mesh.ok());
  absl::StatusOr<ActorNet> net = Instantiate(plan, program, *mesh);
  INFO(net.status());
  REQUIRE(net.ok());
  return *std::move(net);
}

// Both ends of every edge computed the other's port from the plan alone: they must agree.
void CheckEnds(const ActorNet& net) {
  size_t sources = 0, readers = 0;
  for (const ActorSpec& spec : net.specs) {
    for (size_t p = 0; p < spec.sources.size(); ++p, ++sources) {
      const ActorPeer& to = spec.sources[p];
      const ActorPeer& back = net.specs[net.Find(to.rank, to.actor)].readers.at(to.port);
      CHECK(back.rank == spec.rank);
      CHECK(back.actor == spec.actor);
      CHECK(back.port == p);
      CHECK(back.same_stream == to.same_stream);
    }
    readers += spec.readers.size();
  }
  CHECK(sources == readers);
}

TEST_CASE("both ends of an edge name the same ports") {
  CheckEnds(NetOf(ChainPlan(), 0));
  CheckEnds(NetOf(ChainPlan(), 1));
  CheckEnds(NetOf(TwoRanksPlan(), 0));
  CheckEnds(NetOf(TwoStagesPlan(), 1));
}

// The two-stage plan on a mesh of 3 x 2 x 2, with sums along the first and the last axis.
TEST_CASE("peers by rule on a larger mesh: all along the axes, same coordinate elsewhere") {
  proto::Plan plan = TwoRanksPlan();
  proto::Mesh* mesh = plan.mutable_mesh();
  mesh->mutable_axis(0)->set_size(3);
  for (const char* name : {"middle", "tensor"}) {
    proto::Mesh::Axis* axis = mesh->add_axis();
    axis->set_name(name);
    axis->set_size(2);
  }
  proto::Actor* sum = plan.mutable_program(0)->mutable_actor(1);
  sum->mutable_input(0)->mutable_peers()->add_along(2);
  sum->mutable_boxing()->add_reduce_axis(2);
  const ActorNet net = NetOf(plan, 0);
  CheckEnds(net);
  REQUIRE(net.specs.size() == 12 * 3);
  // Rank 5 = (1, 0, 1): its peers are (*, 0, *).
  std::vector<uint32_t> ranks;
  for (const ActorPeer& peer : net.specs[net.Find(5, 1)].sources) ranks.push_back(peer.rank);
  CHECK(ranks == std::vector<uint32_t>{0, 1, 4, 5, 8, 9});
}

TEST_CASE("devices hold the actors of their stage only, streams in the plan's order") {
  const ActorNet net = NetOf(TwoStagesPlan(), 1);
  CHECK(net.index[0 * net.actors_in_plan + 1] == -1);
  CHECK(net.index[1 * net.actors_in_plan + 1] >= 0);
  REQUIRE(net.streams.size() == 4);
  std::vector<uint32_t> order;
  const StreamOrder& first = net.streams[0];
  FiringOrder::Cursor at;
  do {
    order.push_back(net.specs[first.actors[first.firings.PlaceAt(at)]].actor);
  } while (first.firings.Next(&at));
  CHECK(first.firings.size() == std::ssize(order));
  CHECK(order == std::vector<uint32_t>{0, 0, 6, 0, 6, 0, 6, 6});
}

TEST_CASE("a register that nobody writes in the program is always full") {
  proto::Plan plan = ChainPlan();
  proto::Program* train = plan.mutable_program(1);
  train->mutable_actor(2)->clear_output();  // the update keeps its result to itself
  const ActorNet net = NetOf(plan, 1);
  CHECK(net.specs[1].inputs[1].always_full);
  CHECK(net.specs[1].sources.size() == 1);
}

TEST_CASE("mailboxes have room for all credits of edges from other workers") {
  const ActorNet net = NetOf(TwoRanksPlan(), 0);
  std::vector<bool> rank0(net.streams.size());
  for (size_t s = 0; s < net.streams.size(); ++s) rank0[s] = net.streams[s].rank == 0;
  // From rank 1: fills of its g (2 slots), returns of our g (2 slots).
  CHECK(MailboxCapacity(net, rank0) == 4);
  CHECK(MailboxCapacity(net, std::vector<bool>(net.streams.size(), true)) == 0);
}

}  // namespace
}  // namespace oneflow

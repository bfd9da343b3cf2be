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
      const ActorPeer& back = net.specs[net.Find(spec.rank, to.actor)].readers.at(to.port);
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

// The plan of two ranks on a mesh of 3 x 2 x 2, with sums along the first and the last axis.
TEST_CASE(
    "members of an exchange on a larger mesh: all along the axes, same coordinate elsewhere") {
  proto::Plan plan = TwoRanksPlan();
  proto::Mesh* mesh = plan.mutable_mesh();
  mesh->mutable_axis(0)->set_size(3);
  for (const char* name : {"middle", "tensor"}) {
    proto::Mesh::Axis* axis = mesh->add_axis();
    axis->set_name(name);
    axis->set_size(2);
  }
  plan.mutable_group(0)->add_axis(2);
  plan.mutable_program(0)->mutable_actor(1)->mutable_boxing()->add_reduce_axis(2);
  const ActorNet net = NetOf(plan, 0);
  CheckEnds(net);
  REQUIRE(net.specs.size() == 12 * 3);
  CHECK(net.exchanges.size() == 2);
  // Rank 5 = (1, 0, 1) is with all of (*, 0, *).
  const ExchangeMember& member = net.member_of[net.Find(5, 1)];
  REQUIRE(member.exchange >= 0);
  std::vector<uint32_t> ranks;
  for (const int32_t a : net.exchanges[member.exchange].members) ranks.push_back(net.specs[a].rank);
  CHECK(ranks == std::vector<uint32_t>{0, 1, 4, 5, 8, 9});
  CHECK(member.index == 3);
  CHECK(net.member_of[net.Find(5, 0)].exchange == -1);
}

TEST_CASE("a send and its receive are one exchange, the sender first") {
  const ActorNet net = NetOf(TwoStagesPlan(), 1);
  REQUIRE(net.exchanges.size() == 2);
  for (const NetExchange& exchange : net.exchanges) {
    REQUIRE(exchange.members.size() == 2);
    CHECK(net.names[net.specs[exchange.members[0]].actor].ends_with(".send"));
    CHECK(net.specs[exchange.members[0]].rank != net.specs[exchange.members[1]].rank);
  }
}

TEST_CASE("devices hold the actors of their stage only, streams in the plan's order") {
  const ActorNet net = NetOf(TwoStagesPlan(), 1);
  CHECK(net.index[0 * net.actors_in_plan + 1] == -1);
  CHECK(net.index[1 * net.actors_in_plan + 1] >= 0);
  REQUIRE(net.streams.size() == 6);
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
  // No message leaves a device.
  CHECK(MailboxCapacity(net, rank0) == 0);
  // From the copy stream of rank 0: returns of g (2 slots) and fills of its sum.
  std::vector<bool> compute(net.streams.size());
  compute[0] = true;
  CHECK(MailboxCapacity(net, compute) == 3);
  CHECK(MailboxCapacity(net, std::vector<bool>(net.streams.size(), true)) == 0);
}

}  // namespace
}  // namespace oneflow

#include "actor_runtime/exec/instantiate.h"

#include <catch2/catch.hpp>

#include <numeric>
#include <string>
#include <vector>

#include "actor_runtime/actor/actor_state.h"
#include "actor_runtime/exec/test_plans.h"

namespace oneflow {
namespace {

// `own`: empty means all ranks.
ActorNet MakeNet(const proto::Plan& plan, int program, RankRange own = {}) {
  StageMesh mesh = MakeStageMesh(plan).value();
  if (own.size() == 0) own = {0, mesh.ranks()};
  return Instantiate(plan, program, mesh, own).value();
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
      CHECK(back.when == to.when);
    }
    readers += spec.readers.size();
  }
  CHECK(sources == readers);
}

TEST_CASE("both ends of an edge name the same ports") {
  CheckEnds(MakeNet(ChainPlan(), 0));
  CheckEnds(MakeNet(ChainPlan(), 1));
  CheckEnds(MakeNet(TwoRanksPlan(), 0));
  CheckEnds(MakeNet(TwoStagesPlan(), 1));
  CheckEnds(MakeNet(HostMemoryPlan(), 2));
}

// The plan of two ranks on a mesh of `sizes`, with sums along the first and the last axis.
proto::Plan OnLargerMesh(const std::vector<int>& sizes) {
  proto::Plan plan = TwoRanksPlan();
  proto::Mesh* mesh = plan.mutable_mesh();
  mesh->clear_axis();
  for (size_t i = 0; i < sizes.size(); ++i) {
    proto::Mesh::Axis* axis = mesh->add_axis();
    axis->set_name(std::string(1, static_cast<char>('a' + i)));
    axis->set_size(sizes[i]);
  }
  plan.mutable_group(0)->add_axis(2);
  plan.mutable_program(0)->mutable_actor(1)->mutable_boxing()->add_reduce_axis(2);
  return plan;
}

TEST_CASE(
    "members of an exchange on a larger mesh: all along the axes, same coordinate elsewhere") {
  const ActorNet net = MakeNet(OnLargerMesh({3, 2, 2}), 0);
  CheckEnds(net);
  REQUIRE(net.specs.size() == 12 * 3);
  CHECK(net.exchanges.size() == 2);
  // Rank 5 = (1, 0, 1) is with all of (*, 0, *).
  const ExchangeMember& member = net.member_of[net.Find(5, 1)];
  REQUIRE(member.exchange >= 0);
  const Group& group = net.groups[net.exchanges[member.exchange].group];
  CHECK(group.ranks == std::vector<int32_t>{0, 1, 4, 5, 8, 9});
  CHECK(member.index == 3);
  CHECK(net.member_of[net.Find(5, 0)].exchange == -1);
}

TEST_CASE("a process makes the actors of its ranks, and the groups that they are in") {
  // 2 x 32 x 8 devices; ranks 16 to 23 are all of the last axis at (0, 2, *).
  const ActorNet net = MakeNet(OnLargerMesh({2, 32, 8}), 0, {16, 24});
  CheckEnds(net);
  CHECK(net.specs.size() == 8 * 3);
  CHECK(net.streams.size() == 8 * 2);
  CHECK(net.issues.size() == 8);
  CHECK(net.index.size() == 8 * 3);
  for (const ActorSpec& spec : net.specs) CHECK(net.own.Contains(static_cast<int>(spec.rank)));
  // Sums are along the first and the last axis: half of the members are in another process.
  REQUIRE(net.groups.size() == 1);
  REQUIRE(net.exchanges.size() == 1);
  std::vector<int32_t> ranks(8);
  std::iota(ranks.begin(), ranks.end(), 16);
  for (int i = 0; i < 8; ++i) ranks.push_back(256 + 16 + i);
  CHECK(net.groups[0].ranks == ranks);
  CHECK(net.FindMember(net.exchanges[0], 3) == net.Find(19, 1));
  CHECK(net.FindMember(net.exchanges[0], 8) == -1);
  CHECK(net.ActorName(net.exchanges[0], 8) == "actor g.sum at rank 272");

  const ActorNet receiver = MakeNet(TwoStagesPlan(), 1, {1, 2});
  REQUIRE(receiver.exchanges.size() == 2);
  CHECK(receiver.FindMember(receiver.exchanges[0], 0) == -1);
  CHECK(receiver.names[receiver.exchanges[0].actors[0]] == "x.send");
  CHECK(receiver.FindMember(receiver.exchanges[0], 1) == receiver.Find(1, 1));
}

TEST_CASE("exchanges of the same streams are one group's; other streams are another's") {
  proto::Plan plan = TwoRanksPlan();
  CHECK(MakeNet(plan, 0).groups.size() == 1);
  // First both sums are on the stream of sums; then one of them has a separate stream.
  proto::Program* train = plan.mutable_program(0);
  const auto add_sum = [&](int id, int segment) {
    proto::Register* reg = train->add_register_();
    *reg = train->register_(1);
    reg->set_id(id);
    proto::Actor* sum = train->add_actor();
    *sum = train->actor(1);
    sum->set_id(id);
    sum->set_output(0, id);
    train->mutable_segment(segment)->add_actor(id);
    train->mutable_issue(0)->mutable_run(0)->add_actor(id);
  };
  add_sum(3, 1);
  const ActorNet shared = MakeNet(plan, 0);
  CHECK(shared.exchanges.size() == 2);
  CHECK(shared.groups.size() == 1);
  proto::Segment* segment = train->add_segment();
  *segment = train->segment(1);
  segment->set_id(3);
  segment->clear_actor();
  *train->add_stream() = train->stream(1);
  train->mutable_stream(2)->set_id(2);
  train->mutable_stream(2)->mutable_order(0)->set_segment(0, 3);
  add_sum(4, 3);
  const ActorNet apart = MakeNet(plan, 0);
  CHECK(apart.exchanges.size() == 3);
  REQUIRE(apart.groups.size() == 2);
  CHECK(apart.groups[0].ranks == apart.groups[1].ranks);
  CHECK(apart.groups[0].id != apart.groups[1].id);
}

TEST_CASE("streams of copies and of what the host computes have workers of their own") {
  proto::Plan plan = HostMemoryPlan();
  const auto stream = [](const ActorNet& net, int s) { return net.streams[s]; };
  const ActorNet net = MakeNet(plan, 2);
  REQUIRE(net.streams.size() == 8);
  for (int s = 0; s < 8; ++s) {
    INFO(stream(net, s).name);
    CHECK_FALSE(stream(net, s).host);
    CHECK(stream(net, s).alone == (stream(net, s).name != "compute"));
    // copy.in and host.update write what outlives the program, so they begin steps.
    CHECK(stream(net, s).follows == (stream(net, s).name == "copy.out"));
  }
  CHECK(MakeNet(PrefetchPlan(), 1).streams[1].follows);
  CHECK(net.specs[net.Find(1, 1)].sources[0].when == NotifyWhen::kWhenDone);

  // A GPU copies by itself, and its streams wait for events; the host is told when a copy is done.
  plan.set_device_kind(proto::CUDA);
  const ActorNet gpus = MakeNet(plan, 2);
  CheckEnds(gpus);
  for (int s = 0; s < 8; ++s) {
    CHECK(stream(gpus, s).alone == (stream(gpus, s).name == "host.update"));
  }
  const auto when = [&](int actor) { return gpus.specs[gpus.Find(1, actor)].sources[0].when; };
  CHECK(when(1) == NotifyWhen::kWithEvent);  // x to x.out
  CHECK(when(3) == NotifyWhen::kWithEvent);  // x.in to dw
  CHECK(when(5) == NotifyWhen::kWhenDone);   // dw.out to m
  CHECK(when(6) == NotifyWhen::kWhenDone);   // m to w
}

// A worker sends only MessageTo of peers that its actors complete for.
TEST_CASE("no message of an actor leaves its device") {
  for (const proto::Plan& plan : {ChainPlan(), OnLargerMesh({2, 3, 2}), TwoStagesPlan()}) {
    const ActorNet net = MakeNet(plan, plan.program_size() - 1);
    int messages = 0;
    for (const StreamOrder& stream : net.streams) {
      ActorStates states = InitialStates(stream.table);
      for (size_t a = 0; a < stream.actors.size(); ++a) {
        const ActorTable::Actor& actor = stream.table.actors[a];
        for (int32_t peer = actor.first_peer; peer < actor.end_peer; ++peer) {
          const Message message = MessageTo(stream.table, states, static_cast<int32_t>(a), peer);
          CHECK(message.to_rank == stream.rank);
          CHECK(net.specs[net.FindReceiver(message)].rank == stream.rank);
          ++messages;
        }
      }
    }
    CHECK(messages > 0);
  }
}

TEST_CASE("a send and its receive are one exchange, the sender first") {
  const ActorNet net = MakeNet(TwoStagesPlan(), 1);
  REQUIRE(net.exchanges.size() == 2);
  for (const NetExchange& exchange : net.exchanges) {
    REQUIRE(net.members(exchange) == 2);
    CHECK(net.names[exchange.actors[0]].ends_with(".send"));
    const std::vector<int32_t>& ranks = net.groups[exchange.group].ranks;
    CHECK(ranks[0] != ranks[1]);
  }
}

TEST_CASE("devices hold the actors of their stage only, streams in the plan's order") {
  const ActorNet net = MakeNet(TwoStagesPlan(), 1);
  CHECK(net.index[0 * net.actors_in_plan + 1] == -1);
  CHECK(net.index[1 * net.actors_in_plan + 1] >= 0);
  REQUIRE(net.streams.size() == 6);
  std::vector<uint32_t> order;
  const StreamOrder& first = net.streams[0];
  FiringOrder::Cursor at;
  do {
    order.push_back(net.specs[first.actors[first.firings.IndexAt(at)]].actor);
  } while (first.firings.Next(&at));
  CHECK(first.firings.size() == std::ssize(order));
  CHECK(order == std::vector<uint32_t>{0, 0, 6, 0, 6, 0, 6, 6});
}

TEST_CASE("a register that nobody writes in the program is always full") {
  proto::Plan plan = ChainPlan();
  proto::Program* train = plan.mutable_program(1);
  train->mutable_actor(2)->clear_output();  // the update keeps its result to itself
  const ActorNet net = MakeNet(plan, 1);
  CHECK(net.specs[1].inputs[1].always_full);
  CHECK(net.specs[1].sources.size() == 1);
}

TEST_CASE("mailboxes have room for all credits of edges from other workers") {
  const ActorNet net = MakeNet(TwoRanksPlan(), 0);
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

// The suite for the implementations within one process and for members in simulated processes, and
// tests that hold for these alone.
#include "actor_runtime/exchange/communicator_suite.h"

#include <cstring>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/exchange/far_exchange.h"
#include "actor_runtime/exchange/local_communicator.h"

namespace oneflow {
namespace {

// By member: process m * factor mod most.
std::vector<int> Processes(int members, int factor, int most) {
  std::vector<int> process;
  for (int m = 0; m < members; ++m) process.push_back(m * factor % most);
  return process;
}

}  // namespace

const std::vector<MakerForTest>& CommunicatorMakers() {
  using Cases = std::vector<ExchangeCase>;
  static const std::vector<MakerForTest> makers = {
      {"threads of one process", [](const Cases& c, uint64_t) { return MakeLocalGroup(c); }},
      {"all members far",
       [](const Cases& c, uint64_t seed) {
         return MakeFarGroup(c, Processes(c[0].members(), 1, c[0].members()), seed);
       }},
      {"some members far",
       [](const Cases& c, uint64_t seed) {
         // Members of a process need not be neighbours.
         return MakeFarGroup(c, Processes(c[0].members(), 3, c[0].members() > 4 ? 4 : 2), seed);
       }},
  };
  return makers;
}

namespace {

TEST_CASE("messages that do not belong are refused, and change nothing") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    SceneForTest scene(CommunicatorMakers()[1 + seed % 2],
                       RandomCases(2 + static_cast<int>(seed % 3), 4, &random), &random);
    INFO("seed " << seed);
    int refused = 0;
    Play(&scene, &random, [&](int) {
      const absl::Status status = scene.group->DeliverDamaged(random());
      REQUIRE_FALSE(status.ok());
      if (status.code() == absl::StatusCode::kInvalidArgument) ++refused;
    });
    CHECK(refused > 0);
    for (const MemberForTest& member : scene.members) {
      REQUIRE(member.exchange() == scene.cases.size());
      REQUIRE(member.wrong() == 0);
    }
  }
}

TEST_CASE("bytes that are no message are refused") {
  FarMessage message;
  message.packet = 3;
  std::vector<std::byte> bytes(sizeof(message));
  std::memcpy(bytes.data(), &message, sizeof(message));
  REQUIRE(FarMessageFrom(bytes).ok());
  CHECK(*FarMessageFrom(bytes) == message);
  for (const size_t at : {0, 7}) {  // the magic, the kind
    std::vector<std::byte> damaged = bytes;
    damaged[at] ^= std::byte{0x10};
    CHECK_FALSE(FarMessageFrom(damaged).ok());
  }
  bytes.pop_back();
  CHECK_FALSE(FarMessageFrom(bytes).ok());
}

TEST_CASE("messages of a run before are dropped") {
  std::vector<FarMessage> sent;
  FarExchange exchange(MakeGroup(7, {0, 1}, /*self=*/0), {.first = 1000});
  const auto send = [&](const FarAction& action) { sent.push_back(action.message); };
  FarMessage late;
  late.communicator = 7;
  late.number = 999;
  late.from = 1;
  for (const uint32_t kind :
       {FarMessage::kEntered, FarMessage::kPull, FarMessage::kDone, FarMessage::kAbort}) {
    late.kind = kind;
    CHECK(exchange.Receive(late, send).ok());
  }
  late.kind = FarMessage::kPiece;
  REQUIRE(exchange.Arriving(late).ok());
  CHECK(exchange.Arriving(late)->empty());
  CHECK(sent.empty());
  CHECK(exchange.status().ok());
}

TEST_CASE("the planned window holds a piece of every member, for any far members") {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 random(seed);
    const int members = std::vector{2, 3, 4, 8}[seed % 4];
    const ExchangeCase c = RandomCases(members, 1, &random)[0];
    for (int m = 0; m < members; ++m) {
      std::vector<char> alone(members, 0);
      alone[m] = 1;
      const PlannedWork planned = PlanWork(c, alone, 1 << 20);
      INFO("seed " << seed << ": " << Describe(c));
      CHECK(planned.work.WindowBytes(m, c.accumulate) <= planned.workspace);
    }
  }
}

TEST_CASE(
    "one of several equal members requests packets; members that accumulate request separately") {
  for (const bool adds : {false, true}) {
    for (const auto& [kind, shared] :
         {std::pair("all_gather", true), {"all_reduce", true}, {"reduce_scatter", false}}) {
      std::mt19937_64 random(7);
      ExchangeCase c = RandomCase(kind, 4, &random);
      c.accumulate = adds;
      const bool sums = std::string(kind) != "all_gather";
      c.tensors.resize(1);
      c.tensors[0].mesh = Mesh{{{"x", 4}}};
      c.tensors[0].dims = {4000};
      c.tensors[0].from = {sums ? P() : S(0)};
      c.tensors[0].to = {std::string(kind) == "reduce_scatter" ? S(0) : B()};
      c.tensors[0].reduce = sums ? 1 : 0;
      const ExchangeWork work = PlanWork(c, {1, 0, 1, 0}, 100).work;
      int64_t wanted[4] = {}, copies = 0, copied = 0;
      for (int p = 0; p < work.pieces(); ++p) {
        const ExchangeWork::Piece piece = work.At(p);
        if (work.FarSources(piece) == 0) continue;
        (piece.is_copy ? copied : wanted[piece.member]) += piece.chunk.elements();
        copies += piece.copies * piece.chunk.elements();
      }
      INFO(kind << (adds ? ", adds" : ""));
      CHECK(wanted[0] > 0);
      CHECK(wanted[2] == (shared && !adds ? 0 : wanted[0]));
      CHECK(copied == (shared && !adds ? wanted[0] : 0));
      CHECK(copies == copied);
    }
  }
}

TEST_CASE("one member carries the pieces of all while the others do something else") {
  std::mt19937_64 random(1);
  ExchangeCase c = RandomCase("all_reduce", 3, &random);
  for (TensorCase& t : c.tensors) t.dims = {100'003};
  for (TensorCase& t : c.tensors) t.to = {B()};
  SceneForTest scene(CommunicatorMakers()[0], {c}, &random);
  std::string woken;
  scene.group->SetWake([&](int member) { woken += std::to_string(member); });
  for (const int m : {2, 0}) scene.members[m].Step(nullptr);
  CHECK(woken.empty());
  scene.members[1].Step(nullptr);
  CHECK(woken == "02");
  scene.members[0].Step(nullptr);
  CHECK(scene.members[0].over());
  CHECK(woken == "0212");
  for (const int m : {1, 2}) CHECK(scene.members[m].CanProgress());
}

TEST_CASE(
    "members that have entered different exchanges wait, each for the other, until an abort") {
  const auto communicator = MakeLocalCommunicator(2, 0);
  const ExchangeWork first, second;
  communicator->Enter(0, {&first});
  communicator->Enter(1, {&second});
  for (const int m : {0, 1}) {
    CHECK(communicator->Poll(m, nullptr) == Communicator::kWaiting);
    CHECK_FALSE(communicator->HasEntered(1 - m, m));
  }
  communicator->Abort(absl::CancelledError("as asked"));
  for (const int m : {0, 1}) CHECK(communicator->Poll(m, nullptr) == Communicator::kFailed);
}

TEST_CASE("without work it is over when all have entered") {
  const auto communicator = MakeLocalCommunicator(2, 0);
  const ExchangeWork none;
  communicator->Enter(0, {&none});
  CHECK(communicator->Poll(0, nullptr) == Communicator::kWaiting);
  communicator->Enter(1, {&none});
  CHECK(communicator->Poll(0, nullptr) == Communicator::kOver);
  CHECK(communicator->Poll(1, nullptr) == Communicator::kOver);
}

}  // namespace
}  // namespace oneflow

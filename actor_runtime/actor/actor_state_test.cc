// Scripts of messages: the messages an actor sends and when it may fire, without threads, kernels
// or a clock.
#include "actor_runtime/actor/actor_state.h"

#include <catch2/catch.hpp>

#include <map>
#include <set>
#include <string>

namespace oneflow {
namespace {

constexpr uint32_t kSource = 7, kReader = 9;  // actors at the far ends

ActorInput In(int k, int d, int s, int first, int n) {
  return {.fires_per_read = k,
          .initial_fills = d,
          .slots = s,
          .buffers = s,
          .first_source = first,
          .n_sources = n};
}

ActorOutput Out(int s, int f, ActorOutput::Mode mode, int n) {
  return {.slots = s,
          .buffers = s,
          .fires_per_fill = f,
          .mode = mode,
          .first_reader = 0,
          .n_readers = n};
}

// One actor under test, at rank 0, alone on its stream unless others are given. Its messages to
// other streams are printed as "filled 9@0:2 #5 slot 1".
class Script {
 public:
  explicit Script(const ActorSpec& spec, const std::vector<ActorSpec>& others = {})
      : table_(MakeTable(spec, others)), states_(InitialStates(table_)) {
    sends_.reserve(table_.peers.size());
  }

  bool can_fire(int32_t actor = 0) const { return CanFire(states_, actor); }
  const ActorStates& states() const { return states_; }
  const ActorTable& table() const { return table_; }
  const Launch& launch() const { return launch_; }
  // The buffers of the last launch.
  std::vector<int32_t> buffers() const {
    return {launch_.buffers, launch_.buffers + table_.actors[0].end_port};
  }
  bool drained() const { return IsDrained(table_, states_, 0); }

  void Filled(uint32_t port) { Get(Message::kFilled, port, filled_[port]++); }
  void Returned(uint32_t port) { Get(Message::kReturned, port, returned_[port]++); }

  void Issue() {
    REQUIRE(can_fire());
    launch_ = oneflow::Issue(table_, 0, &states_);
    CheckAll();
  }
  std::string Complete() {
    sends_.clear();
    oneflow::Complete(table_, 0, &states_, &sends_);
    CheckAll();
    std::string text;
    for (const int32_t peer : sends_) {
      const Message m = MessageTo(table_, states_, 0, peer);
      text += (m.kind == Message::kFilled ? "filled " : "returned ") + std::to_string(m.actor) +
              "@" + std::to_string(m.to_rank) + ":" + std::to_string(m.port) + " #" +
              std::to_string(m.sequence) + " slot " + std::to_string(m.slot) + "; ";
    }
    return text;
  }
  std::string Fire() {
    Issue();
    return Complete();
  }

 private:
  static ActorTable MakeTable(const ActorSpec& spec, const std::vector<ActorSpec>& others) {
    std::vector<const ActorSpec*> specs = {&spec};
    for (const ActorSpec& other : others) specs.push_back(&other);
    return MakeActorTable(specs);
  }
  void Get(Message::Kind kind, uint32_t port, uint64_t sequence) {
    Message message;
    message.actor = table_.actors[0].id;
    message.kind = kind;
    message.port = port;
    message.sequence = sequence;
    Receive(table_, message, 0, &states_);
    CheckAll();
  }
  void CheckAll() const {
    for (size_t a = 0; a < table_.actors.size(); ++a) {
      CHECK(CheckInvariants(table_, states_, static_cast<int32_t>(a)).ok());
    }
  }

  ActorTable table_;
  ActorStates states_;
  Launch launch_;
  std::vector<int32_t> sends_;
  std::map<uint32_t, uint64_t> filled_, returned_;  // messages given, by port
};

// An actor that only writes a register, for one reader, or only reads one, from one source.
ActorSpec Writer(const ActorOutput& output, const ActorPeer& reader = {.actor = kReader}) {
  ActorSpec spec;
  spec.outputs = {output};
  spec.readers = {reader};
  return spec;
}
ActorSpec Reader(const ActorInput& input) {
  ActorSpec spec;
  spec.inputs = {input};
  spec.sources = {{.actor = kSource}};
  return spec;
}

TEST_CASE("a writer stops when its two slots are full and goes on with a returned one") {
  Script a(Writer(Out(2, 1, ActorOutput::kFresh, 1), {.actor = kReader, .port = 3}));
  CHECK(a.Fire() == "filled 9@0:3 #0 slot 0; ");
  CHECK(a.Fire() == "filled 9@0:3 #1 slot 1; ");
  CHECK_FALSE(a.can_fire());
  CHECK(FindWaits(a.table(), a.states(), 0) == std::vector<FiringWait>{{true, 0, 0, 0, 1}});
  a.Returned(0);
  CHECK(a.Fire() == "filled 9@0:3 #2 slot 0; ");
  CHECK_FALSE(a.can_fire());
  CHECK_FALSE(a.drained());
  a.Returned(0);
  a.Returned(0);
  CHECK(a.drained());
}

TEST_CASE("every reader of a register must have returned it") {
  ActorSpec spec;
  spec.outputs = {Out(1, 1, ActorOutput::kFresh, 2)};
  spec.readers = {{.actor = kReader, .port = 0}, {.actor = kReader, .port = 1}};
  Script a(spec);
  CHECK(a.Fire() == "filled 9@0:0 #0 slot 0; filled 9@0:1 #0 slot 0; ");
  a.Returned(1);
  CHECK_FALSE(a.can_fire());
  a.Returned(0);
  CHECK(a.can_fire());
}

TEST_CASE("an input with several sources waits for each of them, and returns to each") {
  ActorSpec spec;
  spec.inputs = {In(1, 0, 1, 0, 3)};
  for (uint32_t port = 5; port < 8; ++port) {
    spec.sources.push_back({.actor = kSource, .port = port});
  }
  Script a(spec);
  a.Filled(2);
  a.Filled(0);
  CHECK_FALSE(a.can_fire());
  CHECK(FindWaits(a.table(), a.states(), 0) == std::vector<FiringWait>{{false, 1, 0, 0, 1}});
  a.Filled(1);
  CHECK(a.Fire() ==
        "returned 7@0:5 #0 slot 0; returned 7@0:6 #0 slot 0; returned 7@0:7 #0 slot 0; ");
  CHECK(a.drained());
}

TEST_CASE("accumulate: M firings make one fill, the first overwrites, credits are asked for once") {
  Script a(Writer(Out(1, 3, ActorOutput::kAccumulate, 1)));
  CHECK(a.Fire().empty());
  CHECK_FALSE(a.drained());
  a.Issue();
  CHECK(a.launch().accumulate);
  CHECK(a.Complete().empty());
  a.Issue();
  CHECK(a.launch().accumulate);
  CHECK(a.Complete() == "filled 9@0:0 #0 slot 0; ");
  CHECK_FALSE(a.can_fire());
  a.Returned(0);
  CHECK(a.drained());
  a.Issue();
  CHECK_FALSE(a.launch().accumulate);
  CHECK(a.launch().firing == 3);
  // An output that each firing overwrites does not accumulate.
  Script fresh(Writer(Out(1, 3, ActorOutput::kFresh, 1)));
  CHECK(fresh.Fire().empty());
  fresh.Issue();
  CHECK_FALSE(fresh.launch().accumulate);
}

TEST_CASE(
    "an update register: the reader has d = 1 and returns once in M firings; the writer waits for "
    "it") {
  Script reader(Reader(In(2, 1, 1, 0, 1)));
  CHECK(reader.Fire().empty());
  CHECK(reader.Fire() == "returned 7@0:0 #0 slot 0; ");
  CHECK_FALSE(reader.can_fire());  // the initial weights are used up

  ActorSpec writer_spec;  // reads the gradient, updates the weight
  writer_spec.actor = kSource;
  writer_spec.inputs = {In(1, 0, 1, 0, 1)};
  writer_spec.sources = {{.actor = 4, .port = 0}};
  writer_spec.outputs = {Out(1, 1, ActorOutput::kUpdate, 1)};
  writer_spec.readers = {{.actor = 0, .port = 0, .initial_fills = 1}};
  Script writer(writer_spec);
  writer.Filled(0);
  CHECK_FALSE(writer.can_fire());  // somebody still reads the old value
  writer.Returned(0);
  CHECK(writer.Fire() == "filled 0@0:0 #0 slot 0; returned 4@0:0 #0 slot 0; ");
  CHECK(writer.drained());
  reader.Filled(0);
  CHECK(reader.can_fire());
  CHECK(reader.drained());
}

TEST_CASE("two slots and d = 2 (two buffered weights): reads are two fills behind") {
  Script reader(Reader(In(1, 2, 2, 0, 1)));
  CHECK(reader.Fire() == "returned 7@0:0 #0 slot 0; ");
  CHECK(reader.Fire() == "returned 7@0:0 #1 slot 1; ");
  CHECK_FALSE(reader.can_fire());
  reader.Filled(0);
  reader.Issue();
  CHECK(reader.buffers() == std::vector<int32_t>{0});  // the writer's fill 0

  Script writer(Writer(Out(2, 1, ActorOutput::kUpdate, 1), {.actor = kReader, .initial_fills = 2}));
  CHECK_FALSE(writer.can_fire());  // both slots hold unread weights
  writer.Returned(0);
  writer.Issue();
  CHECK(writer.buffers() == std::vector<int32_t>{0});
  writer.Complete();
  CHECK_FALSE(writer.can_fire());
  writer.Returned(0);
  writer.Issue();
  CHECK(writer.buffers() == std::vector<int32_t>{1});
}

TEST_CASE("an input that nobody writes is always full and never returned") {
  ActorSpec spec;
  spec.inputs = {
      {.fires_per_read = 4, .initial_fills = 1, .slots = 2, .buffers = 2, .always_full = true}};
  Script a(spec);
  for (int i = 0; i < 9; ++i) {
    a.Issue();
    CHECK(a.buffers() == std::vector<int32_t>{1});
    CHECK(a.Complete().empty());
  }
  CHECK(a.drained());
}

TEST_CASE("peers on the same stream are notified at issue, others when the work is done") {
  // 1 -> 0 -> 3 on one stream; 0 also reads from 2 and writes to 4, elsewhere.
  ActorSpec source, spec, reader;
  source.actor = 1;
  source.outputs = {Out(1, 1, ActorOutput::kFresh, 1)};
  source.readers = {{.actor = 0, .port = 0, .when = NotifyWhen::kInOrder}};
  spec.inputs = {In(1, 0, 1, 0, 1), In(1, 0, 1, 1, 1)};
  spec.sources = {{.actor = 1, .port = 0, .when = NotifyWhen::kInOrder}, {.actor = 2, .port = 0}};
  spec.outputs = {Out(2, 1, ActorOutput::kFresh, 2)};
  spec.readers = {{.actor = 3, .port = 0, .when = NotifyWhen::kInOrder}, {.actor = 4, .port = 0}};
  reader.actor = 3;
  reader.inputs = {In(1, 0, 1, 0, 1)};
  reader.sources = {{.actor = 0, .port = 0, .when = NotifyWhen::kInOrder}};
  Script a(spec, {source, reader});
  constexpr int32_t kNearSource = 1, kNearReader = 2;
  a.Filled(1);
  CHECK_FALSE(a.can_fire());
  CHECK(a.can_fire(kNearSource));
  ActorStates states = a.states();
  Issue(a.table(), kNearSource, &states);
  CHECK(CanFire(states, 0));
  CHECK_FALSE(CanFire(states, kNearSource));
  Issue(a.table(), 0, &states);
  CHECK(CanFire(states, kNearSource));
  CHECK(CanFire(states, kNearReader));
  // The second input has given nothing back: its source may not fill it again before completion.
  std::vector<int32_t> sends;
  Complete(a.table(), 0, &states, &sends);
  REQUIRE(sends.size() == 2);
  CHECK(MessageTo(a.table(), states, 0, sends[0]).actor == 4);
  CHECK(MessageTo(a.table(), states, 0, sends[1]).actor == 2);
}

TEST_CASE("several firings may be issued before the first completes; they complete in order") {
  Script a(Writer(Out(2, 1, ActorOutput::kFresh, 1)));
  a.Issue();
  a.Issue();
  CHECK_FALSE(a.can_fire());
  CHECK(a.Complete() == "filled 9@0:0 #0 slot 0; ");
  CHECK(a.Complete() == "filled 9@0:0 #1 slot 1; ");
}

TEST_CASE("a fill of three firings in two slots: the slot moves with the fill") {
  Script a(Writer(Out(2, 3, ActorOutput::kAccumulate, 1)));
  std::vector<int32_t> buffers;
  std::string said;
  for (int i = 0; i < 6; ++i) {
    said += a.Fire();
    buffers.push_back(a.buffers()[0]);
  }
  CHECK(buffers == std::vector<int32_t>{0, 0, 0, 1, 1, 1});
  CHECK(said == "filled 9@0:0 #0 slot 0; filled 9@0:0 #1 slot 1; ");
  CHECK_FALSE(a.can_fire());
}

TEST_CASE("one slot in three buffers: one fill at a time, each in the next buffer") {
  Script a(Writer({.slots = 1, .buffers = 3, .first_buffer = 1, .n_readers = 1}));
  std::vector<int32_t> buffers;
  std::string said;
  for (int i = 0; i < 4; ++i) {
    said += a.Fire();
    buffers.push_back(a.buffers()[0]);
    CHECK_FALSE(a.can_fire());
    a.Returned(0);
  }
  CHECK(buffers == std::vector<int32_t>{1, 2, 0, 1});
  CHECK(said ==
        "filled 9@0:0 #0 slot 1; filled 9@0:0 #1 slot 2; filled 9@0:0 #2 slot 0; "
        "filled 9@0:0 #3 slot 1; ");
}

TEST_CASE("a broken state is named") {
  ActorSpec spec;
  spec.inputs = {In(1, 0, 1, 0, 1)};
  spec.sources = {{.actor = kSource, .port = 0}};
  spec.outputs = {Out(1, 1, ActorOutput::kFresh, 1)};
  spec.readers = {{.actor = kReader, .port = 0}};
  const Script a(spec);
  const auto broken = [&](auto change) {
    ActorStates states = a.states();
    change(&states);
    return std::string(CheckInvariants(a.table(), states, 0).message());
  };
  const std::string head = "actor 0 at rank 0: invariant ";
  CHECK(broken([](ActorStates* s) { s->counts[0].completed = 1; }) ==
        head + "1 of actor_state broken at firing 1");
  CHECK(broken([](ActorStates* s) { s->left[1] = 1; }) ==
        head + "1 of actor_state broken at port 1");
  CHECK(broken([](ActorStates* s) { s->tokens[0] = 2; }) ==  // two fills in one slot
        head + "2 of actor_state broken at source 0");
  CHECK(broken([](ActorStates* s) { s->tokens[1] = 2; }) ==  // returned before it was written
        head + "3 of actor_state broken at reader 0");
  CHECK(broken([](ActorStates* s) { s->tokens[1] = -1; }) ==  // overwritten before it was returned
        head + "4 of actor_state broken at reader 0");
  CHECK(broken([](ActorStates* s) { s->counts[0].waits = 0; }) ==
        head + "5 of actor_state broken at waits 0");
}

TEST_CASE("a LineVector shares no cache line with its neighbours") {
  std::vector<LineVector<int32_t>> vectors;
  std::set<uintptr_t> lines;
  for (int i = 0; i < 8; ++i) {
    vectors.emplace_back(1);
    const auto address = reinterpret_cast<uintptr_t>(vectors.back().data());
    CHECK(address % 64 == 0);
    lines.insert(address / 64);
  }
  CHECK(lines.size() == vectors.size());
}

TEST_CASE("Reset goes back to the initial marking") {
  Script a(Reader(In(2, 2, 2, 0, 1)));
  ActorStates states = a.states();
  for (int i = 0; i < 3; ++i) Issue(a.table(), 0, &states);
  CHECK_FALSE(states == a.states());
  Reset(a.table(), &states);
  CHECK(states == a.states());
}

}  // namespace
}  // namespace oneflow

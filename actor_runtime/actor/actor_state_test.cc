// Message scripts: what an actor says and when it may fire, without threads, kernels or a clock.
#include "actor_runtime/actor/actor_state.h"

#include <catch2/catch.hpp>

#include <string>

namespace oneflow {
namespace {

constexpr uint32_t kSource = 7, kReader = 9;  // actors at the far ends

ActorInput In(int k, int d, int s, int first, int n) {
  return {
      .fires_per_read = k, .initial_fills = d, .slots = s, .first_source = first, .n_sources = n};
}

ActorOutput Out(int s, int f, ActorOutput::Mode mode, int n) {
  return {.slots = s, .fires_per_fill = f, .mode = mode, .first_reader = 0, .n_readers = n};
}

// One actor under test, at rank 0. Sent messages are printed as "filled 9@0:2 #5 slot 1".
class Script {
 public:
  explicit Script(ActorSpec spec) : spec_(std::move(spec)), state_(InitialState(spec_)) {
    actions_.Reserve(spec_);
  }

  bool can_fire() const { return CanFire(spec_, state_); }
  const ActorState& state() const { return state_; }
  const ActorSpec& spec() const { return spec_; }
  const Launch& launch() const { return actions_.launches.at(0); }
  const std::vector<int32_t>& slots() const { return actions_.slots; }
  bool drained() const { return IsDrained(spec_, state_); }

  void Filled(uint32_t port) { Get(Message::kFilled, port, state_.filled[port]); }
  void Returned(uint32_t port) { Get(Message::kReturned, port, state_.returned[port]); }

  std::string Issue() {
    REQUIRE(can_fire());
    actions_.Clear();
    oneflow::Issue(spec_, &state_, &actions_);
    return Said();
  }
  std::string Complete() {
    actions_.Clear();
    oneflow::Complete(spec_, &state_, &actions_);
    return Said();
  }
  std::string Fire() {
    const std::string at_issue = Issue();
    return at_issue + Complete();
  }

 private:
  void Get(Message::Kind kind, uint32_t port, int64_t sequence) {
    Message message;
    message.actor = spec_.actor;
    message.to_rank = spec_.rank;
    message.kind = kind;
    message.port = port;
    message.sequence = sequence;
    Receive(spec_, message, &state_);
    CHECK(CheckInvariants(spec_, state_).ok());
  }
  std::string Said() {
    CHECK(CheckInvariants(spec_, state_).ok());
    std::string text;
    for (const Message& m : actions_.sends) {
      text += (m.kind == Message::kFilled ? "filled " : "returned ") + std::to_string(m.actor) +
              "@" + std::to_string(m.to_rank) + ":" + std::to_string(m.port) + " #" +
              std::to_string(m.sequence) + " slot " + std::to_string(m.slot) + "; ";
    }
    return text;
  }

  ActorSpec spec_;
  ActorState state_;
  Actions actions_;
};

TEST_CASE("a writer stops when its two slots are full and goes on with a returned one") {
  ActorSpec spec;
  spec.outputs = {Out(2, 1, ActorOutput::kFresh, 1)};
  spec.readers = {{.rank = 0, .actor = kReader, .port = 3}};
  Script a(spec);
  CHECK(a.Fire() == "filled 9@0:3 #0 slot 0; ");
  CHECK(a.Fire() == "filled 9@0:3 #1 slot 1; ");
  CHECK_FALSE(a.can_fire());
  CHECK(WaitsOf(a.spec(), a.state()) == std::vector<FiringWait>{{true, 0, 0, 0, 1}});
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
  spec.readers = {{.rank = 0, .actor = kReader, .port = 0},
                  {.rank = 1, .actor = kReader, .port = 0}};
  Script a(spec);
  CHECK(a.Fire() == "filled 9@0:0 #0 slot 0; filled 9@1:0 #0 slot 0; ");
  a.Returned(1);
  CHECK_FALSE(a.can_fire());
  a.Returned(0);
  CHECK(a.can_fire());
}

TEST_CASE("an input with several sources waits for each of them, and returns to each") {
  ActorSpec spec;
  spec.inputs = {In(1, 0, 1, 0, 3)};
  for (uint32_t rank = 0; rank < 3; ++rank)
    spec.sources.push_back({.rank = rank, .actor = kSource, .port = 5});
  Script a(spec);
  a.Filled(2);
  a.Filled(0);
  CHECK_FALSE(a.can_fire());
  CHECK(WaitsOf(a.spec(), a.state()) == std::vector<FiringWait>{{false, 0, 1, 0, 1}});
  a.Filled(1);
  CHECK(a.Fire() ==
        "returned 7@0:5 #0 slot 0; returned 7@1:5 #0 slot 0; returned 7@2:5 #0 slot 0; ");
  CHECK(a.drained());
}

TEST_CASE("accumulate: M firings make one fill, the first overwrites, credits are asked for once") {
  ActorSpec spec;
  spec.outputs = {Out(1, 3, ActorOutput::kAccumulate, 1)};
  spec.readers = {{.rank = 0, .actor = kReader, .port = 0}};
  Script a(spec);
  CHECK(a.Fire().empty());
  CHECK_FALSE(a.drained());
  CHECK(a.Issue().empty());
  CHECK(a.launch().accumulate);
  a.Complete();
  CHECK(a.Issue().empty());
  CHECK(a.launch().accumulate);
  CHECK(a.Complete() == "filled 9@0:0 #0 slot 0; ");
  CHECK_FALSE(a.can_fire());
  a.Returned(0);
  CHECK(a.drained());
  a.Issue();
  CHECK_FALSE(a.launch().accumulate);
  CHECK(a.launch().firing == 3);
}

TEST_CASE(
    "an update register: the reader has d = 1 and returns once in M firings; the writer waits for "
    "it") {
  ActorSpec reader_spec;
  reader_spec.inputs = {In(2, 1, 1, 0, 1)};
  reader_spec.sources = {{.rank = 0, .actor = kSource, .port = 0}};
  Script reader(reader_spec);
  CHECK(reader.Fire().empty());
  CHECK(reader.Fire() == "returned 7@0:0 #0 slot 0; ");
  CHECK_FALSE(reader.can_fire());  // the initial weights are used up

  ActorSpec writer_spec;  // reads the gradient, updates the weight
  writer_spec.actor = kSource;
  writer_spec.inputs = {In(1, 0, 1, 0, 1)};
  writer_spec.sources = {{.rank = 0, .actor = 4, .port = 0}};
  writer_spec.outputs = {Out(1, 1, ActorOutput::kUpdate, 1)};
  writer_spec.readers = {{.rank = 0, .actor = 0, .port = 0, .initial_fills = 1}};
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
  ActorSpec reader_spec;
  reader_spec.inputs = {In(1, 2, 2, 0, 1)};
  reader_spec.sources = {{.rank = 0, .actor = kSource, .port = 0}};
  Script reader(reader_spec);
  CHECK(reader.Fire() == "returned 7@0:0 #0 slot 0; ");
  CHECK(reader.Fire() == "returned 7@0:0 #1 slot 1; ");
  CHECK_FALSE(reader.can_fire());
  reader.Filled(0);
  reader.Issue();
  CHECK(reader.slots() == std::vector<int32_t>{0});  // the writer's fill 0

  ActorSpec writer_spec;
  writer_spec.outputs = {Out(2, 1, ActorOutput::kUpdate, 1)};
  writer_spec.readers = {{.rank = 0, .actor = kReader, .port = 0, .initial_fills = 2}};
  Script writer(writer_spec);
  CHECK_FALSE(writer.can_fire());  // both slots hold unread weights
  writer.Returned(0);
  writer.Issue();
  CHECK(writer.slots() == std::vector<int32_t>{0});
  writer.Complete();
  CHECK_FALSE(writer.can_fire());
  writer.Returned(0);
  writer.Issue();
  CHECK(writer.slots() == std::vector<int32_t>{1});
}

TEST_CASE("an input that nobody writes is always full and never returned") {
  ActorSpec spec;
  spec.inputs = {{.fires_per_read = 4, .initial_fills = 1, .slots = 2, .always_full = true}};
  Script a(spec);
  for (int i = 0; i < 9; ++i) {
    CHECK(a.Issue().empty());
    CHECK(a.slots() == std::vector<int32_t>{1});
    CHECK(a.Complete().empty());
  }
  CHECK(a.drained());
}

TEST_CASE("peers on the same stream are told at issue, others when the work is done") {
  ActorSpec spec;
  spec.inputs = {In(1, 0, 1, 0, 1), In(1, 0, 1, 1, 1)};
  spec.sources = {{.rank = 0, .actor = 1, .port = 0, .same_stream = true},
                  {.rank = 1, .actor = 2, .port = 0}};
  spec.outputs = {Out(2, 1, ActorOutput::kFresh, 2)};
  spec.readers = {{.rank = 0, .actor = 3, .port = 0, .same_stream = true},
                  {.rank = 1, .actor = 4, .port = 0}};
  Script a(spec);
  for (int i = 0; i < 2; ++i) {
    a.Filled(0);
    a.Filled(1);
    if (i == 0) CHECK(a.Issue() == "filled 3@0:0 #0 slot 0; returned 1@0:0 #0 slot 0; ");
    // The second input has given nothing back: its source may not fill it again before completion.
    if (i == 0) CHECK(a.Complete() == "filled 4@1:0 #0 slot 0; returned 2@1:0 #0 slot 0; ");
  }
  a.Issue();
  CHECK(a.state().issued == 2);
  CHECK(a.state().completed == 1);
  CHECK_FALSE(a.drained());
}

TEST_CASE("several firings may be issued before the first completes; they complete in order") {
  ActorSpec spec;
  spec.outputs = {Out(2, 1, ActorOutput::kFresh, 1)};
  spec.readers = {{.rank = 0, .actor = kReader, .port = 0}};
  Script a(spec);
  a.Issue();
  a.Issue();
  CHECK_FALSE(a.can_fire());
  CHECK(a.Complete() == "filled 9@0:0 #0 slot 0; ");
  CHECK(a.Complete() == "filled 9@0:0 #1 slot 1; ");
}

TEST_CASE("a broken state is named") {
  ActorSpec spec;
  spec.inputs = {In(1, 0, 1, 0, 1)};
  spec.sources = {{.rank = 0, .actor = kSource, .port = 0}};
  ActorState state = InitialState(spec);
  state.filled[0] = 2;  // two fills in one slot
  CHECK(std::string(CheckInvariants(spec, state).message()) ==
        "actor 0 at rank 0: invariant 2 of actor_state broken at source 0");
  Reset(&state);
  CHECK(state == InitialState(spec));
}

}  // namespace
}  // namespace oneflow

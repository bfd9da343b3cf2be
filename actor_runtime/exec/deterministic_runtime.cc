#include "actor_runtime/exec/deterministic_runtime.h"

#include <deque>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/actor/actor_state.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// One run: all states, and everything that could happen next.
class Game {
 public:
  Game(LoadedProgram& program, int64_t steps, int launch_queue, uint64_t seed)
      : program_(program),
        net_(program.net),
        steps_(steps),
        launch_queue_(launch_queue),
        random_(seed) {
    for (const ActorSpec& spec : net_.specs) states_.push_back(InitialState(spec));
    positions_.resize(net_.streams.size());
  }

  absl::Status Play() {
    for (;;) {
      ListChoices();
      if (choices_.empty()) break;
      const Choice choice = choices_[random_() % choices_.size()];
      switch (choice.kind) {
        case Choice::kIssue: RETURN_IF_ERROR(IssueNext(choice.index)); break;
        case Choice::kComplete: RETURN_IF_ERROR(CompleteNext(choice.index)); break;
        case Choice::kDeliver: RETURN_IF_ERROR(DeliverNext(choice.channel)); break;
      }
    }
    return CheckEnd();
  }

  int64_t firings() const { return firings_; }

 private:
  using Channel = std::pair<int32_t, int32_t>;  // from stream, to stream
  struct Position {
    size_t next = 0;
    int64_t step = 0;
    std::deque<int32_t> issued;  // actors, not completed
  };
  struct Choice {
    enum Kind { kIssue, kComplete, kDeliver };
    Kind kind;
    int32_t index = 0;  // stream
    Channel channel;
  };

  bool MayIssue(int32_t s) const {
    const Position& p = positions_[s];
    if (p.step == steps_ || static_cast<int>(p.issued.size()) >= launch_queue_) return false;
    const int32_t actor = net_.streams[s].firings[p.next];
    return CanFire(net_.specs[actor], states_[actor]);
  }

  void ListChoices() {
    choices_.clear();
    for (int32_t s = 0; s < static_cast<int32_t>(positions_.size()); ++s) {
      if (MayIssue(s)) choices_.push_back({Choice::kIssue, s});
      if (!positions_[s].issued.empty()) choices_.push_back({Choice::kComplete, s});
    }
    for (const auto& [channel, messages] : channels_) {
      if (!messages.empty()) choices_.push_back({Choice::kDeliver, 0, channel});
    }
  }

  absl::Status IssueNext(int32_t s) {
    Position& p = positions_[s];
    const int32_t actor = net_.streams[s].firings[p.next];
    actions_.Clear();
    Issue(net_.specs[actor], &states_[actor], &actions_);
    if (!program_.actors.empty()) {
      const absl::Status status = program_.actors[actor].Run(actions_.launches[0], actions_.slots);
      if (!status.ok()) return Annotate(status, net_.NameOf(actor));
    }
    Send(s);
    ++firings_;
    p.issued.push_back(actor);
    if (++p.next == net_.streams[s].firings.size()) {
      p.next = 0;
      ++p.step;
    }
    return CheckInvariants(net_.specs[actor], states_[actor]);
  }

  absl::Status CompleteNext(int32_t s) {
    const int32_t actor = positions_[s].issued.front();
    positions_[s].issued.pop_front();
    actions_.Clear();
    Complete(net_.specs[actor], &states_[actor], &actions_);
    Send(s);
    return CheckInvariants(net_.specs[actor], states_[actor]);
  }

  absl::Status DeliverNext(const Channel& channel) {
    std::deque<Message>& messages = channels_[channel];
    const Message message = messages.front();
    messages.pop_front();
    const int32_t actor = net_.ReceiverOf(message);
    Receive(net_.specs[actor], message, &states_[actor]);
    return CheckInvariants(net_.specs[actor], states_[actor]);
  }

  void Send(int32_t stream) {
    for (const Message& message : actions_.sends) {
      channels_[{stream, net_.stream_of[net_.ReceiverOf(message)]}].push_back(message);
    }
  }

  absl::Status CheckEnd() const {
    std::string waits;
    for (size_t s = 0; s < positions_.size(); ++s) {
      if (positions_[s].step < steps_)
        absl::StrAppend(&waits, waits.empty() ? "" : "; ", WhoWaits(s));
    }
    if (!waits.empty()) {
      return absl::InternalError(absl::StrCat("program ", net_.program, " is stuck after ",
                                              firings_, " firings: ", waits));
    }
    for (size_t a = 0; a < net_.specs.size(); ++a) {
      if (IsDrained(net_.specs[a], states_[a])) continue;
      return absl::InternalError(absl::StrCat("program ", net_.program, " ended, but ",
                                              net_.NameOf(static_cast<int32_t>(a)),
                                              " is not back at the initial marking"));
    }
    return absl::OkStatus();
  }

  // "actor b at rank 0, firing 2, waits for fill 2 of actor a at rank 1 (has 1)"
  std::string WhoWaits(size_t stream) const {
    const int32_t actor = net_.streams[stream].firings[positions_[stream].next];
    const ActorSpec& spec = net_.specs[actor];
    std::string text =
        absl::StrCat(net_.NameOf(actor), ", firing ", states_[actor].issued, ", waits");
    absl::string_view separator = " for ";
    for (const FiringWait& wait : WaitsOf(spec, states_[actor])) {
      const ActorPeer& peer = wait.for_return ? spec.readers[wait.peer] : spec.sources[wait.peer];
      absl::StrAppend(&text, separator, wait.for_return ? "return " : "fill ", wait.need, " of ",
                      net_.NameOf(net_.Find(peer.rank, peer.actor)), " (has ", wait.have, ")");
      separator = " and ";
    }
    return text;
  }

  LoadedProgram& program_;
  const ActorNet& net_;
  const int64_t steps_;
  const int launch_queue_;
  std::mt19937_64 random_;
  std::vector<ActorState> states_;
  std::vector<Position> positions_;  // by stream
  std::map<Channel, std::deque<Message>> channels_;
  std::vector<Choice> choices_;
  Actions actions_;
  int64_t firings_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeterministicRuntime>> DeterministicRuntime::Create(
    const proto::Plan& plan, const DeterministicOptions& options) {
  if (options.launch_queue < 1)
    return absl::InvalidArgumentError("launch_queue must be at least 1");
  const LoadOptions load{.threads = options.threads,
                         .make_kernel = options.make_kernel,
                         .prove = options.prove,
                         .own_kernels = options.own_kernels};
  ASSIGN_OR_RETURN(std::unique_ptr<LoadedPlan> loaded, LoadedPlan::Load(plan, load));
  return std::unique_ptr<DeterministicRuntime>(
      new DeterministicRuntime(std::move(loaded), options.launch_queue));
}

absl::Status DeterministicRuntime::Run(std::string_view program, const RunContext& context,
                                       int64_t steps, uint64_t seed) {
  ASSIGN_OR_RETURN(const int index, loaded_->FindProgram(program));
  LoadedProgram& of_program = loaded_->programs()[index];
  for (BoundActor& actor : of_program.actors) actor.Begin(&context);
  Game game(of_program, steps, launch_queue_, seed);
  const absl::Status status = game.Play();
  firings_ = game.firings();
  return status;
}

}  // namespace oneflow

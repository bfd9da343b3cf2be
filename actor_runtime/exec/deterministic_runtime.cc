#include "actor_runtime/exec/deterministic_runtime.h"

#include <deque>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/actor/actor_state.h"
#include "actor_runtime/exec/describe_wait.h"
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
    for (const StreamOrder& stream : net_.streams) states_.push_back(InitialStates(stream.table));
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
    FiringOrder::Cursor next = {};
    int64_t step = 0;
    std::deque<int32_t> issued;  // places in StreamOrder::actors; not completed
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
    return CanFire(states_[s], net_.streams[s].firings.PlaceAt(p.next));
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
    const StreamOrder& stream = net_.streams[s];
    const int32_t place = stream.firings.PlaceAt(p.next);
    const Launch launch = Issue(stream.table, place, &states_[s]);
    if (!program_.actors.empty()) {
      const absl::Status status = program_.actors[s][place].Run(launch);
      if (!status.ok()) return Annotate(status, net_.NameOf(stream.actors[place]));
    }
    ++firings_;
    p.issued.push_back(place);
    if (!stream.firings.Next(&p.next)) ++p.step;
    return CheckInvariants(stream.table, states_[s], place);
  }

  absl::Status CompleteNext(int32_t s) {
    const int32_t place = positions_[s].issued.front();
    positions_[s].issued.pop_front();
    const ActorTable& table = net_.streams[s].table;
    sends_.clear();
    Complete(table, place, &states_[s], &sends_);
    for (const int32_t peer : sends_) {
      const Message message = MessageTo(table, states_[s], place, peer);
      channels_[{s, net_.stream_of[net_.ReceiverOf(message)]}].push_back(message);
    }
    return CheckInvariants(table, states_[s], place);
  }

  absl::Status DeliverNext(const Channel& channel) {
    std::deque<Message>& messages = channels_[channel];
    const Message message = messages.front();
    messages.pop_front();
    const ActorTable& table = net_.streams[channel.second].table;
    const int32_t place = net_.place_of[net_.ReceiverOf(message)];
    Receive(table, message, place, &states_[channel.second]);
    return CheckInvariants(table, states_[channel.second], place);
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
      const int32_t s = net_.stream_of[a];
      if (IsDrained(net_.streams[s].table, states_[s], net_.place_of[a])) continue;
      return absl::InternalError(absl::StrCat("program ", net_.program, " ended, but ",
                                              net_.NameOf(static_cast<int32_t>(a)),
                                              " is not back at the initial marking"));
    }
    return absl::OkStatus();
  }

  std::string WhoWaits(size_t s) const {
    const StreamOrder& stream = net_.streams[s];
    return DescribeWait(net_, stream, stream.firings.PlaceAt(positions_[s].next), states_[s]);
  }

  LoadedProgram& program_;
  const ActorNet& net_;
  const int64_t steps_;
  const int launch_queue_;
  std::mt19937_64 random_;
  std::vector<ActorStates> states_;  // by stream
  std::vector<Position> positions_;  // by stream
  std::map<Channel, std::deque<Message>> channels_;
  std::vector<Choice> choices_;
  std::vector<int32_t> sends_;
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
  for (std::vector<BoundActor>& of_stream : of_program.actors) {
    for (BoundActor& actor : of_stream) actor.Begin(&context);
  }
  Game game(of_program, steps, launch_queue_, seed);
  const absl::Status status = game.Play();
  firings_ = game.firings();
  return status;
}

}  // namespace oneflow

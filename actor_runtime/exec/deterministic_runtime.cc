#include "actor_runtime/exec/deterministic_runtime.h"

#include <algorithm>
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

// One run: all states, and all events that could come next.
class Game {
 public:
  Game(const LoadedPlan& plan, LoadedProgram& program, int64_t steps, int launch_queue,
       bool in_order, uint64_t seed)
      : program_(program),
        net_(program.net),
        communicators_(*plan.MakeCommunicators(/*run=*/0)),  // of CPUs, so it cannot fail
        steps_(steps),
        launch_queue_(launch_queue),
        in_order_(in_order),
        random_(seed),
        turns_(net_.issues.size()) {
    for (const StreamOrder& stream : net_.streams) states_.push_back(InitialStates(stream.table));
    positions_.resize(net_.streams.size());
    for (size_t g = 0; g < net_.groups.size(); ++g) {
      for (size_t m = 0; m < net_.groups[g].ranks.size(); ++m) {
        seat_of_[{g, m}] = static_cast<int32_t>(seats_.size());
        seats_.push_back({communicators_[program.communicator_of[g]].get(), static_cast<int>(m),
                          net_.groups[g].ranks[m]});
      }
    }
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
        case Choice::kPoll: PollSeat(&seats_[choice.index]); break;
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
    std::deque<int32_t> issued;  // indices in StreamOrder::actors; not completed
  };
  // A member of a communicator. Exchanges that its stream has issued enter one after the other.
  struct Entry {
    const ExchangeWork* work = nullptr;
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    bool accumulate = false;
    std::span<std::byte> workspace = {};
  };
  struct Seat {
    Communicator* communicator;
    int member;
    int32_t rank;
    std::deque<Entry> entries = {};   // issued and not over; the first has entered
    int64_t over = 0, completed = 0;  // exchanges
  };
  // A turn in a device's order of issue.
  struct Turn {
    FiringOrder::Cursor next = {};
    bool issued = false;
  };
  struct Choice {
    enum Kind { kIssue, kComplete, kDeliver, kPoll };
    Kind kind;
    int32_t index = 0;  // stream, or seat
    Channel channel;
  };

  bool MayIssue(int32_t s) const {
    const Position& p = positions_[s];
    if (p.step == steps_ || static_cast<int>(p.issued.size()) >= launch_queue_) return false;
    const StreamOrder& stream = net_.streams[s];
    const int32_t index = stream.firings.IndexAt(p.next);
    return CanFire(states_[s], index) && HasTurn(stream.rank, stream.actors[index]);
  }

  // True for an actor that is no exchange, and for the exchange that its device issues next.
  bool HasTurn(uint32_t rank, int32_t actor) const {
    if (!in_order_ || net_.member_of[actor].exchange < 0) return true;
    const IssueOrder& issue = net_.issues[rank];
    const Turn& turn = turns_[rank];
    return !issue.actors.empty() && !turn.issued &&
           issue.actors[issue.firings.IndexAt(turn.next)] == actor;
  }

  // Ends the turn of an exchange on a device.
  void EndTurn(int32_t rank) {
    if (!in_order_) return;
    turns_[rank].issued = false;
    net_.issues[rank].firings.Next(&turns_[rank].next);
  }

  // An exchange completes only once it is over.
  bool MayComplete(int32_t s) {
    if (positions_[s].issued.empty()) return false;
    const Seat* seat = FindSeat(net_.streams[s].actors[positions_[s].issued.front()]);
    return seat == nullptr || seat->completed < seat->over;
  }

  // Null for an actor that is no exchange.
  Seat* FindSeat(int32_t actor) {
    const ExchangeMember member = net_.member_of[actor];
    if (member.exchange < 0) return nullptr;
    return &seats_[seat_of_.at({net_.exchanges[member.exchange].group, member.index})];
  }

  void ListChoices() {
    choices_.clear();
    for (int32_t s = 0; s < static_cast<int32_t>(positions_.size()); ++s) {
      if (MayIssue(s)) choices_.push_back({Choice::kIssue, s});
      if (MayComplete(s)) choices_.push_back({Choice::kComplete, s});
    }
    for (int32_t i = 0; i < static_cast<int32_t>(seats_.size()); ++i) {
      const Seat& seat = seats_[i];
      if (!seat.entries.empty() && seat.communicator->CanProgress(seat.member))
        choices_.push_back({Choice::kPoll, i});
    }
    for (const auto& [channel, messages] : channels_) {
      if (!messages.empty()) choices_.push_back({Choice::kDeliver, 0, channel});
    }
  }

  absl::Status IssueNext(int32_t s) {
    Position& p = positions_[s];
    const StreamOrder& stream = net_.streams[s];
    const int32_t index = stream.firings.IndexAt(p.next);
    const Launch launch = Issue(stream.table, index, &states_[s]);
    if (Seat* seat = FindSeat(stream.actors[index])) {
      EnterExchange(seat, s, index, launch);
    } else if (!program_.actors.empty()) {
      const absl::Status status = program_.actors[s][index].Run(launch);
      if (!status.ok()) return Annotate(status, net_.ActorName(stream.actors[index]));
    }
    ++firings_;
    p.issued.push_back(index);
    // For asynchronous devices only tokens are played: an event has come as soon as it is
    // announced.
    sends_.clear();
    Announce(stream.table, states_[s], index, &sends_);
    Tell(s, index);
    if (!stream.firings.Next(&p.next)) ++p.step;
    return CheckInvariants(stream.table, states_[s], index);
  }

  void EnterExchange(Seat* seat, int32_t s, int32_t index, const Launch& launch) {
    if (in_order_) turns_[seat->rank].issued = true;
    const int32_t exchange = net_.member_of[net_.streams[s].actors[index]].exchange;
    Entry& entry = seat->entries.emplace_back();
    entry.work = &program_.works[exchange];
    if (!program_.actors.empty()) {
      const BoundActor::Addresses addresses = program_.actors[s][index].FindAddresses(launch);
      entry.in.assign(addresses.in.begin(), addresses.in.end());
      entry.out.assign(addresses.out.begin(), addresses.out.end());
      entry.accumulate = launch.accumulate;
      entry.workspace = addresses.workspace;
    }
    if (seat->entries.size() == 1) EnterFirst(seat);
  }

  static void EnterFirst(Seat* seat) {
    const Entry& entry = seat->entries.front();
    seat->communicator->Enter(seat->member,
                              {entry.work, entry.in, entry.out, entry.accumulate, entry.workspace});
  }

  void PollSeat(Seat* seat) {
    if (seat->communicator->Poll(seat->member, nullptr) != Communicator::kOver) return;
    ++seat->over;
    seat->entries.pop_front();
    if (!seat->entries.empty()) EnterFirst(seat);
    EndTurn(seat->rank);
  }

  absl::Status CompleteNext(int32_t s) {
    const int32_t index = positions_[s].issued.front();
    positions_[s].issued.pop_front();
    if (Seat* seat = FindSeat(net_.streams[s].actors[index])) ++seat->completed;
    const ActorTable& table = net_.streams[s].table;
    sends_.clear();
    Complete(table, index, &states_[s], &sends_);
    Tell(s, index);
    return CheckInvariants(table, states_[s], index);
  }

  void Tell(int32_t s, int32_t index) {
    for (const int32_t peer : sends_) {
      const Message message = MessageTo(net_.streams[s].table, states_[s], index, peer);
      channels_[{s, net_.stream_of[net_.FindReceiver(message)]}].push_back(message);
    }
  }

  absl::Status DeliverNext(const Channel& channel) {
    std::deque<Message>& messages = channels_[channel];
    const Message message = messages.front();
    messages.pop_front();
    const ActorTable& table = net_.streams[channel.second].table;
    const int32_t index = net_.index_in_stream[net_.FindReceiver(message)];
    Receive(table, message, index, &states_[channel.second]);
    return CheckInvariants(table, states_[channel.second], index);
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
      if (IsDrained(net_.streams[s].table, states_[s], net_.index_in_stream[a])) continue;
      return absl::InternalError(absl::StrCat("program ", net_.program, " ended, but ",
                                              net_.ActorName(static_cast<int32_t>(a)),
                                              " is not back at the initial marking"));
    }
    return absl::OkStatus();
  }

  std::string WhoWaits(size_t s) const {
    const StreamOrder& stream = net_.streams[s];
    const Position& p = positions_[s];
    if (!p.issued.empty()) {  // nothing else is left uncompleted
      return net_.ActorName(stream.actors[p.issued.front()]) + ", has entered its exchange";
    }
    return DescribeWait(net_, stream, stream.firings.IndexAt(p.next), states_[s]);
  }

  LoadedProgram& program_;
  const ActorNet& net_;
  const std::vector<std::unique_ptr<Communicator>> communicators_;
  const int64_t steps_;
  const int launch_queue_;
  const bool in_order_;
  std::mt19937_64 random_;
  std::vector<Turn> turns_;          // by rank
  std::vector<ActorStates> states_;  // by stream
  std::vector<Position> positions_;  // by stream
  std::vector<Seat> seats_;
  std::map<std::pair<int32_t, int32_t>, int32_t> seat_of_;  // by group and member
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
      new DeterministicRuntime(std::move(loaded), options));
}

absl::Status DeterministicRuntime::Run(std::string_view program, const RunContext& context,
                                       int64_t steps, uint64_t seed) {
  ASSIGN_OR_RETURN(const int index, loaded_->FindProgram(program));
  LoadedProgram& of_program = loaded_->programs()[index];
  for (std::vector<BoundActor>& of_stream : of_program.actors) {
    for (BoundActor& actor : of_stream) actor.Begin(&context);
  }
  Game game(*loaded_, of_program, steps, launch_queue_, in_order_, seed);
  const absl::Status status = game.Play();
  firings_ = game.firings();
  return status;
}

}  // namespace oneflow

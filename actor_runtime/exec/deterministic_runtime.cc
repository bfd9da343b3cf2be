#include "actor_runtime/exec/deterministic_runtime.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
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
  Game(LoadedProgram& program, int64_t steps, int launch_queue, bool in_order, uint64_t seed)
      : program_(program),
        net_(program.net),
        steps_(steps),
        launch_queue_(launch_queue),
        in_order_(in_order),
        random_(seed),
        turns_(net_.issues.size()) {
    for (const StreamOrder& stream : net_.streams) states_.push_back(InitialStates(stream.table));
    positions_.resize(net_.streams.size());
    for (const NetExchange& exchange : net_.exchanges) {
      gatherings_.emplace_back().entries.resize(exchange.members.size());
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
        case Choice::kCarry: Carry(choice.index); break;
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
  // An exchange: what its members have entered with and nobody has carried, and how often all have
  // been carried.
  struct Entry {
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    bool accumulate = false;
  };
  struct Gathering {
    std::vector<std::deque<Entry>> entries;  // by member
    int64_t carried = 0;
    bool HasAll() const {
      return std::none_of(entries.begin(), entries.end(),
                          [](const std::deque<Entry>& of) { return of.empty(); });
    }
  };
  // Of a device's order of issue.
  struct Turn {
    FiringOrder::Cursor next = {};
    bool issued = false;
  };
  struct Choice {
    enum Kind { kIssue, kComplete, kDeliver, kCarry };
    Kind kind;
    int32_t index = 0;  // stream, or exchange
    Channel channel;
  };

  bool MayIssue(int32_t s) const {
    const Position& p = positions_[s];
    if (p.step == steps_ || static_cast<int>(p.issued.size()) >= launch_queue_) return false;
    const StreamOrder& stream = net_.streams[s];
    const int32_t place = stream.firings.PlaceAt(p.next);
    return CanFire(states_[s], place) && HasTurn(stream.rank, stream.actors[place]);
  }

  // Whether an actor is no exchange, or the one that its device issues next.
  bool HasTurn(uint32_t rank, int32_t actor) const {
    if (!in_order_ || net_.member_of[actor].exchange < 0) return true;
    const IssueOrder& issue = net_.issues[rank];
    const Turn& turn = turns_[rank];
    return !issue.actors.empty() && !turn.issued &&
           issue.actors[issue.firings.PlaceAt(turn.next)] == actor;
  }

  // The exchange whose turn it was on a device has been carried.
  void EndTurn(uint32_t rank) {
    if (!in_order_) return;
    turns_[rank].issued = false;
    net_.issues[rank].firings.Next(&turns_[rank].next);
  }

  // Of an exchange, only once it has been carried for this firing.
  bool MayComplete(int32_t s) const {
    if (positions_[s].issued.empty()) return false;
    const int32_t place = positions_[s].issued.front();
    const int32_t exchange = net_.member_of[net_.streams[s].actors[place]].exchange;
    return exchange < 0 || states_[s].counts[place].completed < gatherings_[exchange].carried;
  }

  void ListChoices() {
    choices_.clear();
    for (int32_t s = 0; s < static_cast<int32_t>(positions_.size()); ++s) {
      if (MayIssue(s)) choices_.push_back({Choice::kIssue, s});
      if (MayComplete(s)) choices_.push_back({Choice::kComplete, s});
    }
    for (int32_t x = 0; x < static_cast<int32_t>(gatherings_.size()); ++x) {
      if (gatherings_[x].HasAll()) choices_.push_back({Choice::kCarry, x});
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
    const ExchangeMember member = net_.member_of[stream.actors[place]];
    if (member.exchange >= 0) {
      Enter(member, s, place, launch);
    } else if (!program_.actors.empty()) {
      const absl::Status status = program_.actors[s][place].Run(launch);
      if (!status.ok()) return Annotate(status, net_.NameOf(stream.actors[place]));
    }
    ++firings_;
    p.issued.push_back(place);
    if (!stream.firings.Next(&p.next)) ++p.step;
    return CheckInvariants(stream.table, states_[s], place);
  }

  void Enter(const ExchangeMember& member, int32_t s, int32_t place, const Launch& launch) {
    if (in_order_) turns_[net_.streams[s].rank].issued = true;
    Entry& entry = gatherings_[member.exchange].entries[member.index].emplace_back();
    if (program_.actors.empty()) return;
    const BoundActor::Addresses addresses = program_.actors[s][place].AddressesOf(launch);
    entry.in.assign(addresses.in.begin(), addresses.in.end());
    entry.out.assign(addresses.out.begin(), addresses.out.end());
    entry.accumulate = launch.accumulate;
  }

  // All members have entered. Pieces are taken in an order that is drawn.
  void Carry(int32_t x) {
    Gathering& gathering = gatherings_[x];
    const ExchangeWork& work = program_.exchanges[x]->work();
    const int members = static_cast<int>(gathering.entries.size());
    ExchangeEntries entries(std::max(1, work.tensors()), members);
    for (int m = 0; m < members; ++m) {
      const Entry& entry = gathering.entries[m].front();
      for (size_t t = 0; t < entry.in.size(); ++t) entries.in[t * members + m] = entry.in[t];
      for (size_t t = 0; t < entry.out.size(); ++t) entries.out[t * members + m] = entry.out[t];
      entries.accumulate[m] = entry.accumulate ? 1 : 0;
      gathering.entries[m].pop_front();
    }
    std::vector<int> pieces(work.pieces());
    std::iota(pieces.begin(), pieces.end(), 0);
    std::shuffle(pieces.begin(), pieces.end(), random_);
    for (const int piece : pieces) work.Run(piece, entries);
    ++gathering.carried;
    for (const int32_t member : net_.exchanges[x].members) EndTurn(net_.specs[member].rank);
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
    const Position& p = positions_[s];
    if (!p.issued.empty()) {  // nothing else is left uncompleted
      return net_.NameOf(stream.actors[p.issued.front()]) + ", has entered its exchange";
    }
    return DescribeWait(net_, stream, stream.firings.PlaceAt(p.next), states_[s]);
  }

  LoadedProgram& program_;
  const ActorNet& net_;
  const int64_t steps_;
  const int launch_queue_;
  const bool in_order_;
  std::mt19937_64 random_;
  std::vector<Turn> turns_;            // by rank
  std::vector<ActorStates> states_;    // by stream
  std::vector<Position> positions_;    // by stream
  std::vector<Gathering> gatherings_;  // by exchange
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
  Game game(of_program, steps, launch_queue_, in_order_, seed);
  const absl::Status status = game.Play();
  firings_ = game.firings();
  return status;
}

}  // namespace oneflow

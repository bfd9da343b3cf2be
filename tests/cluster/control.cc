#include "tests/cluster/control.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace oneflow::cluster {
namespace {

constexpr JobTime kRetry = 20 * kMillisecond;
// Delay until a program learns that it reaches nobody.
constexpr JobTime kUnreachable = 2 * kJobSecond;

}  // namespace

void ControlStream::Send(Direction direction, std::function<void()> arrive) {
  Way& way = ends_[direction];
  way.queue.push_back(std::move(arrive));
  Simulation& simulation = network_.simulation;
  way.last = std::max(way.last, simulation.now() + network_.DrawDelay());
  simulation.After(way.last - simulation.now(),
                   [self = shared_from_this(), direction] { self->Pump(direction); });
}

void ControlStream::Pump(Direction direction) {
  Way& way = ends_[direction];
  if (!network_.links.AreUp(way.from->host(), way.to->host())) {
    network_.simulation.After(kRetry,
                              [self = shared_from_this(), direction] { self->Pump(direction); });
    return;
  }
  way.to->After(0, std::move(way.queue.front()));
  way.queue.pop_front();
}

ControlMember::ControlMember(ControlNetwork& network, Life& life, MemberStateOptions options,
                             JobTime silence, Callbacks callbacks)
    : network_(network),
      life_(life),
      process_(options.self.process),
      attempt_(options.self.attempt),
      silence_(silence),
      callbacks_(std::move(callbacks)),
      clock_((1000 + 77 * life.host()) * kJobSecond),
      state_(options, Now()) {
  if (process_ != 0) return;
  coordinator_.emplace(
      CoordinatorOptions{.self = options.self, .join = options.join, .silence = silence}, Now());
  connections_.emplace_back();
  // The address leads to the newest attempt.
  const ControlMember* const other = network_.listening;
  if (other == nullptr || other->gone_ || other->attempt_ <= attempt_) network_.listening = this;
}

ControlMember::~ControlMember() {
  if (network_.listening == this) network_.listening = nullptr;
}

void ControlMember::Start() {
  Do([&](auto emit) { state_.Start(Now(), emit); });
  Tick();
}

void ControlMember::Tick() {
  if (gone_) return;
  if (!network_.faults.suspend_beats || !joined_) {
    Do([&](auto emit) { state_.Tick(Now(), emit); });
  }
  if (coordinator_) {
    DoAtCoordinator([&](auto emit) { coordinator_->Tick(Now(), emit); });
  }
  life_.After(state_.TickEvery(), [this] { Tick(); });
}

template <typename Event>
void ControlMember::Do(Event event) {
  if (gone_) return;
  event([&](MemberAction action) { actions_.push_back(std::move(action)); });
  if (std::exchange(performing_, true)) return;
  while (!actions_.empty()) {
    MemberAction action = std::move(actions_.front());
    actions_.pop_front();
    Perform(std::move(action));
  }
  performing_ = false;
}

template <typename Event>
void ControlMember::DoAtCoordinator(Event event) {
  event([&](CoordinatorAction action) { coordinator_actions_.push_back(std::move(action)); });
  if (std::exchange(coordinating_, true)) return;
  while (!coordinator_actions_.empty()) {
    CoordinatorAction action = std::move(coordinator_actions_.front());
    coordinator_actions_.pop_front();
    Perform(std::move(action));
  }
  coordinating_ = false;
}

// On the thread of callbacks: in order, some time later.
void ControlMember::Later(std::function<void()> callback) {
  const JobTime now = life_.simulation().now();
  callback_at_ = std::max(callback_at_, now + life_.simulation().Between(0, kMillisecond));
  life_.After(callback_at_ - now, std::move(callback));
}

void ControlMember::Perform(MemberAction action) {
  if (over_) {
    life_.simulation().Violate(absl::StrCat("process ", process_, " acts after its end"));
  }
  switch (action.kind) {
    case MemberAction::kConnect: return Connect(action.stream);
    case MemberAction::kSend:
      if (coordinator_) {
        return DoAtCoordinator([&](auto emit) {
          coordinator_->Receive(Coordinator::kLocalConnection, action.message, Now(), emit);
        });
      }
      if (stream_ == nullptr) return;
      if (network_.faults.accept_older_attempts && action.message.has_present()) {
        action.message.mutable_present()->set_attempt(std::max(attempt_, server_->attempt_));
      }
      return stream_->Send(ControlStream::kUp, [server = server_, connection = connection_,
                                                message = std::move(action.message)] {
        server->DoAtCoordinator([&](auto emit) {
          server->coordinator_->Receive(connection, message, server->Now(), emit);
        });
      });
    case MemberAction::kDisconnect:
      if (coordinator_) {
        return DoAtCoordinator(
            [&](auto emit) { coordinator_->Close(Coordinator::kLocalConnection, Now(), emit); });
      }
      if (stream_ == nullptr) return;
      return stream_->Send(ControlStream::kUp, [server = server_, connection = connection_] {
        server->CloseAt(connection);
      });
    case MemberAction::kFreeze:
      return Later([this] {
        const StepPosition position = callbacks_.freeze();
        Do([&](auto emit) { state_.Frozen(position, emit); });
        if (network_.faults.stop_unagreed) callbacks_.stop_at(position);
        callbacks_.changed();
      });
    case MemberAction::kStopAt:
      if (network_.faults.stop_unagreed) return;
      return Later([this, position = action.position] {
        callbacks_.stop_at(position);
        callbacks_.changed();
      });
    case MemberAction::kJoined: joined_ = true; break;
    case MemberAction::kWaits:
    case MemberAction::kValue: break;
    case MemberAction::kAnswer:
      if (action.status.ok()) {
        answer_.emplace(std::move(action.value));
      } else {
        answer_.emplace(action.status);
      }
      break;
    case MemberAction::kLeft: over_ = true; break;
    case MemberAction::kEnd:
      over_ = true;
      if (joined_) {
        Later([this, why = action.status] {
          callbacks_.on_end(why);
          callbacks_.changed();
        });
      }
      break;
  }
  callbacks_.changed();
}

void ControlMember::Connect(uint64_t number) {
  if (coordinator_) {
    return DoAtCoordinator([&](auto) { coordinator_->Open(Coordinator::kLocalConnection, Now()); });
  }
  ControlMember* const server = network_.listening;
  stream_ = nullptr;
  server_ = nullptr;
  if (server == nullptr || server->gone_ ||
      !network_.links.AreUp(life_.host(), server->life_.host())) {
    life_.After(server == nullptr || server->gone_ ? network_.DrawDelay() : kUnreachable,
                [this, number] {
                  Do([&](auto emit) { state_.Lose(number, "nobody listens", Now(), emit); });
                });
    return;
  }
  stream_ = std::make_shared<ControlStream>(network_, life_, server->life_);
  server_ = server;
  connection_ = server->connections_.size();
  server->connections_.push_back({stream_, this, number});
  stream_->Send(ControlStream::kUp, [server, connection = connection_] {
    server->DoAtCoordinator([&](auto) { server->coordinator_->Open(connection, server->Now()); });
  });
}

// The coordinator's end of a stream finds it closed, by either.
void ControlMember::CloseAt(uint64_t connection) {
  if (std::exchange(connections_[connection].reported, true)) return;
  DoAtCoordinator([&](auto emit) { coordinator_->Close(connection, Now(), emit); });
}

void ControlMember::Perform(CoordinatorAction action) {
  if (action.kind == CoordinatorAction::kReport) {
    return Later([this, report = std::move(action.report)] {
      callbacks_.on_report(report.run(), report.step(),
                           {report.value().data(), static_cast<size_t>(report.value_size())});
      callbacks_.changed();
    });
  }
  if (action.kind == CoordinatorAction::kNote) return;
  if (action.kind == CoordinatorAction::kRound) {
    round_ = action.number;
    parts_ = std::move(action.parts);
    return callbacks_.changed();
  }
  const uint64_t connection = action.connection;
  if (connection == Coordinator::kLocalConnection) {
    if (action.kind == CoordinatorAction::kClose) return;
    return Do([&](auto emit) { state_.Receive(1, action.message, Now(), emit); });
  }
  const Connection& to = connections_[connection];
  ControlMember* const member = to.member;
  if (action.kind == CoordinatorAction::kSend) {
    return to.stream->Send(ControlStream::kDown, [member, number = to.number,
                                                  message = std::move(action.message)] {
      member->Do([&](auto emit) { member->state_.Receive(number, message, member->Now(), emit); });
    });
  }
  to.stream->Send(ControlStream::kDown, [this, member, number = to.number, connection] {
    member->Do([&](auto emit) {
      member->state_.Lose(number, "the stream was closed", member->Now(), emit);
    });
    connections_[connection].stream->Send(ControlStream::kUp,
                                          [this, connection] { CloseAt(connection); });
  });
}

void ControlMember::Disappear() {
  if (std::exchange(gone_, true)) return;
  if (stream_ != nullptr) {
    stream_->Send(ControlStream::kUp,
                  [server = server_, connection = connection_] { server->CloseAt(connection); });
  }
  for (const Connection& to : connections_) {
    if (to.stream == nullptr) continue;
    to.stream->Send(ControlStream::kDown, [member = to.member, number = to.number] {
      member->Do(
          [&](auto emit) { member->state_.Lose(number, "broken pipe", member->Now(), emit); });
    });
  }
}

bool ControlMember::MayWrite() const {
  return network_.faults.write_without_lease ||
         (Now() < state_.LeaseUntil() && (!coordinator_ || Now() < coordinator_->LeaseUntil()));
}

void ControlMember::Begins(uint64_t run, std::string_view program, int64_t first_step,
                           int64_t steps) {
  Do([&](auto emit) { state_.Begin(run, program, first_step, steps, emit); });
}

void ControlMember::AskStop() {
  Do([&](auto emit) { state_.AskStop(emit); });
}

void ControlMember::Report(uint64_t run, int64_t step, std::span<const double> values) {
  Do([&](auto emit) { state_.Report(run, step, values.data(), values.size(), emit); });
}

void ControlMember::Fail(const absl::Status& why) {
  Do([&](auto emit) { state_.Fail(why, Now(), emit); });
}

void ControlMember::Leave() {
  Do([&](auto emit) { state_.Leave(emit); });
}

void ControlMember::StartRound(const std::string& name, std::string part) {
  Do([&](auto emit) { state_.Round(name, std::move(part), emit); });
}

std::optional<std::vector<std::string>> ControlMember::TakeParts() {
  return std::exchange(parts_, std::nullopt);
}

std::optional<absl::StatusOr<std::string>> ControlMember::TakeAnswer() {
  return std::exchange(answer_, std::nullopt);
}

void ControlMember::AnswerRound(const absl::StatusOr<std::string>& answer) {
  DoAtCoordinator([&](auto emit) { coordinator_->AnswerRound(round_, answer, Now(), emit); });
}

}  // namespace oneflow::cluster

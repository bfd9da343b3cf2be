#include "tests/cluster/network.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/network/shared_communicator.h"
#include "oneflow_core/base/cause.h"

namespace oneflow::cluster {
namespace {

// Time between two tries of a message over a link that is cut.
constexpr JobTime kRetry = 20 * kMillisecond;

}  // namespace

JobTime Network::DrawDelay() {
  const JobTime delay = simulation_.Between(delays_.least, delays_.most);
  return simulation_.OneIn(delays_.late_once_in) ? 10 * delay : delay;
}

void Network::Add(const std::shared_ptr<Endpoint>& endpoint) {
  std::shared_ptr<Endpoint>& has_address = endpoints_[endpoint->process()];
  if (has_address == nullptr || has_address->attempt() <= endpoint->attempt()) {
    has_address = endpoint;
  }
}

// A piece on its way. Each end lets go of it once.
struct Endpoint::Flight {
  FarAction action;
  std::shared_ptr<Endpoint> from, to;
  std::shared_ptr<FarCommunicator> sender, receiver;  // null: it has let go
  std::vector<std::span<const std::byte>> rows;       // of the source's memory
  std::span<std::byte> target, also;                  // `also`: a planted fault
  size_t copied = 0;
  bool arrived = false;  // has been said

  void LetGoAtSource() {
    if (auto of = std::exchange(sender, nullptr)) of->Sent();
  }
  void LetGoAtReader() {
    const auto of = std::exchange(receiver, nullptr);
    if (of != nullptr && !arrived) of->Arrived(action.message);
  }
  bool over() const { return sender == nullptr && receiver == nullptr; }
};

Endpoint::Endpoint(Network& network, Life& life, int process, uint64_t job, uint32_t attempt,
                   OnBroken on_broken)
    : network_(network),
      life_(life),
      process_(process),
      job_(job),
      attempt_(attempt),
      on_broken_(std::move(on_broken)),
      spoken_to_(network.processes(), false),
      beats_(network.processes()) {}

std::unique_ptr<Communicator> Endpoint::MakeCommunicator(const Group& group,
                                                         const ExchangeBounds& bounds) {
  auto route = std::make_shared<std::weak_ptr<FarCommunicator>>();
  auto made = std::make_shared<FarCommunicator>(
      group, bounds, [weak = weak_from_this(), group, route](const FarAction& action) {
        const std::shared_ptr<Endpoint> self = weak.lock();
        if (self != nullptr) {
          self->Send(group.FindProcess(action.message.to), action, route->lock());
        }
      });
  *route = made;
  for (int m = 0; m < group.members(); ++m) {
    if (!group.IsNear(m)) spoken_to_[group.FindProcess(m)] = true;
  }
  communicators_[group.id] = made;
  seen_[group.id].first = bounds.first;
  if (broken()) made->Abort(broken_);
  return std::make_unique<SharedCommunicator>(std::move(made));
}

bool Endpoint::Reaches(const Endpoint& other) const {
  return network_.AreUp(life_.host(), other.life_.host());
}

void Endpoint::Watch(JobTime silence) {
  if (network_.faults().no_data_beats) return;
  std::vector<int> peers;
  for (int p = 0; p < network_.processes(); ++p) {
    if (spoken_to_[p]) peers.push_back(p);
  }
  beats_.Watch(peers, silence, network_.simulation().now());
  Tick();
}

void Endpoint::Tick() {
  if (broken() || gone_) return;
  const JobTime now = network_.simulation().now();
  const auto silent = beats_.Tick(now, [this](int to) {
    const WireHeader header = {job_, attempt_, process_, {.kind = FarMessage::kBeat}};
    network_.simulation().After(network_.DrawDelay(), [self = shared_from_this(), to, header] {
      self->Carry(to, header, nullptr);
    });
  });
  life_.After(beats_.next_tick() - now, [self = shared_from_this()] { self->Tick(); });
  if (!silent || closing_) return;
  on_broken_(silent->process, SilenceError(*silent, absl::StrCat("process ", silent->process)));
}

bool Endpoint::TouchesMemory() const {
  return std::any_of(flights_.begin(), flights_.end(), [this](const auto& flight) {
    return (flight->from.get() == this && flight->sender != nullptr) ||
           (flight->to.get() == this && flight->receiver != nullptr);
  });
}

// Called with the communicator's lock held: it calls nothing of it.
void Endpoint::Send(int to, const FarAction& action, std::shared_ptr<FarCommunicator> from) {
  const WireHeader header = {job_, attempt_, process_, action.message};
  const FarMessage& message = action.message;
  const bool is_pull = message.kind == FarMessage::kPull;
  Seen& seen = seen_[message.communicator];
  if (is_pull) seen.pulls[{message.from, message.to}].push_back(message.packet);
  if (network_.faults().abort_entered_only && message.kind == FarMessage::kAbort &&
      seen.entered[to] <= message.number) {
    return;
  }
  std::shared_ptr<Flight> flight;
  if (message.kind == FarMessage::kPiece) {
    flight = std::make_shared<Flight>();
    flight->action = action;
    flight->from = shared_from_this();
    flight->sender = std::move(from);
    ForPayload(action, [&](const std::byte* row, size_t bytes) {
      flight->rows.push_back({row, bytes});
    });
    std::erase_if(flights_, [](const auto& old) { return old->over(); });
    flights_.push_back(flight);
    if (broken()) {
      // Not at once: who sends holds the communicator's lock.
      network_.simulation().After(0, [flight] { flight->LetGoAtSource(); });
      return;
    }
  }
  if (broken()) return;
  for (int i = 0; i < (is_pull && network_.faults().pull_twice ? 2 : 1); ++i) {
    network_.simulation().After(
        network_.DrawDelay(),
        [self = shared_from_this(), to, header, flight] { self->Carry(to, header, flight); });
  }
}

// A message in transit reaches the present owner of the address.
void Endpoint::Carry(int to, const WireHeader& header, std::shared_ptr<Flight> flight) {
  const std::shared_ptr<Endpoint> there = network_.at(to);
  if (there == nullptr || there->gone()) return;
  // A payload is the sender's to send; a message has left.
  if (flight != nullptr && (gone_ || flight->sender == nullptr)) return;
  const bool held = flight != nullptr && life_.stopped();
  if (held || !Reaches(*there)) {
    network_.simulation().After(kRetry, [self = shared_from_this(), to, header, flight] {
      self->Carry(to, header, flight);
    });
    return;
  }
  there->life_.After(0, [there, header, flight] { there->Arrive(header, flight); });
}

void Endpoint::Refuse(const WireHeader& header, const absl::Status& why) {
  const std::string what =
      absl::StrCat("a message of process ", header.from_process, ": ", why.message());
  network_.simulation().Violate(absl::StrCat("process ", process_, " refuses ", what));
  Break(absl::InternalError(what));
}

void Endpoint::SetWindow(uint64_t group, std::span<std::byte> window, int64_t pull_bytes) {
  seen_[group].window = window;
  seen_[group].pull_bytes = pull_bytes;
}

// Plants the faults that change what arrives.
void Endpoint::Distort(FarMessage* message, int from_process) {
  constexpr uint64_t kInRun = 0xffffffff;
  Seen& seen = seen_[message->communicator];
  if (message->kind == FarMessage::kEntered) seen.entered[from_process] = message->number + 1;
  if (network_.faults().match_across_runs) {
    message->number = (seen.first & ~kInRun) | (message->number & kInRun);
  }
  std::deque<int64_t>& pulls = seen.pulls[{message->to, message->from}];
  if (message->kind != FarMessage::kPiece || pulls.empty()) return;
  if (network_.faults().ordered_links) message->packet = pulls.front();
  pulls.pop_front();
}

// The part of the window of the pull beside that which `target` belongs to; empty: it belongs to
// none.
std::span<std::byte> Endpoint::NextPullsPart(const FarMessage& message,
                                             std::span<std::byte> target) {
  const Seen& seen = seen_[message.communicator];
  const int64_t at = target.data() - seen.window.data();
  if (seen.pull_bytes == 0 || at < 0 || at >= std::ssize(seen.window)) return {};
  const int64_t beside = (at / seen.pull_bytes ^ 1) * seen.pull_bytes + at % seen.pull_bytes;
  if (beside + std::ssize(target) > std::ssize(seen.window)) return {};
  return seen.window.subspan(beside, target.size());
}

void Endpoint::Arrive(WireHeader header, std::shared_ptr<Flight> flight) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&header);
  if (broken() || gone_) return;
  if (!WireHeaderFrom({bytes, sizeof(header)}, job_, attempt_, network_.processes())) {
    ++foreign_;
    return;
  }
  FarMessage& message = header.message;
  beats_.Heard(header.from_process);
  if (message.kind == FarMessage::kBeat) return;
  Distort(&message, header.from_process);
  const auto found = communicators_.find(message.communicator);
  if (found == communicators_.end()) {
    return Refuse(header, absl::NotFoundError("there is no such communicator"));
  }
  const std::shared_ptr<FarCommunicator> to = found->second;
  if (flight == nullptr) {
    const absl::Status status = to->Receive(message);
    if (!status.ok()) Refuse(header, status);
    return;
  }
  flight->action.message = message;
  const absl::StatusOr<std::span<std::byte>> target = to->Arriving(message);
  if (!target.ok()) return Refuse(header, target.status());
  if (target->empty()) {
    flight->from->life_.After(0, [flight] { flight->LetGoAtSource(); });
    return;
  }
  flight->to = shared_from_this();
  flight->receiver = to;
  flight->target = *target;
  if (network_.faults().share_window) flight->also = NextPullsPart(message, *target);
  std::erase_if(flights_, [](const auto& old) { return old->over(); });
  flights_.push_back(flight);
  if (network_.faults().arrived_early) {
    flight->arrived = true;
    to->Arrived(message);
  }
  Copy(std::move(flight));
}

// The next part of a payload, at a separate time.
void Endpoint::Copy(std::shared_ptr<Flight> flight) {
  const JobTime delay = network_.DrawDelay() / 2;
  life_.After(delay, [self = shared_from_this(), flight] {
    if (flight->receiver == nullptr || flight->sender == nullptr) return;
    if (flight->from->life_.stopped() || !self->Reaches(*flight->from)) return self->Copy(flight);
    const size_t left = flight->target.size() - flight->copied;
    const size_t part = left < 64 || self->network_.simulation().OneIn(2)
                            ? left
                            : 1 + static_cast<size_t>(self->network_.simulation().Below(left));
    size_t begin = 0;
    const size_t end = flight->copied + part;
    for (const std::span<const std::byte> row : flight->rows) {
      const size_t from = std::max(flight->copied, begin), to = std::min(end, begin + row.size());
      for (const std::span<std::byte> target : {flight->target, flight->also}) {
        if (from < to && !target.empty()) {
          std::memcpy(&target[from], &row[from - begin], to - from);
        }
      }
      begin += row.size();
    }
    flight->copied = end;
    if (flight->copied < flight->target.size()) return self->Copy(flight);
    flight->from->life_.After(self->network_.DrawDelay(), [flight] { flight->LetGoAtSource(); });
    flight->LetGoAtReader();
  });
}

void Endpoint::Break(const absl::Status& why) {
  if (broken()) return;
  broken_ = why;
  for (const auto& [number, communicator] : communicators_) communicator->Abort(why);
  for (const std::shared_ptr<Flight>& flight : std::exchange(flights_, {})) {
    if (flight->from.get() == this) flight->LetGoAtSource();
    if (flight->to.get() == this) flight->LetGoAtReader();
  }
}

void Endpoint::LinkFails(int process, const absl::Status& why) {
  if (broken() || gone_ || !spoken_to_[process]) return;
  Break(why);
  if (!closing_) on_broken_(process, why);
}

void Endpoint::Disappear() {
  if (gone_) return;
  gone_ = true;
  Break(absl::UnavailableError("the process is gone"));
  // Its host says so to those that it reaches.
  for (int p = 0; p < network_.processes(); ++p) {
    const std::shared_ptr<Endpoint> other = network_.at(p);
    if (other == nullptr || other.get() == this || other->attempt_ != attempt_) continue;
    if (!other->spoken_to_[process_] || !Reaches(*other)) continue;
    const JobTime notice = network_.simulation().Between(0, network_.delays().notice);
    other->life_.After(notice, [other, from = process_] {
      other->LinkFails(
          from,
          MarkConsequence(from, absl::UnavailableError(absl::StrCat("the link to process ", from,
                                                                    " failed: connection reset"))));
    });
  }
}

}  // namespace oneflow::cluster

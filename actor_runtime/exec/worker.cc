#include "actor_runtime/exec/worker.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "actor_runtime/device/spin.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

DeviceStream* Worker::FindStream(const Position& position) const {
  return position.on_device < 0 ? nullptr : queues_->stream(position.on_device);
}

void Worker::Prepare(const ProgramRun& run, const std::vector<int32_t>& streams) {
  run_ = run;
  const ActorNet& net = run.program->net;
  positions_.clear();
  queues_.reset();
  turn_ = {};
  firings_.store(0);
  last_actor_.store(-1);
  clock_.Clear();
  waited_ = std::vector<std::atomic<int64_t>>(net.groups.size());
  Snapshot shape;
  for (const int32_t s : streams) {
    const StreamOrder& stream = net.streams[s];
    Position& position = positions_.emplace_back();
    position.order = &stream;
    position.states = &(*run.states)[s];
    position.actors = run.program->actors[s].data();
    position.trace = run.trace ? run.trace->buffer(s) : nullptr;
    if (device_ != nullptr) {
      position.on_device = static_cast<int>(positions_.size()) - 1;
      issue_ = &net.issues[stream.rank - net.own.begin];
    }
    if (!stream.host && !stream.alone) position.pool = run.pools[stream.rank - net.own.begin].get();
    for (const int32_t actor : stream.actors) {
      Exchange& exchange = position.exchanges.emplace_back();
      const ExchangeMember member = net.member_of[actor];
      if (member.exchange < 0) continue;
      const int32_t group = net.exchanges[member.exchange].group;
      exchange = {run.communicators[run.program->communicator_of[group]].get(),
                  &run.program->works[member.exchange], member.index, group};
    }
    for (const ActorTable::Actor& actor : stream.table.actors) {
      sends_.reserve(actor.end_peer - actor.first_peer);
    }
    shape.streams.push_back({s, 0, false, false, -1, (*run.states)[s]});
  }
  if (device_ != nullptr) {
    queues_.emplace(*run.program, streams, run.launch_queue, run.trace != nullptr);
  }
  desk_.Prepare(std::move(shape));
  unfinished_ = run.steps > 0 ? positions_.size() : 0;
  steps_done_ = 0;
  over_.store(unfinished_ == 0);
}

void Worker::DropMail() {
  Message message;
  while (mailbox_.Pop(&message)) {
  }
}

// A stream that follows may have reached the end of the run before the stop was known.
bool Worker::ahead(int64_t steps) const {
  return std::any_of(positions_.begin(), positions_.end(), [&](const Position& p) {
    return p.step > steps || (p.step == steps && p.begun);
  });
}

void Worker::Drive() {
  if (unfinished_ == 0) board_->StepsDone(id_, run_.steps);
  Attach();
  if (device_ != nullptr) clock_.Start(Now());
  while (GoesOn()) {
    if (!Step()) Wait();
  }
  if (device_ != nullptr) clock_.Wait(Now());
  EndRun();
}

// Waits until there is something to do, and begins it.
void Worker::Wait() {
  if (device_ == nullptr) return Idle();
  clock_.Wait(Now());
  int64_t now = 0;
  do {
    Idle();
    now = Now();
  } while (GoesOn() && !Step());
  clock_.Work(now);
}

void Worker::Attach() {
  if (device_ == nullptr) return;
  const absl::Status attached = device_->Attach();
  if (attached.ok()) return;
  // The call may return the error of a launch.
  for (const Position& position : positions_) {
    if (queues_->InFlight(position.on_device) > 0) return FailOldest(position, attached);
  }
  board_->Fail(attached);
}

// True if it did what others asked it for instead of a step. Inlined: a call is 3 % of a firing.
[[gnu::always_inline]] inline bool Worker::ObeysOthers() {
  if (board_->end() < run_.steps) [[unlikely]] {
    EndAfter(board_->end());
    return true;
  }
  if (desk_.asked()) [[unlikely]]
    Answer();
  return false;
}

bool Worker::StepOne(int thing) {
  if (ObeysOthers()) return true;
  if (thing == static_cast<int>(positions_.size())) {
    Message message;
    if (!mailbox_.Pop(&message)) return false;
    if (message.epoch != run_.epoch) return true;
    Hand(message);
    CheckState(run_.program->net.FindReceiver(message));
    return true;
  }
  Position& position = positions_[thing];
  if (position.step >= run_.steps) return FireNext(&position);
  const int32_t actor = position.order->actors[position.order->firings.IndexAt(position.next)];
  const bool progress = FireNext(&position);
  CheckState(actor);
  return progress;
}

void Worker::CheckState(int32_t actor) {
  const ActorNet& net = run_.program->net;
  const int32_t stream = net.stream_of[actor];
  const absl::Status kept = CheckInvariants(net.streams[stream].table, (*run_.states)[stream],
                                            net.index_in_stream[actor]);
  if (!kept.ok()) board_->Fail(kept);
}

bool Worker::Step() {
  if (ObeysOthers()) return true;
  bool progress = mailbox_.HasMail();
  if (progress) Drain();
  for (Position& position : positions_) progress |= FireNext(&position);
  return progress;
}

void Worker::Answer() {
  desk_.Answer([this](Snapshot* snapshot) {
    for (size_t i = 0; i < positions_.size(); ++i) {
      Snapshot::Stream& stream = snapshot->streams[i];
      stream.index = positions_[i].order->firings.IndexAt(positions_[i].next);
      stream.over = positions_[i].done >= run_.steps;
      stream.given = queues_ && queues_->InFlight(static_cast<int>(i)) > 0
                         ? queues_->Oldest(static_cast<int>(i)).index
                         : -1;
      stream.entered = positions_[i].entered != nullptr;
      stream.states = *positions_[i].states;
    }
  });
}

void Worker::Drain() {
  Message message;
  while (mailbox_.Pop(&message)) {
    if (message.epoch == run_.epoch) Hand(message);
  }
}

// Passes a message on to an actor of one of our streams.
void Worker::Hand(const Message& message, int64_t stamp) {
  const ActorNet& net = run_.program->net;
  const int32_t actor = net.FindReceiver(message);
  const int32_t stream = net.stream_of[actor];
  Receive(net.streams[stream].table, message, net.index_in_stream[actor], &(*run_.states)[stream],
          stamp);
}

bool Worker::FireNext(Position* position) {
  if (position->on_device >= 0) return FireOnDevice(position);
  if (position->entered != nullptr) return Look(position);
  if (position->step >= run_.steps) return false;
  const StreamOrder& stream = *position->order;
  const int32_t index = stream.firings.IndexAt(position->next);
  if (!CanFire(*position->states, index)) return false;
  if (!position->begun && !Begin(position)) return board_->end() != StepGate::kNoEnd;

  last_actor_.store(stream.actors[index], std::memory_order_relaxed);
  firings_.store(firings_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const Launch launch = Issue(stream.table, index, position->states);
  if (position->exchanges[index].communicator != nullptr) return Enter(position, index, launch);
  // Once the trace of the run is full, the clock is not read.
  const bool traced = position->trace != nullptr && position->trace->TakesMore();
  const absl::Status status =
      traced ? RunTraced(*position, index, launch) : position->actors[index].Run(launch);
  if (!status.ok()) [[unlikely]] {
    Fail(*position, index, launch, status);
    return true;
  }
  End(position, index);
  return true;
}

void Worker::End(Position* position, int32_t index) {
  Complete(position->order->table, index, position->states, &sends_);
  if (!sends_.empty()) Send(*position, index);
  Advance(position);
}

bool Worker::Enter(Position* position, int32_t index, const Launch& launch) {
  const Exchange& exchange = position->exchanges[index];
  position->entered = &exchange;
  position->launch = launch;
  position->begin = Now();
  const BoundActor::Addresses addresses = position->actors[index].FindAddresses(launch);
  exchange.communicator->Enter(exchange.member,
                               {exchange.work, addresses.in, addresses.out, launch.accumulate,
                                addresses.workspace, FindStream(*position)});
  Look(position);
  return true;
}

// Goes on with an exchange that has been entered. Returns true if anything was done.
bool Worker::Look(Position* position) {
  const Exchange& exchange = *position->entered;
  const Communicator::Progress progress =
      exchange.communicator->Poll(exchange.member, position->pool);
  if (progress == Communicator::kWaiting) return false;
  if (progress == Communicator::kWorked) return true;
  const int32_t index = position->order->firings.IndexAt(position->next);
  if (progress == Communicator::kFailed) [[unlikely]] {
    position->entered = nullptr;
    Fail(*position, index, position->launch, exchange.communicator->status());
    return true;
  }
  if (position->on_device < 0) {
    const int64_t now = Now();
    std::atomic<int64_t>& waited = waited_[exchange.group];
    waited.store(waited.load(std::memory_order_relaxed) + now - position->begin,
                 std::memory_order_relaxed);
    if (position->trace != nullptr) {
      position->trace->Add(
          {position->begin, now, position->launch.firing, position->order->actors[index]});
    }
  }
  position->entered = nullptr;
  if (position->on_device < 0) {
    End(position, index);
  } else {
    issue_->firings.Next(&turn_);
    Given(position, index);
  }
  return true;
}

// Fires on a device's stream. Finished launches are reported first, because others may wait for
// them.
bool Worker::FireOnDevice(Position* position) {
  const bool completed = CompleteOldest(position);
  if (position->entered != nullptr) return Look(position) || completed;
  if (position->step >= run_.steps || queues_->IsFull(position->on_device)) return completed;
  const StreamOrder& stream = *position->order;
  const int32_t index = stream.firings.IndexAt(position->next);
  if (!CanFire(*position->states, index) || !HasTurn(*position, index)) return completed;
  if (run_.synchronous && !MayGive()) return completed;
  if (!position->begun && !Begin(position)) return board_->end() != StepGate::kNoEnd;

  last_actor_.store(stream.actors[index], std::memory_order_relaxed);
  firings_.store(firings_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  absl::Status status = queues_->Begin(position->on_device, index, *position->states);
  const Launch launch = Issue(stream.table, index, position->states);
  if (status.ok() && position->exchanges[index].communicator != nullptr) {
    return Enter(position, index, launch);
  }
  position->launch = launch;
  if (status.ok()) status = position->actors[index].Run(launch);
  if (!status.ok()) [[unlikely]] {
    Fail(*position, index, launch, status);
    return true;
  }
  Given(position, index);
  return true;
}

// The device has the firing: readers and writers on its other streams are notified with its event.
void Worker::Given(Position* position, int32_t index) {
  const bool ends_step = !position->order->firings.Next(&position->next);
  const absl::StatusOr<int64_t> stamp = queues_->End(position->on_device, index, ends_step);
  if (!stamp.ok()) [[unlikely]] {
    Fail(*position, index, position->launch, stamp.status());
    return;
  }
  Announce(position->order->table, *position->states, index, &sends_);
  if (!sends_.empty()) Send(*position, index, *stamp);
  if (!ends_step) return;
  position->begun = false;
  ++position->step;
}

bool Worker::CompleteOldest(Position* position) {
  const auto over = queues_->TakeOver(position->on_device);
  if (!over.ok()) [[unlikely]] {
    FailOldest(*position, over.status());
    return true;
  }
  if (!over->has_value()) return false;
  const DeviceQueues::Launched& launched = **over;
  if (position->trace != nullptr) {
    position->trace->Add({launched.times.begin_ns, launched.times.end_ns,
                          position->states->counts[launched.index].completed,
                          position->order->actors[launched.index]});
  }
  Complete(position->order->table, launched.index, position->states, &sends_);
  if (!sends_.empty()) Send(*position, launched.index);
  if (launched.ends_step) EndStep(position);
  return true;
}

// False if the device is to have one launch at a time and has one.
bool Worker::MayGive() const {
  return queues_->IsEmpty() &&
         std::none_of(positions_.begin(), positions_.end(),
                      [](const Position& position) { return position.entered != nullptr; });
}

// True for an actor that is no exchange, and for the exchange that its device issues next.
bool Worker::HasTurn(const Position& position, int32_t index) const {
  if (position.exchanges[index].communicator == nullptr) return true;
  return issue_->actors[issue_->firings.IndexAt(turn_)] == position.order->actors[index];
}

bool Worker::HasWork() const {
  return mailbox_.HasMail() ||
         std::any_of(positions_.begin(), positions_.end(), [](const Position& position) {
           const Exchange* entered = position.entered;
           return entered != nullptr && entered->communicator->CanProgress(entered->member);
         });
}

absl::Status Worker::RunTraced(const Position& position, int32_t index, const Launch& launch) {
  const int64_t begin = Now();
  absl::Status status = position.actors[index].Run(launch);
  position.trace->Add({begin, Now(), launch.firing, position.order->actors[index]});
  return status;
}

void Worker::Send(const Position& position, int32_t index, int64_t stamp) {
  const ActorNet& net = run_.program->net;
  for (const int32_t peer : sends_) {
    Message message = MessageTo(position.order->table, *position.states, index, peer);
    const int32_t worker = run_.assignment->worker_of[net.stream_of[net.FindReceiver(message)]];
    if (worker == id_) {
      Hand(message, stamp);
    } else {
      message.epoch = run_.epoch;
      bus_->Send(worker, message);
    }
  }
  sends_.clear();
}

// A step begins when its first actor may fire, not when the step before it is over.
bool Worker::Begin(Position* position) {
  position->begun = board_->Begin(position->step, position->order->follows);
  if (!position->begun) {
    if (board_->end() == StepGate::kNoEnd) return false;
    EndAfter(board_->end());
    bus_->WakeAll();
  }
  return position->begun;
}

void Worker::Advance(Position* position) {
  if (position->order->firings.Next(&position->next)) return;
  position->begun = false;
  ++position->step;
  EndStep(position);
}

void Worker::EndStep(Position* position) {
  if (++position->done == run_.steps) --unfinished_;
  TellDone();
}

void Worker::EndAfter(int64_t steps) {
  run_.steps = steps;
  unfinished_ = std::count_if(positions_.begin(), positions_.end(),
                              [&](const Position& p) { return p.done < steps; });
  TellDone();
}

void Worker::TellDone() {
  int64_t done = run_.steps;
  for (const Position& p : positions_) done = std::min(done, p.done);
  if (done <= steps_done_) return;
  steps_done_ = done;
  board_->StepsDone(id_, done);
}

void Worker::Fail(const Position& position, int32_t index, const Launch& launch,
                  const absl::Status& status) {
  const ActorNet& net = run_.program->net;
  const int32_t actor = position.order->actors[index];
  const int64_t step = run_.first_step + launch.firing / net.firings[actor];
  absl::Status failure =
      Annotate(status, absl::StrCat("program ", net.program, ", step ", step, ", ",
                                    net.ActorName(actor), ", firing ", launch.firing));
  const std::string suspects = position.on_device < 0 ? "" : Suspects();
  board_->Fail(suspects.empty()
                   ? failure
                   : WithMessage(failure, absl::StrCat(failure.message(), "; ", suspects)));
}

void Worker::FailOldest(const Position& position, const absl::Status& status) {
  const int32_t index = queues_->Oldest(position.on_device).index;
  Launch launch;
  launch.firing = position.states->counts[index].completed;
  Fail(position, index, launch, status);
}

// A device returns an error from whichever call comes next, so any launch that had not completed
// may be its cause. The result is empty if the cause is known.
std::string Worker::Suspects() const {
  if (run_.synchronous) return "";
  const ActorNet& net = run_.program->net;
  std::string list;
  for (const Position& position : positions_) {
    if (queues_->InFlight(position.on_device) == 0) continue;
    const int32_t index = queues_->Oldest(position.on_device).index;
    absl::StrAppend(&list, list.empty() ? "" : ", ", net.ActorName(position.order->actors[index]),
                    ", firing ", position.states->counts[index].completed);
  }
  if (list.empty()) return "";
  return absl::StrCat("the oldest actors not completed on the device: ", list,
                      "; with --synchronous the actor that failed is named");
}

void Worker::Idle() {
  if (queues_ && !queues_->IsEmpty()) {  // a device wakes nobody
    std::this_thread::yield();
    return;
  }
  if (spin_.count() > 0 && SpinUntil([&] { return HasWork(); }, spin_)) return;
  // A worker that waits for this core may have our message, and a yield is cheaper than sleep and
  // wake-up.
  std::this_thread::yield();
  if (HasWork()) return;
  const uint32_t ticket = mailbox_.PrepareToPark();
  // A thread that cancels, stops or asks stores that first and wakes us second, so we see one of
  // the two.
  const bool stopped = board_->end() < run_.steps;
  if (HasWork() || board_->cancelled() || stopped || desk_.asked()) {
    mailbox_.StayAwake();
  } else {
    mailbox_.Park(ticket);
  }
}

}  // namespace oneflow

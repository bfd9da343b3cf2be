#include "actor_runtime/exec/worker.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Worker::Prepare(const ProgramRun& run, const std::vector<int32_t>& streams) {
  run_ = run;
  const ActorNet& net = run.program->net;
  positions_.clear();
  for (const int32_t stream : streams) {
    positions_.push_back(
        {&net.streams[stream], 0, 0, run.trace ? run.trace->buffer(stream) : nullptr});
    for (const int32_t actor : net.streams[stream].firings) actions_.Reserve(net.specs[actor]);
  }
  unfinished_ = run.steps > 0 ? positions_.size() : 0;
  steps_done_ = 0;
}

void Worker::DropMail() {
  Message message;
  while (mailbox_.Pop(&message)) {
  }
}

void Worker::Drive() {
  if (unfinished_ == 0) board_->StepsDone(id_, run_.steps);
  while (unfinished_ > 0 && !board_->cancelled()) {
    bool progress = Drain();
    for (Position& position : positions_) progress |= FireNext(&position);
    if (!progress) Idle();
  }
}

bool Worker::Drain() {
  bool any = false;
  Message message;
  while (mailbox_.Pop(&message)) {
    any = true;
    if (message.epoch != run_.epoch) continue;
    const ActorNet& net = run_.program->net;
    const int32_t actor = net.ReceiverOf(message);
    Receive(net.specs[actor], message, &(*run_.states)[actor]);
  }
  return any;
}

bool Worker::FireNext(Position* position) {
  if (position->step == run_.steps) return false;
  const int32_t actor = position->order->firings[position->next];
  const ActorSpec& spec = run_.program->net.specs[actor];
  ActorState& state = (*run_.states)[actor];
  if (!CanFire(spec, state)) return false;

  actions_.Clear();
  Issue(spec, &state, &actions_);
  Deliver();
  const Launch& launch = actions_.launches[0];
  const int64_t begin = position->trace != nullptr ? Now() : 0;
  const absl::Status status = run_.program->actors[actor].Run(launch, actions_.slots);
  if (position->trace != nullptr) position->trace->Add({begin, Now(), launch.firing, actor});
  if (!status.ok()) [[unlikely]] {
    Fail(*position, actor, launch, status);
    return true;
  }
  actions_.sends.clear();
  Complete(spec, &state, &actions_);
  Deliver();
  Advance(position);
  return true;
}

void Worker::Deliver() {
  const ActorNet& net = run_.program->net;
  for (Message& message : actions_.sends) {
    const int32_t actor = net.ReceiverOf(message);
    const int32_t worker = (*run_.worker_of)[actor];
    if (worker == id_) {
      Receive(net.specs[actor], message, &(*run_.states)[actor]);
    } else {
      message.epoch = run_.epoch;
      bus_->Send(worker, message);
    }
  }
}

void Worker::Advance(Position* position) {
  if (++position->next < position->order->firings.size()) return;
  position->next = 0;
  if (++position->step == run_.steps) --unfinished_;
  int64_t done = run_.steps;
  for (const Position& p : positions_) done = std::min(done, p.step);
  if (done == steps_done_) return;
  steps_done_ = done;
  board_->StepsDone(id_, done);
}

void Worker::Fail(const Position& position, int32_t actor, const Launch& launch,
                  const absl::Status& status) {
  const ActorNet& net = run_.program->net;
  if (board_->Fail(Annotate(
          status, absl::StrCat("program ", net.program, ", step ", run_.first_step + position.step,
                               ", ", net.NameOf(actor), ", firing ", launch.firing)))) {
    bus_->WakeAll();
  }
}

void Worker::Idle() {
  for (int i = 0; i < spins_; ++i) {
    if (mailbox_.HasMail()) return;
    Relax();
  }
  const uint32_t ticket = mailbox_.PrepareToPark();
  // Whoever cancels says so first and wakes us second, so one of the two is seen.
  if (mailbox_.HasMail() || board_->cancelled()) {
    mailbox_.StayAwake();
  } else {
    mailbox_.Park(ticket);
  }
}

}  // namespace oneflow

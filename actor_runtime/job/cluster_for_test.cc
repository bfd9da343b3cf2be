#include "actor_runtime/job/cluster_for_test.h"

#include <algorithm>
#include <utility>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"

namespace oneflow {

JobCluster::JobCluster(JobClusterOptions options)
    : options_(std::move(options)), random_(options_.seed) {}

int JobCluster::StartAttempt(int64_t attempt) {
  const int first = static_cast<int>(nodes_.size());
  for (int p = 0; p < options_.processes; ++p) {
    StartNode(attempt, p, now_ + Draw(options_.start_spread));
  }
  return first;
}

int JobCluster::StartNode(int64_t attempt, int process, JobTime at) {
  const int index = static_cast<int>(nodes_.size());
  Node& node = nodes_.emplace_back();
  node.process = process;
  node.attempt = attempt;
  node.clock = 1000 * kJobSecond + Draw(1000 * kJobSecond);
  deferred_.emplace_back();
  stream_of_.push_back(-1);
  streams_at_.emplace_back();
  Event event;
  event.time = at;
  event.kind = Kind::kStart;
  event.node = index;
  Push(std::move(event));
  return index;
}

void JobCluster::At(JobTime time, std::function<void()> what) {
  Event event;
  event.time = time;
  event.call = std::move(what);
  Push(std::move(event));
}

void JobCluster::Push(Event event) {
  uint32_t slot = static_cast<uint32_t>(slots_.size());
  const JobTime time = event.time;
  if (free_.empty()) {
    slots_.push_back(std::move(event));
  } else {
    slot = free_.back();
    free_.pop_back();
    slots_[slot] = std::move(event);
  }
  Enqueue(slot, time);
}

void JobCluster::Enqueue(uint32_t slot, JobTime time) {
  queue_.push({std::max(time, now_), sequence_++, slot});
}

void JobCluster::RunUntil(JobTime time) {
  RunUntilDone(time, [] { return false; });
  now_ = std::max(now_, time);
}

bool JobCluster::RunUntilDone(JobTime limit, const std::function<bool()>& done) {
  while (!done()) {
    if (queue_.empty() || queue_.top().time > limit) return false;
    const Entry next = queue_.top();
    queue_.pop();
    now_ = next.time;
    ++events_;
    Event event = std::move(slots_[next.slot]);
    const int at = event.node;
    if (at >= 0 && nodes_[at].alive && nodes_[at].stopped) {
      slots_[next.slot] = std::move(event);
      deferred_[at].push_back(next.slot);
      continue;
    }
    const bool crosses = event.stream >= 0;
    if (crosses && (nodes_[streams_[event.stream].member].disconnected ||
                    nodes_[streams_[event.stream].coordinator].disconnected)) {
      const int stream = event.stream;
      slots_[next.slot] = std::move(event);
      streams_[stream].held.push_back(next.slot);
      continue;
    }
    free_.push_back(next.slot);
    if (at < 0 || nodes_[at].alive) Happen(event);
  }
  return true;
}

void JobCluster::Happen(Event& event) {
  if (event.kind == Kind::kCall) return event.call();
  const int index = event.node;
  Node& node = nodes_[index];
  const JobTime clock = Clock(node);
  const uint64_t connection = event.stream + 1;  // 0: within process 0
  const uint64_t number = event.stream < 0 ? 1 : streams_[event.stream].number;
  switch (event.kind) {
    case Kind::kStart: {
      JobIdentity self{.process = node.process,
                       .processes = options_.processes,
                       .attempt = node.attempt,
                       .host = absl::StrCat("h", node.process / 2),
                       .token = "secret",
                       .facts = {{"plan", "41ad"}}};
      if (node.process == 0) {
        listening_ = index;
        node.coordinator =
            std::make_unique<Coordinator>(CoordinatorOptions{.self = self,
                                                             .join = options_.join,
                                                             .silence = options_.silence,
                                                             .policy = options_.policy},
                                          clock);
      }
      node.member = std::make_unique<MemberState>(
          MemberStateOptions{
              .self = self, .coordinator = "c:1", .join = options_.join, .policy = options_.policy},
          clock);
      node.member->Start(clock, MakeEmit(index));
      [[fallthrough]];
    }
    case Kind::kTick: {
      if (event.kind == Kind::kTick) {
        node.member->Tick(clock, MakeEmit(index));
        if (node.coordinator != nullptr) node.coordinator->Tick(clock, EmitCoordinator(index));
      }
      // A program that has ended exits; its coordinator goes with it.
      if (node.member->IsOver()) return Kill(index);
      Event next;
      next.time = now_ + node.member->TickEvery();
      next.kind = Kind::kTick;
      next.node = index;
      return Push(std::move(next));
    }
    case Kind::kStep: return Step(index);
    case Kind::kUp:
      return node.coordinator->Receive(connection, event.up, clock, EmitCoordinator(index));
    case Kind::kDown: return node.member->Receive(number, event.down, clock, MakeEmit(index));
    case Kind::kBreakUp: return node.coordinator->Close(connection, clock, EmitCoordinator(index));
    case Kind::kBreakDown: return node.member->Lose(number, "broken", clock, MakeEmit(index));
    case Kind::kCall: return;
  }
}

// Messages of one stream arrive in order, as with TCP; the delays of different streams are
// independent.
JobTime JobCluster::Arrival(JobTime* last) {
  *last = std::max(*last, now_ + Draw(options_.most_delay));
  return *last;
}

void JobCluster::Connect(int index, uint64_t number) {
  Node& node = nodes_[index];
  if (node.coordinator != nullptr) {
    return node.coordinator->Open(Coordinator::kLocalConnection, Clock(node));
  }
  const int stream = static_cast<int>(streams_.size());
  streams_.push_back({.member = index, .coordinator = listening_, .number = number});
  stream_of_[index] = stream;
  streams_at_[index].push_back(stream);
  if (listening_ >= 0 && nodes_[listening_].alive) {
    streams_at_[listening_].push_back(stream);
    return nodes_[listening_].coordinator->Open(stream + 1, Clock(nodes_[listening_]));
  }
  streams_[stream].coordinator = index;  // Nobody listens: refused.
  Event refused;
  refused.time = Arrival(&streams_[stream].last_down);
  refused.kind = Kind::kBreakDown;
  refused.node = index;
  refused.stream = stream;
  Push(std::move(refused));
}

void JobCluster::Do(int index, const MemberAction& action) {
  Node& node = nodes_[index];
  if (!node.ends.empty() || node.left) ++node.actions_after_end;
  const int stream = stream_of_[index];
  Event event;
  switch (action.kind) {
    case MemberAction::kConnect: return Connect(index, action.stream);
    case MemberAction::kSend:
    case MemberAction::kDisconnect:
      event.kind = action.kind == MemberAction::kSend ? Kind::kUp : Kind::kBreakUp;
      event.up = action.message;
      event.time = now_;
      event.node = index;
      if (node.coordinator == nullptr) {
        if (streams_[stream].coordinator == index) return;  // Refused.
        event.time = Arrival(&streams_[stream].last_up);
        event.node = streams_[stream].coordinator;
        event.stream = stream;
      }
      return Push(std::move(event));
    case MemberAction::kJoined:
      node.joined = true;
      node.until = options_.steps;
      node.member->Begin(0, "train", 0, options_.steps, MakeEmit(index));
      return ScheduleStep(index, Draw(options_.step));
    case MemberAction::kFreeze:
      node.frozen = true;
      return node.member->Frozen(node.position, MakeEmit(index));
    case MemberAction::kStopAt:
      node.end = action.position;
      node.until = std::min(node.until, action.position.steps);
      return ScheduleStep(index, 0);
    case MemberAction::kAnswer: return node.member->Leave(MakeEmit(index));
    case MemberAction::kLeft: node.left = true; return;
    case MemberAction::kEnd:
      node.ends.push_back(action.status);
      node.ended = now_;
      return;
    case MemberAction::kWaits:
    case MemberAction::kValue: return;
  }
}

void JobCluster::DoCoordinator(int index, CoordinatorAction action) {
  Node& node = nodes_[index];
  Event event;
  switch (action.kind) {
    case CoordinatorAction::kReport: ++node.reports; return;
    case CoordinatorAction::kNote: return;
    case CoordinatorAction::kRound:
      return node.coordinator->AnswerRound(action.number, "done", Clock(node),
                                           EmitCoordinator(index));
    case CoordinatorAction::kSend:
      event.kind = Kind::kDown;
      event.down = std::move(action.message);
      event.time = now_;
      event.node = index;
      if (action.connection != Coordinator::kLocalConnection) {
        Stream& stream = streams_[action.connection - 1];
        event.time = Arrival(&stream.last_down);
        event.node = stream.member;
        event.stream = static_cast<int>(action.connection) - 1;
      }
      return Push(std::move(event));
    case CoordinatorAction::kClose: {
      Stream& stream = streams_[action.connection - 1];
      event.kind = Kind::kBreakDown;
      event.time = Arrival(&stream.last_down);
      event.node = stream.member;
      event.stream = static_cast<int>(action.connection) - 1;
      Event back;
      back.kind = Kind::kBreakUp;
      back.time = std::max(event.time, Arrival(&stream.last_up));
      back.node = index;
      back.stream = event.stream;
      Push(std::move(event));
      return Push(std::move(back));
    }
  }
}

void JobCluster::ScheduleStep(int index, JobTime in) {
  Event event;
  event.time = now_ + in;
  event.kind = Kind::kStep;
  event.node = index;
  Push(std::move(event));
}

// The program: a step begins unless it is frozen; after the last comes a round, then it leaves.
void JobCluster::Step(int index) {
  Node& node = nodes_[index];
  if (node.member->IsOver() || !node.member->WaitsFor().empty()) return;
  if (node.member->LeaseUntil() > Clock(node) &&
      (node.coordinator == nullptr || options_.policy.write_without_lease ||
       node.coordinator->LeaseUntil() > Clock(node))) {
    node.wrote = now_;
  }
  if (node.position.steps >= node.until) {
    if (node.frozen && !node.end.has_value()) return;
    return node.member->Round("outcome", absl::StrCat(node.position.steps), MakeEmit(index));
  }
  if (node.frozen && !node.end.has_value()) return;  // kStopAt goes on.
  ++node.position.steps;
  if (options_.all_report || node.process == 0) {
    const double loss = 1.0 / static_cast<double>(node.position.steps);
    node.member->Report(0, node.position.steps, &loss, 1, MakeEmit(index));
  }
  ScheduleStep(index, options_.step / 2 + Draw(options_.step));
}

void JobCluster::Kill(int index) {
  Node& node = nodes_[index];
  if (!node.alive) return;
  node.alive = false;
  if (listening_ == index) listening_ = -1;
  for (const int number : streams_at_[index]) {
    Stream& stream = streams_[number];
    const bool is_member = stream.member == index;
    Event event;
    event.time = Arrival(is_member ? &stream.last_up : &stream.last_down);
    event.kind = is_member ? Kind::kBreakUp : Kind::kBreakDown;
    event.node = is_member ? stream.coordinator : stream.member;
    event.stream = number;
    if (event.node != index) Push(std::move(event));
  }
}

void JobCluster::Stop(int index) { nodes_[index].stopped = true; }

void JobCluster::Continue(int index) {
  nodes_[index].stopped = false;
  for (const uint32_t slot : deferred_[index]) Enqueue(slot, now_);
  deferred_[index].clear();
}

void JobCluster::Disconnect(int index) { nodes_[index].disconnected = true; }

void JobCluster::Reconnect(int index) {
  nodes_[index].disconnected = false;
  for (const int number : streams_at_[index]) {
    for (const uint32_t slot : streams_[number].held) Enqueue(slot, now_);
    streams_[number].held.clear();
  }
}

void JobCluster::AskStop(int index) { nodes_[index].member->AskStop(MakeEmit(index)); }

void JobCluster::Fail(int index, const absl::Status& why) {
  nodes_[index].member->Fail(why, Clock(nodes_[index]), MakeEmit(index));
}

}  // namespace oneflow

// ClockState: the state that determines the rest of a simulated run. If it is the same at two
// times, apart from the time itself and pure counters, the same firings follow.
//
// It is used only within the simulator (simulate.cc, period.cc); the results of a run are in
// simulate.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "actor_runtime/actor/actor_state.h"
#include "actor_runtime/exec/firing_order.h"
#include "oneflow_core/plan/message.h"

namespace oneflow {

struct ClockState {
  // A firing ends, its data on links arrives, or a message arrives. It is small, because a heap
  // moves events often.
  struct Event {
    static constexpr int32_t kEnds = -1, kLanded = -2;  // of a firing
    double time = 0;
    int64_t number = 0;       // events of one moment come in the order in which they were made
    int32_t stream = -1;      // of the firing; -1: a message
    int32_t message = kEnds;  // in ClockState::messages
    bool operator<(const Event& other) const {  // the earliest first
      return time != other.time ? time > other.time : number > other.number;
    }
  };
  struct Stream {
    FiringOrder::Cursor next = {};
    int64_t step = 0;
    int32_t running = -1;  // index of the actor whose firing has been issued
    int64_t running_step = 0;
    int64_t firing = 0;
    int64_t record = -1;    // of the running firing; -1: none yet, or none needed
    bool entered = false;   // it is an exchange, and not over
    bool landed = false;    // it waits for its worker to do its part
    bool occupies = false;  // its worker, which does the work
  };
  struct Worker {
    std::vector<int32_t> streams;
    size_t look_first = 0;  // in `streams`: after the one that fired last
    bool busy = false, woken = false;
  };

  double now = 0;
  int64_t number = 0;               // of the newest event
  std::vector<ActorStates> actors;  // by stream
  std::vector<Stream> streams;
  std::vector<Worker> workers;
  std::vector<double> issued;     // by device: when the host has issued its last firing
  std::vector<int64_t> missing;   // by exchange: members that have not entered
  std::vector<Event> events;      // a heap
  std::vector<Message> messages;  // those of events, and unused entries
  std::vector<int32_t> unused;    // in `messages`
  std::vector<int64_t> recorded;  // by concrete actor: firings that have begun and are stored

  void Push(double time, int32_t stream, int32_t message = Event::kEnds) {
    events.push_back({time, ++number, stream, message});
    std::push_heap(events.begin(), events.end());
  }
  void PushMessage(double time, const Message& message) {
    if (unused.empty()) {
      unused.push_back(static_cast<int32_t>(messages.size()));
      messages.emplace_back();
    }
    const int32_t at = unused.back();
    unused.pop_back();
    messages[at] = message;
    Push(time, /*stream=*/-1, at);
  }
  Message TakeMessage(const Event& event) {
    unused.push_back(event.message);
    return messages[event.message];
  }
  Event Pop() {
    std::pop_heap(events.begin(), events.end());
    const Event event = events.back();
    events.pop_back();
    return event;
  }
};

}  // namespace oneflow

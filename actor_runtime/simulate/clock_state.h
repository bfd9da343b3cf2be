// ClockState: everything that decides how a simulated run goes on. Two moments at which it is the
// same, but for the time and for counters that only count, are followed by the same firings.
//
// A type of the simulator's own parts (simulate.cc, period.cc); what it says about a run is in
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
  // A firing ends, what it waits for on links is here, or a message arrives.
  struct Event {
    double time = 0;
    int64_t number = 0;   // events of one moment come in the order in which they were made
    int32_t stream = -1;  // whose firing it is of; -1: a message
    Message message;
    bool landed = false;                        // else the firing ends
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
    int64_t record = -1;    // of the running firing; -1: it has none yet, or needs no end
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
  int64_t number = 0;               // of the event made last
  std::vector<ActorStates> actors;  // by stream
  std::vector<Stream> streams;
  std::vector<Worker> workers;
  std::vector<int64_t> missing;   // by exchange: members that have not entered
  std::vector<Event> events;      // a heap
  std::vector<int64_t> recorded;  // by concrete actor: firings that have begun and are stored

  void Push(double time, int32_t stream, const Message& message, bool landed = false) {
    events.push_back({time, ++number, stream, message, landed});
    std::push_heap(events.begin(), events.end());
  }
  Event Pop() {
    std::pop_heap(events.begin(), events.end());
    const Event event = events.back();
    events.pop_back();
    return event;
  }
};

}  // namespace oneflow

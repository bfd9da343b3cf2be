// Bus: carries messages between the workers of one process. It holds one mailbox for each worker; a
// worker's messages to itself do not use it. It is not a scheduler and knows no actors: the sender
// has looked up the worker.
//
//   Bus bus({capacity of worker 0, capacity of worker 1});
//   bus.Send(1, message);
//
// Thread-safe, except for mailbox(w), whose owner is worker w.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "actor_runtime/transport/mailbox.h"

namespace oneflow {

class Bus {
 public:
  explicit Bus(const std::vector<int64_t>& capacities) {
    for (const int64_t capacity : capacities)
      mailboxes_.push_back(std::make_unique<Mailbox>(capacity));
  }

  int workers() const { return static_cast<int>(mailboxes_.size()); }
  Mailbox& mailbox(int worker) { return *mailboxes_[worker]; }
  void Send(int worker, const Message& message) { mailboxes_[worker]->Push(message); }
  void WakeAll() {
    for (const std::unique_ptr<Mailbox>& mailbox : mailboxes_) mailbox->Wake();
  }

 private:
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
};

}  // namespace oneflow

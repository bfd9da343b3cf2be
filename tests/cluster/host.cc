#include "tests/cluster/host.h"

#include <memory>
#include <utility>

namespace oneflow::cluster {

// Requires that it outlives its events: a cluster keeps its processes to the end.
void Life::After(JobTime delay, std::function<void()> event) {
  simulation_.After(delay,
                    [this, event = std::move(event)]() mutable { Happen(std::move(event)); });
}

void Life::Happen(std::function<void()> event) {
  if (!alive_) return;
  if (stopped_) {
    held_.push_back(std::move(event));
  } else {
    event();
  }
}

// All that was held back happens now, in its order.
void Life::Continue() {
  stopped_ = false;
  for (std::function<void()>& event : std::exchange(held_, {})) After(0, std::move(event));
}

}  // namespace oneflow::cluster

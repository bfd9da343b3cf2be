// Hosts and the links between them, and one simulated process as what carries its messages sees it:
// alive or not, stopped or not, and its events.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "tests/cluster/simulation.h"

namespace oneflow::cluster {

// Which hosts reach which. Nothing arrives over a link that is cut, and nobody is told. Hosts send
// again what has not arrived, so it does once the link is restored.
class Links {
 public:
  void Cut(int a, int b) { cut_.insert({std::min(a, b), std::max(a, b)}); }
  void Restore(int a, int b) { cut_.erase({std::min(a, b), std::max(a, b)}); }
  bool AreUp(int a, int b) const { return !cut_.contains({std::min(a, b), std::max(a, b)}); }

 private:
  std::set<std::pair<int, int>> cut_;
};

// The events of one process: they are dropped once it is dead and held back while it is stopped.
class Life {
 public:
  Life(Simulation& simulation, int host) : simulation_(simulation), host_(host) {}
  Life(const Life&) = delete;

  Simulation& simulation() const { return simulation_; }
  int host() const { return host_; }
  bool alive() const { return alive_; }
  bool stopped() const { return stopped_; }

  void After(JobTime delay, std::function<void()> event);
  void Stop() { stopped_ = true; }
  void Continue();
  void Die() { alive_ = false; }

 private:
  void Happen(std::function<void()> event);

  Simulation& simulation_;
  const int host_;
  bool alive_ = true, stopped_ = false;
  std::vector<std::function<void()>> held_;
};

}  // namespace oneflow::cluster

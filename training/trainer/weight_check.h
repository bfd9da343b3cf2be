// WeightCheck: looks for values that are not finite in the variables that a run loads: with them no
// step is of use, and no learning rate is to blame.
//
//   WeightCheck check;
//   context.load = [&](const Piece& piece) { ...; check.Look(piece); ... };
//   if (const std::string found = check.Found(); !found.empty()) ...
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "actor_runtime/kernel/run_context.h"

namespace oneflow {

class WeightCheck {
 public:
  // A piece that has been loaded. Any thread; replicas are looked at once each.
  void Look(const Piece& piece);

  // "h.0.w and 2 other variables have values that are not finite, NaN or infinity"; "" if none has.
  std::string Found() const;

 private:
  std::mutex mutex_;
  std::set<std::string> bad_;  // variables
};

}  // namespace oneflow

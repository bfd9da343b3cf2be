// Explains why a job stands still: combines the states of the workers of all its processes, and
// finds the one that the others wait for. Pure: it uses no clock and no process.
//
//   StandstillBoard board(/*processes=*/4, /*ranks=*/8);
//   board.Put(now, stall);                // whenever the state of a process changes
//   if (auto text = board.Look(now)) ...  // "rank 5 on host c is inside the kernel of h.3.fc ..."
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/watch.pb.h"

namespace oneflow {

// One sentence. `stalls`: by process; of a process that has said nothing an empty one. Each owns as
// many of `ranks` ranks, consecutive ones. The text names two members of an exchange that have both
// entered it, and of which one has no message of that. Otherwise, if several wait for nobody, it
// names the one that most ranks wait for, directly or indirectly; if all wait, a cycle of them, or
// the exchange that all of them have entered, and whose messages do not arrive.
std::string DescribeStandstill(std::span<const proto::ProcessStall> stalls, int ranks);

class StandstillBoard {
 public:
  // Seconds that it waits for the others, once one stands still.
  static constexpr double kPatience = 5;

  StandstillBoard(int processes, int ranks) : ranks_(ranks), stalls_(processes) {}

  // Stores the state of a process; ignores processes of other jobs.
  void Put(double now, const proto::ProcessStall& stall);
  // The sentence, when there is a new one: when all stand still, or some have for kPatience.
  std::optional<std::string> Look(double now);
  // True if any process stands still.
  bool any() const { return standing_ > 0; }

 private:
  const int ranks_;
  std::vector<proto::ProcessStall> stalls_;  // by process; empty: it does not stand still
  int standing_ = 0;
  int reported_ = 0;  // processes that stood still at the last report
  double since_ = 0;  // the first of them
};

}  // namespace oneflow

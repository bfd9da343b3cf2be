// Why a job stands still: what the workers of all its processes are at, joined, and the one that
// the others wait for. Pure: it knows no clock and no process.
//
//   StandstillBoard board(/*processes=*/4, /*ranks=*/8);
//   board.Put(now, stall);                                    of a process, whenever it has news
//   if (auto text = board.Look(now)) ... "rank 5 on host c is inside the kernel of h.3.fc ..."
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/watch.pb.h"

namespace oneflow {

// One sentence. `stalls`: by process; of a process that has said nothing an empty one. Each owns as
// many of `ranks` ranks, consecutive ones. Where several wait for nobody, the one is named that
// most ranks wait for, straight or by way of others; where all wait, a circle of them.
std::string DescribeStandstill(std::span<const proto::ProcessStall> stalls, int ranks);

class StandstillBoard {
 public:
  // How long it waits for the others, once one stands still.
  static constexpr double kPatience = 5;

  StandstillBoard(int processes, int ranks) : ranks_(ranks), stalls_(processes) {}

  // Of a process that is none of the job's: nothing happens.
  void Put(double now, const proto::ProcessStall& stall);
  // The sentence, when there is a new one: when all stand still, or some have for kPatience.
  std::optional<std::string> Look(double now);
  // Whether any stands still.
  bool any() const { return standing_ > 0; }

 private:
  const int ranks_;
  std::vector<proto::ProcessStall> stalls_;  // by process; empty: it does not stand still
  int standing_ = 0;
  int told_ = 0;      // of how many that stood still
  double since_ = 0;  // the first of them
};

}  // namespace oneflow

// Zero bubble for stages whose times are known: how far each runs ahead.
//
//   const Pipe pipe{.seconds = seconds, .micro_batches = 64, .overlap = true};
//   schedule.leads = FitLeads(pipe, /*extra=*/4);
//
// In a GPT, W takes less than F and B, which attention's own products lengthen and W has none of:
// so more of them are needed to fill the end of a step than equal times ask for. They cost less
// memory, too: for W a micro-batch needs less than what its F saved. With the times that Zero
// Bubble (Qi et al., ICLR'24) profiled, what is found here idles as little as what its search
// found.
//
// A search: the leads of equal times, and of times that are alike on all stages, are played
// (play_orders.h), then those of single stages are changed while that helps. It is no optimum. With
// many micro-batches it plays fewer, and what more of them take is told from how a step grows.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/schedule/play_orders.h"
#include "compiler/schedule/schedule.h"

namespace oneflow {

// What is known of a pipe that trains.
struct Pipe {
  PipeSeconds seconds;
  // By stage: bytes that a micro-batch takes from B to W, over those from F to B; above 0. Empty:
  // as many.
  std::vector<double> kept_for_weights;
  int64_t micro_batches = 1;
  bool overlap =
      false;  // a step is over for a stage when its own work is; else, when that of all is
};

// The leads of the shortest step found, by stage; never longer than with those for equal times. A
// stage takes the bytes of P + `extra` saved micro-batches at most, or what those for equal times
// take. A pure function; plays about 17 million tasks at most.
std::vector<Lead> FitLeads(const Pipe& pipe, int64_t extra);

// Those for equal times.
std::vector<Lead> EqualLeads(const Pipe& pipe, int64_t extra);

// What a step takes.
double StepSeconds(const Pipe& pipe, const std::vector<Lead>& leads);

}  // namespace oneflow

// The period of addresses: the number of steps after which actors read and write the same addresses
// again. It is the least common multiple over registers. A caller that records the launches of a
// step and replays them needs as many recordings.
//
//   const AddressPeriod period = FindAddressPeriod(plan, program);
//   if (period.steps == 1) ...  // each actor has the same addresses in all steps
//
// It proves nothing about the plan, which may be any: a count that does not fit an int64_t, or
// makes no sense, is 0.
#pragma once

#include <cstdint>

#include "proto/plan.pb.h"

namespace oneflow {

struct AddressPeriod {
  int64_t steps = 1;          // of all actors
  int64_t micro_batches = 1;  // of those that fire once a micro-batch; 1 where there is only one
};

AddressPeriod FindAddressPeriod(const proto::Plan& plan, const proto::Program& program);

}  // namespace oneflow

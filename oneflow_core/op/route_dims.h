// Numbers of experts, groups and slots, from a tensor of tokens and the attributes of route,
// dispatch, combine and their gradients. Internal to op/ and to kernels.
//
// Experts 0 to E - 1 form G groups of E / G. A run is R consecutive positions of a sequence. Its
// tokens make k choices each; the choices of one group are in a queue of C slots, sorted by expert,
// and for one expert by position and choice. Nothing depends on tokens outside of the run, so it is
// the same for any split of batch and runs over devices.
//
//   attribute    meaning                                             if absent
//   choices      k                                                   required by route
//   experts      E                                                   required by dispatch, combine
//   groups       G                                                   1
//   run          R, a divisor of the sequence                        the sequence
//   capacity     C = ceil(capacity k R / G), if that is less; what   C = min(k, E / G) R: a token
//                comes later is dropped, and its slot is -1          chooses an expert once, so
//                                                                    nothing is dropped
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace oneflow {

// Added to sums of scores that divide: sigmoids may all be 0. Other sums of f32 have no other bits.
inline constexpr double kLeastScore = 1e-20;

struct RouteDims {
  int64_t experts = 1, groups = 1, choices = 1, run = 1, slots = 0;

  int64_t of_group() const { return experts / groups; }
};

// `run` 0: the sequence; `capacity` 0: none. Requires groups > 0.
inline RouteDims MakeRouteDims(int64_t experts, int64_t groups, int64_t choices, int64_t run,
                               int64_t sequence, double capacity) {
  RouteDims d{experts, groups, choices, run > 0 ? run : sequence};
  d.slots = std::min(choices, d.of_group()) * d.run;
  if (capacity > 0) {
    const double even = static_cast<double>(choices * d.run) / static_cast<double>(groups);
    d.slots = std::min(d.slots, static_cast<int64_t>(std::ceil(capacity * even)));
  }
  return d;
}

}  // namespace oneflow

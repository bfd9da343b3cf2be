// EpochOrder: the order in which an epoch reads its records: a permutation of [0, records) that is
// a function of (seed, epoch) alone. There is no table: any process computes any part of it.
//
//   const EpochOrder order(/*seed=*/1, /*epoch=*/0, records);
//   order(17);   // the record that is read as number 17
//
// It is a Feistel network of 8 rounds over the fewest bits that hold all records (6 at least),
// whose round function is RandomStream; a value that is no record is sent through it again until it
// is one (cycle walking: twice on average, at most, from 33 records on).
#pragma once

#include <cstdint>

#include "actor_runtime/random/random.h"

namespace oneflow {

class EpochOrder {
 public:
  // Requires records >= 1.
  EpochOrder(uint64_t seed, uint64_t epoch, int64_t records);

  // Requires 0 <= i < records.
  int64_t operator()(int64_t i) const;

 private:
  uint64_t Permute(uint64_t value) const;

  RandomStream rounds_;
  uint64_t records_;
  int low_bits_, high_bits_;
};

}  // namespace oneflow

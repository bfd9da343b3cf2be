// Samples of ops for tests: each kind's row makes them (OpDef::samples), so that a test of all
// kinds includes a new one automatically.
//
//   .samples = [](const SampleSizes& s) -> std::vector<OpSample> {
//     return {{{{{s.b, s.t, s.c}}}}, {{{s.b, s.t, s.c}, -4, 4}}};
//   }
#pragma once

#include <cstdint>
#include <vector>

#include "oneflow_core/graph/graph.h"

namespace oneflow {

// Sizes of batch, positions, channels in and out, heads, their width, and vocabulary. `large`: also
// samples of more rows, columns or positions than a tile of a kernel holds.
struct SampleSizes {
  int64_t b, t, c, o, heads, d, vocab;
  bool large = false;
};

// An input: its sizes, and the values that a test may fill it with.
struct SampleTensor {
  Dims dims;
  double low = -1, high = 1;
  int64_t ids = 0;             // > 0: i32 ids below this; else floating point
  bool wide = false;           // f64 whatever the sample's type
  bool narrow = false;         // bf16 in a sample of f32
  bool mask = false;           // u8, 0 or 1
  bool some_negative = false;  // ids: every third is -1
  std::vector<double> given;   // the values themselves, where not all are possible

  static SampleTensor Ids(Dims dims, int64_t below) { return {std::move(dims), 0, 0, below}; }
  static SampleTensor Wide(Dims dims) { return {std::move(dims), 0, 1, 0, true}; }
  static SampleTensor Mask(Dims dims) { return {std::move(dims), 0, 1, 0, false, false, true}; }
  SampleTensor SomeNegative() const {
    SampleTensor tensor = *this;
    tensor.some_negative = true;
    return tensor;
  }
  SampleTensor Narrow() const {
    SampleTensor tensor = *this;
    tensor.narrow = true;
    return tensor;
  }
};

struct OpSample {
  std::vector<SampleTensor> in;
  AttrMap attrs;
};

}  // namespace oneflow

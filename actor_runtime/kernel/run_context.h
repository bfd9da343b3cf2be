// RunContext: the inputs of a run's kernels besides the plan: numbers and the interfaces to the
// outside world. One for each run of a program; constant while it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "oneflow_core/tensor/dtype.h"
#include "oneflow_core/tensor/layout.h"

namespace oneflow {

// A token of a sample, with what is known of it beside its id:
//
//   bits 0 to 29   its id
//   bit 30         it begins a document
//   bit 31         it does not count as a label
//
//   const int32_t token = MakeToken(17, {.counts = false, .begins = true});
//   TokenId(token);      // 17
//   IsLabel(token);      // false
//   BeginsDocument(token);  // true
//
// Sources that know nothing of it give ids as they are. Only plans that count labels may read
// tokens that do not count.
inline constexpr int32_t kMostTokenIds = (int32_t{1} << 30) - 1;  // ids are below
struct TokenMarks {
  bool counts = true;   // as a label
  bool begins = false;  // a document
};
constexpr int32_t MakeToken(int32_t id, TokenMarks marks) {
  return static_cast<int32_t>(static_cast<uint32_t>(id) | uint32_t{marks.begins} << 30 |
                              uint32_t{!marks.counts} << 31);
}
// Stands for tokens that a sample lacks, at its end: token 0, which begins a document and does not
// count.
inline constexpr int32_t kPaddingToken = -1;
constexpr bool IsLabel(int32_t token) { return token >= 0; }
constexpr bool BeginsDocument(int32_t token) { return (token >> 30 & 1) != 0; }
constexpr int32_t TokenId(int32_t token) {
  return token == kPaddingToken ? 0 : token & kMostTokenIds;
}

// The source of micro-batches. Thread-safe: host workers call Load.
class TokenSource {
 public:
  static constexpr int64_t kMost = int64_t{1} << 32;  // steps, and samples of a step
  static constexpr int32_t kPadding = kPaddingToken;

  virtual ~TokenSource() = default;
  // Tokens, as above, [row][0, length] (length + 1 of them: inputs and shifted labels) of global
  // sample `sample` of the step: a function of (seed, step, sample) alone. Fails where the data
  // cannot be read. Allocates nothing.
  virtual absl::Status Sample(int64_t step, int64_t sample, std::span<int32_t> tokens) const = 0;
};

// A piece of a logical tensor that passes between a run and the outside world (checkpoints, feeds,
// fetches).
struct Piece {
  const std::string* name = nullptr;
  DType dtype = DType::kF32;
  const Dims* dims = nullptr;  // logical sizes
  const Slice* slice = nullptr;
  int rank = 0;
  bool as_produced = false;   // fetch: the piece as produced on the rank (possibly a partial value)
  std::byte* data = nullptr;  // local, dense, row-major
};

// The numbers of the optimizer for one step.
struct StepNumbers {
  double learning_rate, beta1, beta2, epsilon, weight_decay, clip;
  int64_t step;  // 0-based
};

// The values of a report: the loss; the norm of the gradient, 0 where there is none; the number of
// labels over which that loss is a mean, kNotCounted where a plan does not count them, for all
// losses are of as many then. Behind them, of a mixture of experts, the choices of each expert in
// the step, and of those the ones that were dropped.
inline constexpr size_t kReportedLoss = 0, kReportedNorm = 1, kReportedLabels = 2,
                        kReportedScalars = 3;
inline constexpr double kNotCounted = -1;

struct RunContext {
  uint64_t seed = 0;
  int64_t first_step = 0;     // step of firing 0
  int64_t micro_batches = 1;  // firings a step of forward actors
  int64_t micro_batch_size = 1;
  const TokenSource* tokens = nullptr;
  int32_t end_of_text = -1;      // the token that ends a document of `tokens`; -1: not known
  bool marks_documents = false;  // all tokens of `tokens` that begin a document say so
  std::function<StepNumbers(int64_t step)> optimizer;  // for adamw
  std::function<absl::Status(const Piece&)> load;      // load_slice, feed: fill piece.data
  std::function<absl::Status(const Piece&)> save;      // save_slice, fetch: take piece.data
  std::function<void(int64_t step, std::span<const double> values)> report;  // kReported...
};

// The position in the run of firing `firing` of an actor that fires once a micro-batch.
// Micro-batches split the samples of a step in order: row r of the logical tensor of micro-batch i
// is sample i * micro_batch_size + r of the step, for any slice of it on a device (Port::slice).
struct MicroBatch {
  int64_t step, index;
};
inline MicroBatch FindMicroBatch(const RunContext& run, int64_t firing) {
  return {run.first_step + firing / run.micro_batches, firing % run.micro_batches};
}

}  // namespace oneflow

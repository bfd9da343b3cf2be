// Models, clusters and candidates drawn at random, and what a draft of a candidate's plan takes:
// what the costs that a search concludes from few blocks are compared with in tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "planning/search/space.h"
#include "planning/search/stage_costs.h"

namespace oneflow {

// The same numbers on each machine and with each library.
class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}

  int64_t Below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  double Share() { return static_cast<double>(engine_()) / 4294967296.0; }
  bool Chance(double share) { return Share() < share; }
  template <typename Value>
  Value One(std::vector<Value> values) {
    return values[Below(std::ssize(values))];
  }

 private:
  std::mt19937 engine_;
};

// "a100", "h100", "v100" of examples/clusters, or "cpu".
proto::Cluster ReadClusterForTest(const std::string& name);

// A question about a GPT on GPUs of a cluster. `model`: numbers, as "layers: 4 heads: 8 ...";
// `flags`: the recipe, beside --device=cuda and --precision=bf16; `memory`: of a device, 0: no
// limit.
SearchSpec SpecForTest(const std::string& model, const std::string& cluster,
                       const std::string& flags, int64_t devices, int64_t memory);

struct DrawnRange {
  int least_blocks = 1, most_blocks = 12;
  std::vector<int64_t> devices = {1, 2, 3, 4, 5, 6, 8, 12, 13, 16, 24, 32, 48, 64};
  bool patterned = false;  // models whose blocks differ
};

// A GPT, a model with groups of heads, or a mixture; or a model of two classes of blocks: some with
// a window, or some without experts. Its cluster, batch, precision and devices.
SearchSpec DrawSpec(const DrawnRange& range, Dice* dice);
// A candidate of one of these groups with some policy for each block.
proto::Recipe DrawCandidate(const SearchSpec& spec, const std::vector<proto::Recipe>& groups,
                            Dice* dice);
// "llama of 7 blocks, ... on h100: --mesh=...", for people.
std::string Describe(const SearchSpec& spec, const proto::Recipe& candidate);

// Blocks of each slice along the pipe; those of each class.
std::vector<int> SlicesForTest(const SearchSpec& spec, const proto::Recipe& candidate);
std::vector<ClassCounts> ClassesForTest(const SearchSpec& spec, const std::vector<int>& slices);

struct DraftedStep {
  double seconds = 0;
  std::vector<double> bytes;  // by stage: the lower bound
  double Most() const;
};
absl::StatusOr<DraftedStep> DraftStep(const SearchSpec& spec, const proto::Recipe& candidate);

}  // namespace oneflow

// The bytes of the device that needs most, by the formulas of the system that a configuration is
// of: Megatron-LM's own estimator and Korthikanti et al. (2022), ZeRO's estimators in DeepSpeed,
// and what FSDP and torchtitan keep.
//
//   ASSIGN_OR_RETURN(const SystemBytes theirs, TheirBytes(facts));
//   BytesSentence(theirs, {.bytes = plan_bytes})   // "as Megatron-LM counts: 41.2 GiB (..."
//
// It is no measurement and no plan: formulas leave things out (SystemBytes::leaves_out), and what
// they count is not proved. A plan of ours has exact bytes, which oneflow_core/verify proves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tools/foreign/read/facts.h"

namespace oneflow::foreign {

// A part of the sum.
struct ByteLine {
  std::string kind;     // "weights", "gradients", "states", "activations", "logits", "buffers"
  std::string what;     // "weights in bf16"
  std::string formula;  // "2 bytes x 1,023,456,789 parameters"
  int64_t bytes = 0;
};

struct SystemBytes {
  std::string system;           // "Megatron-LM"
  std::string device;           // that needs most: "each device", "a device of stage 0 of 8"
  std::vector<ByteLine> lines;  // of that device
  std::vector<ByteLine> host;   // of a node's host; empty if nothing is offloaded
  // What the system's own estimator prints for the same configuration; empty if it has none.
  std::vector<ByteLine> printed;
  std::vector<std::string> sources;     // papers, files of the system
  std::vector<std::string> leaves_out;  // what the formulas do not count
  std::vector<std::string> notes;       // what was assumed where the formulas have no case

  int64_t total() const;       // of `lines`
  int64_t host_total() const;  // of `host`
  // Of the lines of a kind; 0 if there is none.
  int64_t Sum(const std::string& kind) const;
};

// Requires facts without broken rules. An input error names what the formulas need and the files
// do not say: the model, the GPUs, the micro-batch, the sequence.
//
// It counts weights, gradients and states of the device's share of the parameters, and what the
// forward keeps for the backward at its peak. Of a pipeline it takes the stage whose sum is
// largest.
absl::StatusOr<SystemBytes> TheirBytes(const Facts& facts);

// A plan's bytes, which are exact and proved.
struct OurBytes {
  std::optional<int64_t> bytes;  // of the device that needs most; none: nothing was compiled
};

// "as Megatron-LM counts: 41.2 GiB (weights 2.1, gradients 4.2, ...); ours 39.8 GiB, exact and
// proved".
std::string BytesSentence(const SystemBytes& theirs, const OurBytes& ours);

// {"system", "device", "bytes", "lines": [{"kind", "what", "formula", "bytes"}], "host_bytes",
// "host", "printed", "ours", "sources", "leaves_out", "notes"}.
nlohmann::ordered_json BytesJson(const SystemBytes& theirs, const OurBytes& ours);

}  // namespace oneflow::foreign

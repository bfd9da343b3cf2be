// FSDP of PyTorch, under accelerate and the Trainer of transformers, and torchtitan.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/time_text.h"
#include "tools/foreign/bytes/systems.h"

namespace oneflow::foreign {
namespace {

bool IsCompiled(const Facts& facts) {
  for (const char* key : {"training.compile", "compile.enable"}) {
    const Setting* setting = FindSetting(facts, key);
    if (setting != nullptr && setting->ValueText() != "false") return true;
  }
  return false;
}

// Bytes of a parameter at rest, of a gathered one, and of a gradient that is reduced.
struct FsdpCosts {
  double master = 4, compute = 2, reduced = 4;
};

FsdpCosts FindFsdpCosts(const Facts& facts) {
  FsdpCosts costs;
  const auto is_narrow = [](const std::string& type) {
    return absl::StartsWith(type, "bf16") || absl::StartsWith(type, "fp16");
  };
  if (facts.precision.compute == "f32") costs.compute = 4;
  if (is_narrow(facts.precision.master)) costs.master = 2;
  if (facts.precision.gradients_in_bf16 || costs.master == 2) costs.reduced = 2;
  return costs;
}

std::string TypeText(double bytes) { return bytes == 4 ? "f32" : "16 bits"; }

// Weights, gradients and states that FSDP splits, and what of them is gathered.
std::vector<ByteLine> ShardLines(const Facts& facts, const Setup& setup, const StageShare& stage,
                                 bool on_host) {
  const FsdpCosts costs = FindFsdpCosts(facts);
  const auto line = [&](const char* kind, std::string name, double bytes) {
    return ParameterLine(kind, std::move(name), bytes, stage, setup.dense_ways, setup.expert_ways);
  };
  std::vector<ByteLine> lines;
  if (!on_host) {
    lines = {line("weights", "shards of weights in " + TypeText(costs.master), costs.master),
             line("gradients", "shards of gradients in " + TypeText(costs.master), costs.master),
             line("states", "shards of moments", MomentBytes(facts, costs.master))};
  }
  const std::string type = TypeText(costs.compute);
  const double units = static_cast<double>(std::min<int64_t>(2, stage.blocks));
  if (facts.sharding.gather == "each use") {
    const bool is_titan = facts.system == "torchtitan";
    // torchtitan gathers embedding and head each for its use, the root unit of FSDP holds both.
    double ends = stage.embedding;
    if (is_titan && stage.is_first && stage.is_last && !setup.shape.tied) ends /= 2;
    lines.push_back(PlainLine("buffers",
                              absl::StrCat("gathered in ", type, ": two blocks, embedding or head"),
                              absl::StrCat(costs.compute, " bytes x (", units, " x ",
                                           DigitsText(std::llround(setup.block())), " + ",
                                           DigitsText(std::llround(ends)), ")"),
                              costs.compute * (units * setup.block() + ends)));
  } else {
    lines.push_back(ParameterLine("buffers",
                                  absl::StrCat("gathered in ", type, " from forward to backward"),
                                  costs.compute, stage, 1, 1));
  }
  const bool adds_whole =
      facts.sharding.reduce == "once a step" && facts.batch.micro_batches.value_or(1) > 1;
  if (adds_whole) {
    lines.push_back(ParameterLine("gradients", "whole gradients, until the last micro-batch",
                                  facts.system == "torchtitan" ? costs.reduced : costs.compute,
                                  stage, 1, 1));
  } else {
    const double largest =
        std::max(setup.block(), setup.parts.embedding / static_cast<double>(setup.tensor));
    const double each = costs.compute + (costs.reduced > costs.compute ? costs.reduced : 0);
    lines.push_back(PlainLine("buffers", "the gradient of the largest unit, before it is reduced",
                              absl::StrCat(each, " bytes x ", DigitsText(std::llround(largest))),
                              each * largest));
  }
  return lines;
}

// Without shards: DDP with autocast, or NO_SHARD.
std::vector<ByteLine> FullLines(const Facts& facts, const Setup& setup, const StageShare& stage) {
  const FsdpCosts costs = FindFsdpCosts(facts);
  const auto line = [&](const char* kind, std::string name, double bytes) {
    return ParameterLine(kind, std::move(name), bytes, stage, 1, 1);
  };
  std::vector<ByteLine> lines = {
      line("weights", "weights in " + TypeText(costs.master), costs.master),
      line("gradients", "gradients in " + TypeText(costs.master), costs.master),
      line("states", "moments", MomentBytes(facts, costs.master))};
  if (costs.compute < costs.master) {
    lines.push_back(line("buffers", "weights cast for compute", costs.compute));
  }
  if (setup.data * setup.context > 1) {
    lines.push_back(line("buffers", "buckets of DDP, as large as the gradients", costs.master));
  }
  return lines;
}

}  // namespace

SystemBytes FsdpBytes(const Facts& facts, const Setup& setup) {
  SystemBytes bytes;
  const bool is_titan = facts.system == "torchtitan";
  const bool shards = facts.sharding.what != "none";
  bytes.system = is_titan ? "torchtitan" : shards ? "FSDP" : "DDP";
  const Kernels kernels = !is_titan           ? Kernels::kModels
                          : IsCompiled(facts) ? Kernels::kCompiled
                                              : Kernels::kEager;
  const bool on_host = facts.offload.weights || facts.offload.states;
  for (const StageShare& stage : setup.stages) {
    std::vector<ByteLine> lines =
        shards ? ShardLines(facts, setup, stage, on_host) : FullLines(facts, setup, stage);
    for (ByteLine& one : ActivationLines(setup, facts, kernels, stage)) {
      lines.push_back(std::move(one));
    }
    if (stage.is_last) {
      const double log_softmax = 4 + (setup.element == 4 ? 4 : 2 + 4);
      for (ByteLine& one :
           HeadLines(setup, facts, log_softmax,
                     setup.element == 4 ? "logits and their log-softmax in f32"
                                        : "logits in 16 bits and f32, and their log-softmax")) {
        lines.push_back(std::move(one));
      }
    }
    const std::string before = bytes.device;
    KeepLargest(std::move(lines), stage, &bytes);
    if (bytes.device == before || !on_host || !shards) continue;
    const FsdpCosts costs = FindFsdpCosts(facts);
    const int64_t a_node = std::min(setup.a_node, setup.devices);
    const double each = 2 * costs.master + MomentBytes(facts, costs.master);
    ByteLine host = ParameterLine("states", "weights, gradients and moments", each, stage,
                                  setup.dense_ways, setup.expert_ways);
    host.formula = absl::StrCat(a_node, " devices x ", host.formula);
    host.bytes *= a_node;
    bytes.host = {std::move(host)};
  }
  bytes.sources = {
      is_titan ? "torchtitan, docs/fsdp.md, and PyTorch's fully_shard"
               : "PyTorch, FullyShardedDataParallel and DistributedDataParallel",
      "Korthikanti et al. 2022 (arXiv 2205.05198), section 4: PyTorch has no formula of "
      "activations",
      "PyTorch's cross entropy: logits cast to f32, and the log-softmax kept"};
  bytes.leaves_out = CommonlyLeftOut();
  bytes.leaves_out.insert(bytes.leaves_out.begin(),
                          "tensors of a block that are live for a moment, and what the allocator "
                          "reserves beyond them");
  bytes.notes = setup.notes;
  return bytes;
}

}  // namespace oneflow::foreign

// Megatron-LM, Megatron-Bridge and NeMo: bytes of a parameter as docs/user-guide/features/
// dist_optimizer.md lists them, saved tensors as Korthikanti et al. (2022) count them.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/time_text.h"
#include "tools/foreign/bytes/systems.h"

namespace oneflow::foreign {
namespace {

// Bytes of a parameter.
struct MegatronCosts {
  double weight = 2, gradient = 4;
  double master = 4;           // 0: the weights are in f32
  double copied_gradient = 0;  // in f32, for the update
  double moments = 8;
};

double BytesOfType(const Facts& facts, const char* key, double otherwise) {
  const Setting* setting = FindSetting(facts, key);
  if (setting == nullptr) return otherwise;
  const std::string type = setting->ValueText();
  if (absl::StrContains(type, "8")) return 1;
  return absl::StrContains(type, "16") ? 2 : 4;
}

MegatronCosts FindCosts(const Facts& facts) {
  MegatronCosts costs;
  if (facts.precision.compute == "f32") {
    costs.weight = 4;
    costs.master = 0;
  } else if (facts.precision.gradients_in_bf16 ||
             absl::StartsWith(facts.precision.compute, "fp16")) {
    costs.gradient = 2;
    costs.copied_gradient = 4;
  }
  costs.moments = MomentBytes(facts, 4);
  if (FindSetting(facts, "use_precision_aware_optimizer") != nullptr) {
    costs.master = std::min(costs.master, BytesOfType(facts, "main_params_dtype", costs.master));
    costs.moments =
        BytesOfType(facts, "exp_avg_dtype", 4) + BytesOfType(facts, "exp_avg_sq_dtype", 4);
    costs.copied_gradient = 0;
  }
  return costs;
}

std::vector<ByteLine> StageLines(const Facts& facts, const Setup& setup, const StageShare& stage,
                                 std::vector<ByteLine>* host) {
  const MegatronCosts costs = FindCosts(facts);
  const std::string& what = facts.sharding.what;
  const auto ways = [](bool is_split, int64_t ways) { return is_split ? ways : int64_t{1}; };
  const auto line = [&](const char* kind, std::string name, double bytes, bool is_split) {
    return ParameterLine(kind, std::move(name), bytes, stage, ways(is_split, setup.dense_ways),
                         ways(is_split, setup.expert_ways));
  };
  const bool weights = what == "weights", gradients = weights || what == "gradients";
  const std::string type = facts.precision.compute == "f32" ? "f32" : "16 bits";
  std::vector<ByteLine> lines = {
      line("weights", "weights in " + type, costs.weight, weights),
      line("gradients", costs.gradient == 4 ? "gradients in f32" : "gradients in 16 bits",
           costs.gradient, gradients)};
  const double states = costs.master + costs.copied_gradient + costs.moments;
  const Setting* fraction = FindSetting(facts, "optimizer_offload_fraction");
  const double share = !facts.offload.states ? 0
                       : fraction == nullptr || !fraction->value.is_number()
                           ? 1
                           : fraction->value.get<double>();
  std::string name = costs.master > 0 ? "masters and moments in f32" : "moments in f32";
  if (costs.copied_gradient > 0) name = "masters, moments and gradients for the update in f32";
  if (share < 1) lines.push_back(line("states", name, states * (1 - share), what != "none"));
  if (share > 0) {
    ByteLine of_host = line("states", "masters, moments and gradients in f32",
                            (states - costs.copied_gradient + 4) * share, what != "none");
    const int64_t a_node = std::min(setup.a_node, setup.devices);
    of_host.formula = absl::StrCat(a_node, " devices x ", of_host.formula);
    of_host.bytes *= a_node;
    host->push_back(std::move(of_host));
  }
  if (weights) {
    lines.push_back(PlainLine("buffers", "two blocks gathered, and the gradient of one",
                              absl::StrCat("(2 x ", costs.weight, " + ", costs.gradient,
                                           ") bytes x ", DigitsText(std::llround(setup.block()))),
                              (2 * costs.weight + costs.gradient) * setup.block()));
  }
  for (ByteLine& one : ActivationLines(setup, facts, Kernels::kFused, stage)) {
    lines.push_back(std::move(one));
  }
  if (stage.is_last) {
    for (ByteLine& one : HeadLines(setup, facts, 4, "logits in f32")) {
      lines.push_back(std::move(one));
    }
  }
  return lines;
}

}  // namespace

MegatronEstimate EstimateLikeMegatron(const Facts& facts, const Setup& setup) {
  const Shape& s = setup.shape;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const double h = number(s.hidden), layers = number(s.layers), p = number(setup.pipe),
               t = number(setup.tensor), v = number(s.vocab), gate = s.gated ? 1.5 : 1;
  const double norm = s.layer_norm ? 2 : 1;
  const double attention =
      2 * h * h * (1 + number(s.groups) / number(s.heads)) * number(s.projection()) / h;
  const double mlp = s.experts > 0 ? 0 : 2 * h * number(s.ffn) * gate;
  const double shared = 2 * h * number(s.shared_ffn) * gate;
  const double expert = s.experts > 0 ? 2 * h * number(s.ffn) * number(s.experts) * gate : 0;
  const double replicated = layers * (2 * h * norm + h * number(s.experts)) + norm * h;
  double split = (layers * (attention + mlp + shared) / p + h * v) / t;
  if (!s.tied && setup.pipe == 1) split += h * v / t;
  const double experts_over =
      number(facts.degrees.expert) * number(std::max<int64_t>(1, facts.degrees.expert_tensor));
  const bool distributed = facts.sharding.what != "none";
  const auto bytes = [&](double d) { return distributed ? 6 + 12 / d : 18; };
  const double d = number(setup.data),
               expert_d = std::max(1.0, std::floor(number(setup.devices) / (experts_over * p)));
  MegatronEstimate estimate;
  estimate.weights_and_optimizer =
      (split + replicated / p) * bytes(d) + expert * layers / p / experts_over * bytes(expert_d);

  const bool selective = facts.recompute.what != "none" && facts.recompute.here != "full" &&
                         !absl::StartsWith(facts.recompute.here, "full:");
  estimate.has_sequence_parallelism = facts.sequence_parallel && selective;
  const double sb = number(setup.sequence) * number(setup.micro);
  const bool interleaved = facts.schedule.chunks > 1;
  const double ffn = number(s.ffn);
  double kept = estimate.has_sequence_parallelism ? sb * h * (18 + 4 * ffn / h) * layers
                                                  : sb * h * (10 + 24 / t) * layers;
  kept += sb * p * (8 + h);
  if (interleaved) {
    kept *= 1 + (p - 1) / (p * number(facts.schedule.chunks));
  } else if (setup.pipe > 1 && setup.micro_batches > 0) {
    kept *= std::min(1.0, number(setup.micro_batches) / p);
  }
  if (estimate.has_sequence_parallelism) {
    if (setup.pipe == 1) kept += sb * h * 4 * (1 + v / h);
    estimate.activations = kept / t;
  } else {
    if (setup.pipe == 1) kept += 2 * sb * (v / t + h);
    estimate.activations = 1.05 * kept;
  }
  return estimate;
}

SystemBytes MegatronBytes(const Facts& facts, const Setup& setup) {
  SystemBytes bytes;
  bytes.system = facts.system == "megatron-bridge" ? "Megatron-Bridge"
                 : facts.system == "nemo"          ? "NeMo"
                                                   : "Megatron-LM";
  for (const StageShare& stage : setup.stages) {
    std::vector<ByteLine> host;
    std::vector<ByteLine> lines = StageLines(facts, setup, stage, &host);
    const std::string before = bytes.device;
    KeepLargest(std::move(lines), stage, &bytes);
    if (bytes.device != before) bytes.host = std::move(host);
  }
  const MegatronEstimate estimate = EstimateLikeMegatron(facts, setup);
  bytes.printed = {PlainLine("states", "weight and optimizer",
                             facts.sharding.what == "none" ? "18 bytes a parameter"
                                                           : "6 + 12 / d bytes a parameter",
                             estimate.weights_and_optimizer),
                   PlainLine("activations", "activation",
                             estimate.has_sequence_parallelism ? "s b h (18 + 4 f / h) L / t"
                                                               : "1.05 s b h (10 + 24 / t) L",
                             estimate.activations)};
  bytes.sources = {"Korthikanti et al. 2022 (arXiv 2205.05198), table 2",
                   "Megatron-LM, docs/user-guide/features/dist_optimizer.md",
                   "Megatron-LM, megatron/training/theoretical_memory_usage.py"};
  bytes.leaves_out = CommonlyLeftOut();
  bytes.leaves_out.insert(bytes.leaves_out.begin(),
                          "workspaces of Transformer Engine, and gathered inputs of products; a "
                          "gradient in 16 bits of each shape of weights, which its fused sums hand "
                          "to autograd");
  if (absl::StartsWith(facts.precision.compute, "fp8")) {
    bytes.leaves_out.emplace_back("copies of weights and inputs in FP8");
  }
  bytes.notes = setup.notes;
  if (!setup.shape.is_unfused) {
    bytes.notes.emplace_back("attention writes no scores to memory: without the paper's 5 a s / h");
  }
  if (setup.context > 1) {
    bytes.notes.emplace_back(
        "a context axis splits positions; Megatron's own estimator does not count that");
  }
  return bytes;
}

}  // namespace oneflow::foreign

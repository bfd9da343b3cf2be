#include "tools/foreign/bytes/saved.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/time_text.h"

namespace oneflow::foreign {
namespace {

// Blocks of a stage under one policy of recompute.
struct PolicyBlocks {
  std::string policy;
  double blocks = 0;
};

// Megatron's selective recompute of other modules than the core of attention has no value here that
// is exact: its words are kept.
std::string NamePolicy(const Facts& facts, std::string policy) {
  if (facts.recompute.is_exact || facts.recompute.what.empty()) return policy;
  const std::string& what = facts.recompute.what;
  for (const char* module : {"core_attn", "layernorm", "mlp", "moe"}) {
    if (absl::StrContains(what, module)) return "modules";
  }
  return policy;
}

// "full:10,attention": the first 10 of each slice, and the rest; "full:4/4/4/3" says it by slice.
std::vector<PolicyBlocks> SplitPolicies(const Facts& facts, const StageShare& stage) {
  const std::string here = facts.recompute.here.empty() ? "none" : facts.recompute.here;
  const int64_t pipe = facts.degrees.pipe;
  const std::vector<int64_t>& slices = facts.schedule.stage_layers;
  std::vector<PolicyBlocks> found;
  const auto add = [&](const std::string& policy, int64_t blocks) {
    if (blocks < 1) return;
    for (PolicyBlocks& one : found) {
      if (one.policy == policy) return void(one.blocks += static_cast<double>(blocks));
    }
    found.push_back({policy, static_cast<double>(blocks)});
  };
  const size_t count = slices.empty() ? stage.of : slices.size();
  for (size_t slice = stage.index; slice < count; slice += pipe) {
    int64_t left = slices.empty() ? stage.blocks : slices[slice];
    for (const auto part : absl::StrSplit(here, ',')) {
      const std::vector<std::string> words = absl::StrSplit(part, ':');
      if (words[0] == "gather") continue;
      int64_t take = left;
      if (words.size() > 1) {
        const std::vector<std::string> numbers = absl::StrSplit(words[1], '/');
        int64_t number = 0;
        if (absl::SimpleAtoi(numbers[std::min(slice, numbers.size() - 1)], &number)) {
          take = std::min(left, number);
        }
      }
      add(NamePolicy(facts, words[0]), take);
      left -= take;
    }
    add("none", left);
  }
  return found;
}

class TokenTensors {
 public:
  void Add(std::string what, double factor, int64_t elements, bool is_split) {
    if (factor <= 0 || elements <= 0) return;
    all_.push_back({std::move(what), Times(factor, elements),
                    factor * static_cast<double>(elements), is_split});
  }
  std::vector<SavedTensor> Take() { return std::move(all_); }

 private:
  std::vector<SavedTensor> all_;
};

// The mixture or the MLP of a block.
void AddMlp(const Setup& setup, Kernels kernels, bool keeps_middle, TokenTensors& tensors) {
  const Shape& s = setup.shape;
  const double e = static_cast<double>(setup.element);
  const bool is_fused = kernels == Kernels::kFused || kernels == Kernels::kCompiled;
  // Without a gate: the input and the output of the activation.
  double factor = (!s.gated ? 2 : is_fused ? 3 : 4) * e;
  if (!keeps_middle) factor -= e * (is_fused || !s.gated ? 1 : 2);
  if (s.experts == 0) {
    tensors.Add(s.gated ? "gate, up and their product" : "the activation's input and output",
                factor, s.ffn, true);
    return;
  }
  tensors.Add("the router's logits and scores in f32", 8, s.experts, false);
  tensors.Add("tokens sent to experts", e * static_cast<double>(s.experts_of_token), s.hidden,
              true);
  tensors.Add("experts' gate, up and their product",
              factor * static_cast<double>(s.experts_of_token), s.ffn, true);
  tensors.Add("the shared experts' gate, up and their product", factor, s.shared_ffn, true);
}

// torchtitan's selective recompute keeps the block's input, attention's output and of every two
// products the first: those of queries, values, the gate and the way down.
void AddEverySecond(const Setup& setup, TokenTensors& tensors) {
  const Shape& s = setup.shape;
  const auto e = static_cast<double>(setup.element);
  tensors.Add("the block's input", e, s.hidden, false);
  tensors.Add("queries and values, as produced", e, s.projection() + s.groups * s.head_dim, true);
  tensors.Add("attention's output", e, s.projection(), true);
  if (s.experts > 0) {
    tensors.Add("experts' gates", e * static_cast<double>(s.experts_of_token), s.ffn, true);
    tensors.Add("the shared experts' gate", e, s.shared_ffn, true);
  } else {
    tensors.Add(s.gated ? "the gate" : "the MLP's first product", e, s.ffn, true);
  }
  tensors.Add("the way down", e, s.hidden, false);
}

}  // namespace

std::vector<SavedTensor> SavedByBlock(const Setup& setup, const Facts& facts, Kernels kernels,
                                      const std::string& policy) {
  const Shape& s = setup.shape;
  const auto e = static_cast<double>(setup.element);
  TokenTensors tensors;
  if (policy == "full") {
    tensors.Add("the block's input", e, s.hidden, false);
    return tensors.Take();
  }
  if (policy == "selective" && (kernels == Kernels::kEager || kernels == Kernels::kCompiled)) {
    AddEverySecond(setup, tensors);
    return tensors.Take();
  }
  const std::string modules = policy == "modules"     ? facts.recompute.what
                              : policy == "selective" ? "layernorm, act"
                                                      : "";
  const auto again = [&](const char* module) { return absl::StrContains(modules, module); };
  const bool mixes = s.experts > 0;
  const bool no_mlp = mixes ? absl::StrContains(absl::StrCat(modules, ","), "moe,") : again("mlp");
  tensors.Add(
      kernels == Kernels::kModels ? "inputs of norms in f32, and normed" : "inputs of norms",
      2 * (kernels == Kernels::kModels ? 4 + e : e), s.hidden, false);
  if (!again("layernorm")) {
    tensors.Add("inputs of the products behind norms", 2 * e, s.hidden, false);
  }
  tensors.Add("queries, keys, values", e, s.projection() + 2 * s.groups * s.head_dim, true);
  if (s.is_unfused && policy != "attention" && !again("core_attn")) {
    const bool drops = facts.dropout_attention > 0;
    tensors.Add(drops ? "scores of attention, masks and what they leave" : "scores of attention",
                (drops ? 2 * e + 1 : e) * static_cast<double>(s.heads), setup.sequence, true);
  }
  tensors.Add("attention's output", e, s.projection(), true);
  if (!no_mlp) {
    AddMlp(setup, kernels, /*keeps_middle=*/!again("act"), tensors);
  }
  if (facts.dropout_hidden > 0) tensors.Add("masks of dropout", 2, s.hidden, false);
  return tensors.Take();
}

namespace {

std::string TensorText(const Setup& setup, const Facts& facts, bool is_split) {
  return setup.tensor > 1 && (is_split || facts.sequence_parallel)
             ? absl::StrCat(" / ", setup.tensor)
             : "";
}

double TensorWays(const Setup& setup, const Facts& facts, bool is_split) {
  return is_split || facts.sequence_parallel ? static_cast<double>(setup.tensor) : 1.0;
}

std::string TokenText(const Setup& setup) {
  return absl::StrCat(DigitsText(setup.tokens()), " tokens");
}

}  // namespace

std::vector<ByteLine> ActivationLines(const Setup& setup, const Facts& facts, Kernels kernels,
                                      const StageShare& stage) {
  std::vector<ByteLine> lines;
  const auto tokens = static_cast<double>(setup.tokens());
  const double share = facts.offload.activations ? facts.offload.activations_share : 0;
  bool computes_again = false;
  for (const PolicyBlocks& part : SplitPolicies(facts, stage)) {
    computes_again = computes_again || part.policy == "full";
    const std::string blocks =
        absl::StrCat(part.blocks, part.blocks == 1 ? " block" : " blocks",
                     share > 0 ? absl::StrCat(" x ", 1 - share, " that stay") : "");
    for (const SavedTensor& tensor : SavedByBlock(setup, facts, kernels, part.policy)) {
      if (share >= 1) continue;
      lines.push_back(
          PlainLine("activations", tensor.what,
                    absl::StrCat(blocks, " x ", stage.held_text, " x ", TokenText(setup), " x ",
                                 tensor.formula, TensorText(setup, facts, tensor.is_split)),
                    part.blocks * (1 - share) * stage.held * tokens * tensor.bytes /
                        TensorWays(setup, facts, tensor.is_split)));
    }
  }
  if (computes_again) {
    double split = 0, replicated = 0;
    for (const SavedTensor& tensor : SavedByBlock(setup, facts, kernels, "none")) {
      (tensor.is_split || facts.sequence_parallel ? split : replicated) += tensor.bytes;
    }
    lines.push_back(PlainLine(
        "activations", "the block that is computed again",
        absl::StrCat(TokenText(setup), " x (", DigitsText(std::llround(replicated)), " + ",
                     DigitsText(std::llround(split)), " / ", setup.tensor, ") bytes"),
        tokens * (replicated + split / static_cast<double>(setup.tensor))));
  }
  if (stage.is_first) {
    const auto h = setup.shape.hidden;
    const bool drops = facts.dropout_hidden > 0;
    lines.push_back(PlainLine("activations",
                              drops ? "tokens, and masks behind the embedding" : "tokens",
                              absl::StrCat(stage.held_text, " x ", TokenText(setup), " x ",
                                           drops ? absl::StrCat("(8 + ", DigitsText(h), ")") : "8",
                                           TensorText(setup, facts, false)),
                              stage.held * tokens * (8.0 + (drops ? static_cast<double>(h) : 0)) /
                                  TensorWays(setup, facts, false)));
  }
  return lines;
}

std::vector<ByteLine> HeadLines(const Setup& setup, const Facts& facts, double bytes,
                                const std::string& what) {
  const Shape& s = setup.shape;
  const auto tokens = static_cast<double>(setup.tokens());
  const double inputs = 2.0 * static_cast<double>(setup.element);
  return {
      PlainLine("activations", "inputs of the last norm and of the head",
                absl::StrCat(TokenText(setup), " x ", Times(inputs, s.hidden),
                             TensorText(setup, facts, false)),
                tokens * inputs * static_cast<double>(s.hidden) / TensorWays(setup, facts, false)),
      PlainLine("logits", what,
                absl::StrCat(TokenText(setup), " x ", Times(bytes, s.vocab),
                             TensorText(setup, facts, true)),
                tokens * bytes * static_cast<double>(s.vocab) / static_cast<double>(setup.tensor))};
}

}  // namespace oneflow::foreign

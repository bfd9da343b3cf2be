// oneflow model FAMILY: writes the logical graph of a model.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/model/gpt.h"
#include "oneflow_core/model/llama.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {
namespace {

// A graph, and what is printed of it.
struct Model {
  proto::Graph graph;
  int64_t parameters = 0;
  std::string numbers;  // "layers 12, heads 12, ..."
};

// True if the value of a flag is the first of its two words.
absl::StatusOr<bool> IsFirst(const std::string& flag, const std::string& value,
                             const std::string& first, const std::string& second) {
  if (value == first) return true;
  if (value == second) return false;
  return InputError("--" + flag + "=" + value, "is not known", "use " + first + " or " + second);
}

// A field gets the value of its flag where that is given.
struct FlagField {
  const Arguments& args;
  template <typename T>
  bool operator()(const char* flag, const T& value, T* field) const {
    const bool given = args.Given(flag);
    if (given) *field = value;
    return given;
  }
};

absl::StatusOr<Model> MakeGpt(const Arguments& args) {
  GptConfig config;
  if (!FLAGS_preset.empty()) {
    ASSIGN_OR_RETURN(config, GptPreset(FLAGS_preset));
  }
  const FlagField set{args};
  set("layers", FLAGS_layers, &config.layers);
  set("heads", FLAGS_heads, &config.heads);
  set("hidden", FLAGS_hidden, &config.hidden);
  set("sequence", FLAGS_sequence, &config.sequence);
  set("vocab", FLAGS_vocab, &config.vocab);
  set("bias", FLAGS_bias, &config.bias);
  set("tied", FLAGS_tied, &config.tied);
  set("dropout", FLAGS_dropout, &config.dropout);
  ASSIGN_OR_RETURN(config.fused_attention,
                   IsFirst("attention", FLAGS_attention, "fused", "unfused"));
  ASSIGN_OR_RETURN(config.stored_masks, IsFirst("masks", FLAGS_masks, "stored", "recomputed"));
  RETURN_IF_ERROR(CheckGptConfig(config));
  return Model{
      BuildGpt(config), ParameterCount(config),
      absl::StrFormat("layers %d, heads %d, hidden %d, sequence %d, vocabulary %d", config.layers,
                      config.heads, config.hidden, config.sequence, config.vocab)};
}

// "8,1,4,8192"; "none".
absl::StatusOr<std::optional<RotaryOptions::Scaling>> ParseScaling(const std::string& text) {
  if (text == "none") return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  RotaryOptions::Scaling s;
  const bool numbers = parts.size() == 4 && absl::SimpleAtod(parts[0], &s.factor) &&
                       absl::SimpleAtod(parts[1], &s.low_frequency_factor) &&
                       absl::SimpleAtod(parts[2], &s.high_frequency_factor) &&
                       absl::SimpleAtoi(parts[3], &s.original_positions);
  if (numbers) return s;
  return InputError("--rope_scaling=" + text, "is neither four numbers nor none",
                    "write FACTOR,LOW,HIGH,POSITIONS, as in --rope_scaling=8,1,4,8192");
}

absl::StatusOr<LlamaConfig> LlamaFromFlags(const Arguments& args) {
  LlamaConfig config;
  if (!FLAGS_preset.empty()) {
    ASSIGN_OR_RETURN(config, LlamaPreset(FLAGS_preset));
  }
  const FlagField set{args};
  set("layers", FLAGS_layers, &config.layers);
  const bool heads = set("heads", FLAGS_heads, &config.heads);
  const bool hidden = set("hidden", FLAGS_hidden, &config.hidden);
  set("sequence", FLAGS_sequence, &config.sequence);
  set("vocab", FLAGS_vocab, &config.vocab);
  set("tied", FLAGS_tied, &config.tied);
  set("theta", FLAGS_theta, &config.theta);
  set("norm_epsilon", FLAGS_norm_epsilon, &config.epsilon);
  set("window", FLAGS_window, &config.window);
  set("experts", FLAGS_experts, &config.experts);
  set("choices", FLAGS_choices, &config.choices);
  set("shared", FLAGS_shared, &config.shared);
  set("normalized", FLAGS_normalized, &config.normalized);
  set("capacity", FLAGS_capacity, &config.capacity);
  set("scores", FLAGS_scores, &config.scores);
  set("bias_rate", FLAGS_bias_rate, &config.bias_rate);
  set("balance", FLAGS_balance, &config.balance);
  set("z", FLAGS_z, &config.z);
  set("run", FLAGS_run, &config.run);
  set("qkv_bias", FLAGS_qkv_bias, &config.qkv_bias);
  set("qk_norm", FLAGS_qk_norm, &config.qk_norm);
  if (args.Given("rope_scaling")) {
    ASSIGN_OR_RETURN(config.scaling, ParseScaling(FLAGS_rope_scaling));
  }
  // What is not given follows from what is.
  if (!set("groups", FLAGS_groups, &config.groups) && heads && FLAGS_preset.empty()) {
    config.groups = config.heads;
  }
  if (!set("inner", FLAGS_inner, &config.inner) && hidden) config.inner = UsualInner(config.hidden);
  if (!set("head_dim", FLAGS_head_dim, &config.head_dim) && (heads || hidden)) {
    if (config.heads < 1 || config.hidden % config.heads != 0) {
      return InputError("--heads=" + std::to_string(config.heads),
                        "does not divide --hidden=" + std::to_string(config.hidden),
                        "write --head_dim=N, the size of a head");
    }
    config.head_dim = config.hidden / config.heads;
  }
  RETURN_IF_ERROR(CheckLlamaConfig(config));
  return config;
}

absl::StatusOr<Model> MakeLlama(const Arguments& args) {
  ASSIGN_OR_RETURN(const LlamaConfig config, LlamaFromFlags(args));
  std::string numbers = absl::StrFormat(
      "layers %d, heads %d in %d groups, hidden %d, inner %d, sequence %d, "
      "vocabulary %d",
      config.layers, config.heads, config.groups, config.hidden, config.inner, config.sequence,
      config.vocab);
  if (config.experts > 0) {
    absl::StrAppendFormat(&numbers, ", %d of %d experts: %d parameters for a token", config.choices,
                          config.experts, ActiveParameterCount(config));
  }
  return Model{BuildLlama(config), ParameterCount(config), std::move(numbers)};
}

// A row for each family of oneflow_core/model/families.h.
struct FamilyFlags {
  std::string_view family;
  absl::StatusOr<Model> (*make)(const Arguments& args);
  std::vector<std::string> own;  // flags that no other family has
};

std::vector<FamilyFlags> Table() {
  return {{"gpt", MakeGpt, {"bias", "dropout", "attention", "masks"}},
          {"llama",
           MakeLlama,
           {"groups", "head_dim", "inner", "theta", "rope_scaling", "norm_epsilon", "qkv_bias",
            "qk_norm", "window", "experts", "choices", "shared", "normalized", "capacity", "scores",
            "bias_rate", "balance", "z", "run"}}};
}

// "`oneflow model gpt ...` or `oneflow model llama ...`"
std::string FamiliesText() {
  std::string text;
  for (const Family& family : Families()) {
    text += (text.empty() ? "`" : " or `");
    text += "oneflow model " + std::string(family.name) + " ...`";
  }
  return text;
}

// The preset that a word means, and its family: "llama2" is short for llama2-7b.
const std::string* FindPreset(const Family& family, const std::string& word) {
  for (const std::string& preset : family.presets) {
    if (absl::EqualsIgnoreCase(word, preset) || preset.starts_with(word + "-")) return &preset;
  }
  return nullptr;
}

absl::StatusOr<FamilyFlags> FindFamilyFlags(const std::vector<std::string>& words) {
  if (words.empty()) {
    return InputError("oneflow model", "lacks the family of the model", "write " + FamiliesText());
  }
  const std::string where = "oneflow model " + absl::StrJoin(words, " ");
  const std::vector<FamilyFlags> table = Table();
  const auto row = std::find_if(table.begin(), table.end(),
                                [&](const FamilyFlags& f) { return f.family == words[0]; });
  if (row != table.end() && words.size() == 1) return *row;
  const std::string& word = row != table.end() ? words[1] : words[0];
  std::string families;
  for (const Family& family : Families()) {
    if (const std::string* preset = FindPreset(family, word); preset != nullptr) {
      return InputError(
          where, "\"" + word + "\" is a preset, not a family",
          "write `oneflow model " + std::string(family.name) + " --preset=" + *preset + "`");
    }
    families += (families.empty() ? "" : ", and ") + std::string(family.name) + " of " +
                std::string(family.models);
  }
  if (row != table.end()) {
    return InputError(where, "\"" + word + "\" belongs to no flag", "see `oneflow model --help`");
  }
  return InputError(where, "there is no family \"" + word + "\"",
                    "there are " + families + ": write " + FamiliesText() +
                        " with --preset=NAME or --layers=N ...");
}

// Flags and presets of other families are refused.
absl::Status CheckOthers(const FamilyFlags& chosen, const Arguments& args) {
  for (const FamilyFlags& other : Table()) {
    if (other.family == chosen.family) continue;
    const std::string family(other.family);
    for (const std::string& flag : other.own) {
      if (!args.Given(flag)) continue;
      return InputError("--" + flag + "=" + args.Repeated(flag)[0],
                        "is a flag of `oneflow model " + family + "`, and the family is " +
                            std::string(chosen.family),
                        "leave it out");
    }
  }
  for (const Family& other : Families()) {
    if (other.name == chosen.family) continue;
    for (const std::string& preset : other.presets) {
      if (!absl::EqualsIgnoreCase(preset, FLAGS_preset)) continue;
      return InputError(
          "--preset=" + FLAGS_preset, "is a preset of the family " + std::string(other.name),
          "write `oneflow model " + std::string(other.name) + " --preset=" + preset + "`");
    }
  }
  return absl::OkStatus();
}

absl::Status WriteModelFiles(const Arguments& args) {
  ASSIGN_OR_RETURN(const FamilyFlags family, FindFamilyFlags(args.positional));
  RETURN_IF_ERROR(CheckOthers(family, args));
  if (FLAGS_out.empty()) return InputError("--out", "is missing", "write --out=model.textproto");
  ASSIGN_OR_RETURN(const Model model, family.make(args));
  RETURN_IF_ERROR(WriteFile(FLAGS_out, GraphFileText(model.graph)));
  std::printf("%s: %lld parameters, %d ops; %s\n", FLAGS_out.c_str(),
              static_cast<long long>(model.parameters), model.graph.op_size(),
              model.numbers.c_str());
  return absl::OkStatus();
}

}  // namespace

Verb ModelVerb() {
  return {verbs::kModel, "write the logical graph of a GPT or a Llama",
          "oneflow model gpt --preset=gpt2-124m --out=gpt.textproto\n"
          "oneflow model gpt --layers=4 --heads=4 --hidden=128 --sequence=64 --vocab=256 "
          "--bias=false --out=small.textproto\n"
          "oneflow model gpt --preset=gpt3-175b --attention=unfused --dropout=0.1 --masks=stored "
          "--out=megatron.textproto\n"
          "oneflow model llama --preset=llama3.1-8b --sequence=8192 --out=llama.textproto\n",
          WriteModelFiles, /*words=*/"gpt|llama"};
}

}  // namespace oneflow

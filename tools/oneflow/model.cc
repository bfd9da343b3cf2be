// oneflow model gpt: writes the logical graph of a GPT.
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/gpt.h"
#include "tools/oneflow/flags.h"
#include "tools/oneflow/verb.h"

namespace oneflow {
namespace {

// True if the value of a flag is the first of its two words.
absl::StatusOr<bool> IsFirst(const std::string& flag, const std::string& value,
                             const std::string& first, const std::string& second) {
  if (value == first) return true;
  if (value == second) return false;
  return InputError("--" + flag + "=" + value, "is not known", "use " + first + " or " + second);
}

absl::StatusOr<GptConfig> ConfigFromFlags(const Arguments& args) {
  GptConfig config;
  if (!FLAGS_preset.empty()) {
    ASSIGN_OR_RETURN(config, GptPreset(FLAGS_preset));
  }
  if (args.Given("layers")) config.layers = FLAGS_layers;
  if (args.Given("heads")) config.heads = FLAGS_heads;
  if (args.Given("hidden")) config.hidden = FLAGS_hidden;
  if (args.Given("sequence")) config.sequence = FLAGS_sequence;
  if (args.Given("vocab")) config.vocab = FLAGS_vocab;
  if (args.Given("bias")) config.bias = FLAGS_bias;
  if (args.Given("tied")) config.tied = FLAGS_tied;
  if (args.Given("dropout")) config.dropout = FLAGS_dropout;
  ASSIGN_OR_RETURN(config.fused_attention,
                   IsFirst("attention", FLAGS_attention, "fused", "unfused"));
  ASSIGN_OR_RETURN(config.stored_masks, IsFirst("masks", FLAGS_masks, "stored", "recomputed"));
  RETURN_IF_ERROR(CheckGptConfig(config));
  return config;
}

// `oneflow model gpt`: the only family there is.
absl::Status CheckFamily(const std::vector<std::string>& words) {
  if (words == std::vector<std::string>{"gpt"}) return absl::OkStatus();
  if (words.empty()) {
    return InputError("oneflow model", "lacks the family of the model",
                      "there is one: write `oneflow model gpt ...`");
  }
  const std::string word = words[0] == "gpt" ? words[1] : words[0];
  const std::vector<std::string> presets = GptPresets();
  const std::string where = "oneflow model " + absl::StrJoin(words, " ");
  for (const std::string& preset : presets) {
    const bool is_preset = absl::EqualsIgnoreCase(word, preset) || preset.starts_with(word + "-");
    if (!is_preset || word == "gpt") continue;
    return InputError(where, "\"" + word + "\" is a preset, not a family",
                      "write `oneflow model gpt --preset=" + preset + "`");
  }
  if (words[0] == "gpt") {
    return InputError(where, "\"" + word + "\" belongs to no flag", "see `oneflow model --help`");
  }
  return InputError(where, "there is no family \"" + word + "\"",
                    "there is one, gpt, of GPT-2 and GPT-3: write `oneflow model gpt ...` with "
                    "--preset=NAME, of " +
                        absl::StrJoin(presets, ", ") + ", or --layers=N ...");
}

absl::Status Model(const Arguments& args) {
  RETURN_IF_ERROR(CheckFamily(args.positional));
  if (FLAGS_out.empty()) return InputError("--out", "is missing", "write --out=gpt.textproto");
  ASSIGN_OR_RETURN(const GptConfig config, ConfigFromFlags(args));
  const proto::Graph graph = BuildGpt(config);
  RETURN_IF_ERROR(WriteFile(FLAGS_out, GraphFileText(graph)));
  std::printf(
      "%s: %lld parameters, %d ops; layers %lld, heads %lld, hidden %lld, sequence %lld, "
      "vocabulary %lld\n",
      FLAGS_out.c_str(), static_cast<long long>(ParameterCount(config)), graph.op_size(),
      static_cast<long long>(config.layers), static_cast<long long>(config.heads),
      static_cast<long long>(config.hidden), static_cast<long long>(config.sequence),
      static_cast<long long>(config.vocab));
  return absl::OkStatus();
}

}  // namespace

Verb ModelVerb() {
  return {verbs::kModel, "write the logical graph of a GPT",
          "oneflow model gpt --preset=gpt2-124m --out=gpt.textproto\n"
          "oneflow model gpt --layers=4 --heads=4 --hidden=128 --sequence=64 --vocab=256 "
          "--bias=false --out=small.textproto\n"
          "oneflow model gpt --preset=gpt3-175b --attention=unfused --dropout=0.1 --masks=stored "
          "--out=megatron.textproto\n",
          Model, /*words=*/"gpt"};
}

}  // namespace oneflow

// oneflow model FAMILY: writes the logical graph of a model.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/add_adapters.h"
#include "oneflow_core/model/families.h"
#include "oneflow_core/model/model.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/named_graph.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"
#include "training/checkpoint/base.h"

namespace oneflow {
namespace {

// "layers 12, heads 12, hidden 768, sequence 1024, vocabulary 50257".
std::string NumbersText(const proto::Model& model, const proto::Graph& graph) {
  std::string text = absl::StrCat("layers ", model.layers(), ", heads ", model.heads());
  if (model.has_groups()) absl::StrAppend(&text, " in ", model.groups(), " groups");
  absl::StrAppend(&text, ", hidden ", model.hidden());
  if (model.has_inner()) absl::StrAppend(&text, ", inner ", model.inner());
  absl::StrAppend(&text, ", sequence ", model.sequence(), ", vocabulary ", model.vocab());
  if (model.experts() > 0) {
    absl::StrAppend(&text, ", ", model.experts_per_token(), " of ", model.experts(),
                    " experts: ", CountActiveParameters(model, graph), " parameters for a token");
  }
  return text;
}

// "; trains 294912 of them (0.24 %)", as print_trainable_parameters of peft says; "": all.
std::string TrainedText(const proto::Graph& graph) {
  const int64_t trained = CountTrained(graph), all = CountParameters(graph);
  if (trained == all) return "";
  return absl::StrFormat("; trains %d of %d parameters (%.4g %%)", trained, all,
                         100.0 * static_cast<double>(trained) / static_cast<double>(all));
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
  for (const Preset& preset : family.presets) {
    if (absl::EqualsIgnoreCase(word, preset.name) || preset.name.starts_with(word + "-")) {
      return &preset.name;
    }
  }
  return nullptr;
}

absl::StatusOr<std::string> FindFamilyName(const std::vector<std::string>& words) {
  if (words.empty()) {
    return InputError("oneflow model", "lacks the family of the model", "write " + FamiliesText());
  }
  const std::string where = "oneflow model " + absl::StrJoin(words, " ");
  const bool known = std::any_of(Families().begin(), Families().end(),
                                 [&](const Family& f) { return f.name == words[0]; });
  if (known && words.size() == 1) return words[0];
  const std::string& word = known ? words[1] : words[0];
  std::string families;
  for (const Family& family : Families()) {
    if (const std::string* preset = FindPreset(family, word); preset != nullptr) {
      return InputError(
          where, "\"" + word + "\" is a preset, not a family",
          "write `oneflow model " + std::string(family.name) + " --preset=" + *preset + "`");
    }
    families += (families.empty() ? "" : ", ") + std::string(family.name) + " of " +
                std::string(family.models);
  }
  if (known) {
    return InputError(where, "\"" + word + "\" belongs to no flag", "see `oneflow model --help`");
  }
  return InputError(where, "there is no family \"" + word + "\"",
                    "there are " + families +
                        ": write `oneflow model FAMILY --preset=NAME`, or --layers=N and so on");
}

struct BuiltModel {
  proto::Model model;
  proto::Graph graph;
};

// --from names the model.
absl::StatusOr<BuiltModel> BuildFrom(const Arguments& args) {
  const std::string from = "--from=" + FLAGS_from;
  if (!args.positional.empty()) {
    return InputError(from, "is given beside the family \"" + args.positional[0] + "\"",
                      "leave one of the two out");
  }
  if (args.Given("preset")) {
    return InputError(from, "is given beside --preset=" + args.Repeated("preset")[0],
                      "leave one of the two out");
  }
  ASSIGN_OR_RETURN(NamedModel named, NamedModelFromFlags(args, FLAGS_from));
  if (IsModelFolder(FLAGS_from)) RETURN_IF_ERROR(NameBase(FLAGS_from, &named.graph));
  return BuiltModel{std::move(named.model), std::move(named.graph)};
}

absl::StatusOr<BuiltModel> BuildSaid(const Arguments& args) {
  if (args.Given("from")) return BuildFrom(args);
  if (FLAGS_approximate) {
    return InputError("--approximate", "acts on nothing without --from", "leave it out");
  }
  proto::Model said;
  ASSIGN_OR_RETURN(*said.mutable_family(), FindFamilyName(args.positional));
  RETURN_IF_ERROR(SetGiven(ModelRows(), args, &said));
  BuiltModel built;
  ASSIGN_OR_RETURN(built.model, CompleteModel(said));
  ASSIGN_OR_RETURN(built.graph, AdaptGraph(BuildModel(built.model), built.model));
  return built;
}

absl::Status WriteModelFiles(const Arguments& args) {
  if (FLAGS_out.empty()) return InputError("--out", "is missing", "write --out=model.textproto");
  ASSIGN_OR_RETURN(const BuiltModel built, BuildSaid(args));
  const auto& [model, graph] = built;
  RETURN_IF_ERROR(WriteFile(FLAGS_out, GraphFileText(graph)));
  return Print(absl::StrCat(FLAGS_out, ": ", CountParameters(graph), " parameters, ",
                            graph.op_size(), " ops; ", NumbersText(model, graph),
                            TrainedText(graph), "\n"));
}

}  // namespace

Verb ModelVerb() {
  return {
      verbs::kModel, "write the logical graph of a model",
      "oneflow model gpt --preset=gpt2-124m --out=gpt.textproto\n"
      "oneflow model gpt --layers=4 --heads=4 --hidden=128 --sequence=64 --vocab=256 "
      "--bias=false --out=small.textproto\n"
      "oneflow model gpt --preset=gpt3-175b --attention=unfused --dropout=0.1 --masks=stored "
      "--out=megatron.textproto\n"
      "oneflow model llama --preset=llama3.1-8b --sequence=8192 --out=llama.textproto\n"
      "oneflow model --from=Qwen/Qwen2.5-7B --sequence=4096 --out=qwen.textproto\n"
      "oneflow model --from=Qwen/Qwen2.5-7B --lora=rank:16,targets:attn+mlp --out=lora.textproto\n",
      WriteModelFiles, /*words=*/"gpt|llama|gemma|gpt_oss|olmo|glm"};
}

}  // namespace oneflow

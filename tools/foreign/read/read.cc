#include "tools/foreign/read/read.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "training/hugging_face/named_model.h"

namespace oneflow::foreign {
namespace {

// In the order in which they are asked: the more special first.
std::vector<Reader> Readers() {
  return {
      NeoxReader(),     TorchtitanReader(), BridgeReader(),
      MegatronReader(), DeepSpeedReader(),  AccelerateReader(),
  };
}

// Takes the model that the user names where the files say none. Its differences are the user's to
// accept, as those of a model of the files are.
absl::Status TakeNamedModel(const ForeignInput& input, Facts& facts) {
  if (input.model.empty() || facts.model.model) return absl::OkStatus();
  NamedModelOptions options{.approximate = true};
  const std::optional<int64_t> sequence = input.sequence ? input.sequence : facts.sequence;
  if (sequence) options.said.set_sequence(*sequence);
  if (input.vocab) options.said.set_vocab(*input.vocab);
  ASSIGN_OR_RETURN(const NamedModel named, FindNamedModel(input.model, options));
  ModelFacts& model = facts.model;
  model.model = named.model;
  model.from = "--model";
  model.parameters = named.parameters;
  model.vocab_given = named.model.vocab();
  model.differences = named.differences;
  facts.sequence = named.model.sequence();
  std::erase_if(facts.questions, [](const Question& question) {
    return question.flag.starts_with("--model") || question.flag.starts_with("--vocab") ||
           question.flag.starts_with("--sequence");
  });
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Facts> ReadForeign(const ForeignInput& input) {
  ASSIGN_OR_RETURN(Sources sources, ReadSources(input.files, input.words));
  for (const Reader& reader : Readers()) {
    if (!reader.knows(sources)) continue;
    ASSIGN_OR_RETURN(Facts facts, reader.read(sources, input));
    RETURN_IF_ERROR(TakeNamedModel(input, facts));
    facts.model.preset =
        facts.model.model ? FindPresetOfShape(*facts.model.model, facts.model.vocab_given) : "";
    return facts;
  }
  const std::string where =
      input.files.empty() ? "the words behind --" : absl::StrJoin(input.files, " ");
  return InputError(where, "is no configuration of a system that is known here",
                    "there are Megatron-LM, Megatron-Bridge, NeMo, torchtitan, DeepSpeed, "
                    "accelerate, the Trainer of transformers and GPT-NeoX; a model alone is asked "
                    "about as `oneflow fit config.json --devices=8`");
}

}  // namespace oneflow::foreign

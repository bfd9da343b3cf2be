#include "tools/foreign/read/read.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"

namespace oneflow::foreign {
namespace {

// In the order in which they are asked: the more special first.
std::vector<Reader> Readers() {
  return {
      NeoxReader(),     TorchtitanReader(), BridgeReader(),
      MegatronReader(), DeepSpeedReader(),  AccelerateReader(),
  };
}

}  // namespace

absl::StatusOr<Facts> ReadForeign(const ForeignInput& input) {
  ASSIGN_OR_RETURN(Sources sources, ReadSources(input.files, input.words));
  for (const Reader& reader : Readers()) {
    if (!reader.knows(sources)) continue;
    ASSIGN_OR_RETURN(Facts facts, reader.read(sources, input));
    if (input.devices) facts.devices_a_node = input.devices_a_node;
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

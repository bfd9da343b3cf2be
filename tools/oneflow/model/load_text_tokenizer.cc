#include "tools/oneflow/model/load_text_tokenizer.h"

#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/flags.h"

namespace oneflow {

absl::StatusOr<Tokenizer> LoadTextTokenizer(const std::string& spec) {
  ASSIGN_OR_RETURN(Tokenizer tokenizer, LoadTokenizer(spec, {.special = FLAGS_special}));
  if (!FLAGS_special || !tokenizer.special.empty()) return tokenizer;
  return InputError("--special", "acts on nothing: tokenizer " + spec + " has no special tokens",
                    "leave it out");
}

}  // namespace oneflow

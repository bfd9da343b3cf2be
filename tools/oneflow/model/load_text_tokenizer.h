// The tokenizer of a text that a verb encodes.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {

// LoadTokenizer with --special. Error, beside its own: --special, and it has no special tokens.
absl::StatusOr<Tokenizer> LoadTextTokenizer(const std::string& spec);

}  // namespace oneflow

// The files beside the weights of a folder, which a checkpoint carries.
//
//   ASSIGN_OR_RETURN(const BesideWeights beside, ReadBesideWeights(folder));
//   beside.files: config.json, tokenizer_config.json, ...; beside.left: {"modeling.py",
//   "original/"}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "training/files/model_files.h"
#include "training/hugging_face/model_folder.h"

namespace oneflow {

inline constexpr int64_t kMostFileBytes = int64_t{16} << 20;
inline constexpr int64_t kMostVocabularyBytes = int64_t{256} << 20;
inline constexpr int64_t kMostBytes = int64_t{512} << 20;  // all files together

// True for the names of a tokenizer's files, but those that say how it is used.
bool IsVocabulary(std::string_view name);

struct BesideWeights {
  ModelFiles files;               // by name
  std::vector<std::string> left;  // names of what is neither carried nor imported
};

// Files *.json, *.jinja, *.txt, *.md, *.model, README*, LICENSE* and NOTICE* of at most
// kMostFileBytes (those of the tokenizer's vocabulary: kMostVocabularyBytes) in the folder, and
// those in additional_chat_templates, are carried, as long as all have at most kMostBytes. Weights,
// their indices, adapters and code are not. Hidden files are not looked at. An input error if a
// file that programs need cannot be read; others are left.
absl::StatusOr<BesideWeights> ReadBesideWeights(const ModelFolder& folder);

}  // namespace oneflow

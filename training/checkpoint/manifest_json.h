// Reading and writing of a checkpoint's JSON, for manifests (manifest.h) and parts of them
// (part.h). Internal to this folder.
//
// The bytes that are read may be damaged or foreign: none of them reaches a CHECK.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "training/checkpoint/manifest.h"

namespace oneflow::manifest_json {

using Json = nlohmann::ordered_json;

Json ToObject(const StoredRun& run);
Json ToObject(const ModelNotes& notes);
absl::StatusOr<ModelNotes> ParseNotes(const Json& json, std::string_view where);
// One line for each entry of `header` and for each variable, then the checksum of these lines.
std::string ToText(const Json& header, const std::vector<StoredVariable>& variables);

// HasChecksum: true if the text ends with a checksum as ToText writes it. IsIntact: true if that
// checksum is the text's.
bool HasChecksum(std::string_view text);
bool IsIntact(std::string_view text);

// Typed reading of a JSON object. The first mistake is kept; after it every field reads as empty.
class Fields {
 public:
  Fields(const Json& object, std::string_view where) : object_(object), where_(where) {}

  std::string String(const char* key);
  int64_t Int(const char* key);
  int64_t Bytes(const char* key);  // a size or an offset of bytes: >= 0
  uint64_t Unsigned(const char* key);
  double Positive(const char* key);
  std::vector<std::string> Strings(const char* key);
  std::vector<int32_t> Ids(const char* key);  // of tokens: >= 0
  Dims Sizes(const char* key);                // sizes and offsets in a tensor: >= 0
  const Json& Object(const char* key);
  const Json& List(const char* key);
  bool Has(const char* key) const { return object_.is_object() && object_.contains(key); }
  const absl::Status& status() const { return status_; }

 private:
  const Json* Find(const char* key, bool (Json::*is)() const noexcept);
  void Refuse(const char* key);

  const Json& object_;
  const std::string where_;
  const Json empty_ = Json::array();
  absl::Status status_;
};

// Reads runs and variables, whose blocks have `block` bytes.
class RunParser {
 public:
  RunParser(int64_t block, std::string where) : block_(block), where_(std::move(where)) {}

  // The name of the file may have `folder` before it, and then be one in a folder of that.
  absl::StatusOr<StoredRun> Run(const Json& json, const std::string& at,
                                std::string_view folder = "") const;
  // A file that is one run.
  absl::StatusOr<StoredRun> File(const Json& json, const char* key) const;
  // Does not check its slices: CheckCover, CheckSlice.
  absl::StatusOr<StoredVariable> Variable(const Json& json) const;

 private:
  const int64_t block_;
  const std::string where_;
};

// Fails if bytes of a file belong to two runs, or to none.
absl::Status CheckFiles(const std::vector<StoredVariable>& variables);

}  // namespace oneflow::manifest_json

#include "training/data/token_file_meta.h"

#include <filesystem>
#include <system_error>

#include "nlohmann/json.hpp"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "oneflow tokens";
constexpr int64_t kVersion = 1;

// Null where there is none.
Json Field(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) ? object[key] : Json();
}

}  // namespace

std::string MetaPath(const std::string& bin) {
  return bin.substr(0, bin.size() - 4) + ".meta.json";
}

std::string TokenizerFolder(const std::string& bin) {
  const size_t slash = bin.rfind('/');
  return (slash == std::string::npos ? "" : bin.substr(0, slash + 1)) + "tokenizer";
}

absl::Status WriteTokenFileMeta(const std::string& bin, const TokenFileMeta& meta) {
  const Json json = {{"format", kFormat},
                     {"version", kVersion},
                     {"tokens", meta.tokens},
                     {"tokenizer", {{"name", meta.tokenizer.name}, {"hash", meta.tokenizer.hash}}}};
  return WriteFile(MetaPath(bin), JsonText(json) + "\n");
}

absl::StatusOr<std::optional<TokenFileMeta>> ReadTokenFileMeta(const std::string& bin) {
  const std::string path = MetaPath(bin);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, "it belongs to the .bin beside it"));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Json tokens = Field(json, "tokens"), tokenizer = Field(json, "tokenizer");
  const Json name = Field(tokenizer, "name"), hash = Field(tokenizer, "hash");
  if (Field(json, "format") != kFormat || Field(json, "version") != kVersion ||
      !tokens.is_number_integer() || !name.is_string() || !hash.is_string()) {
    return InputError(path, "does not say in version 1 what tokens the .bin beside it holds",
                      "make the pair again with `oneflow data`");
  }
  return TokenFileMeta{tokens.get<int64_t>(), {name.get<std::string>(), hash.get<std::string>()}};
}

}  // namespace oneflow

#include "actor_runtime/checkpoint/manifest.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "xxhash.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "oneflow checkpoint";
constexpr int64_t kVersion = 1;

Json ToObject(const StoredSlice& s) {
  return {{"begin", s.slice.begin}, {"size", s.slice.size}, {"file", s.file},
          {"offset", s.offset},     {"bytes", s.bytes},     {"xxh3", s.checksum}};
}

Json ToObject(const StoredVariable& v) {
  Json slices = Json::array();
  for (const StoredSlice& slice : v.slices) slices.push_back(ToObject(slice));
  return {{"name", v.name},
          {"dtype", std::string(Name(v.dtype))},
          {"dims", v.dims},
          {"slices", std::move(slices)}};
}

Json HeaderOf(const Manifest& m) {
  Json header = {{"format", kFormat}, {"version", kVersion}, {"model", m.model},
                 {"step", m.step},    {"seed", m.seed},      {"plan", m.plan}};
  if (!m.mesh.empty()) header["mesh"] = m.mesh;
  if (m.tokens > 0) header["tokens"] = m.tokens;
  return header;
}

// Of everything but the checksum itself, in a form that does not depend on white space.
std::string ChecksumOf(Json manifest) {
  manifest.erase("xxh3");
  const std::string text = JsonText(manifest);
  return Checksum(std::as_bytes(std::span(text)));
}

// Typed reading of a JSON object. The first mistake is kept; after it everything reads as empty.
class Fields {
 public:
  Fields(const Json& object, std::string_view where) : object_(object), where_(where) {}

  std::string String(const char* key) {
    const Json* value = Find(key, &Json::is_string);
    return value == nullptr ? "" : value->get<std::string>();
  }
  int64_t Int(const char* key) {
    const Json* value = Find(key, &Json::is_number_integer);
    return value == nullptr ? 0 : value->get<int64_t>();
  }
  uint64_t Unsigned(const char* key) {
    const Json* value = Find(key, &Json::is_number_unsigned);
    return value == nullptr ? 0 : value->get<uint64_t>();
  }
  const Json& List(const char* key) {
    static constexpr auto is_array = &Json::is_array;
    const Json* value = Find(key, is_array);
    return value == nullptr ? empty_ : *value;
  }
  // Sizes and offsets: integers >= 0.
  Dims Sizes(const char* key) {
    Dims dims;
    for (const Json& item : List(key)) {
      if (!item.is_number_unsigned() || item.get<uint64_t>() > kMaxSize) {
        Refuse(key);
        return {};
      }
      dims.push_back(item.get<int64_t>());
    }
    return dims;
  }
  bool Has(const char* key) const { return object_.is_object() && object_.contains(key); }
  const absl::Status& status() const { return status_; }

 private:
  static constexpr uint64_t kMaxSize = uint64_t{1} << 40;  // of one dimension

  const Json* Find(const char* key, bool (Json::*is)() const noexcept) {
    const auto it = object_.is_object() ? object_.find(key) : object_.end();
    if (it != object_.end() && ((*it).*is)()) return &*it;
    Refuse(key);
    return nullptr;
  }
  void Refuse(const char* key) {
    if (!status_.ok()) return;
    status_ = absl::DataLossError(
        absl::StrCat(where_, ": \"", key, "\" is missing or odd; the checkpoint is damaged"));
  }

  const Json& object_;
  const std::string where_;
  const Json empty_ = Json::array();
  absl::Status status_;
};

absl::StatusOr<StoredSlice> ParseSlice(const Json& json, const std::string& where) {
  Fields fields(json, where);
  StoredSlice slice;
  slice.slice = {fields.Sizes("begin"), fields.Sizes("size")};
  slice.file = fields.String("file");
  slice.offset = fields.Int("offset");
  slice.bytes = fields.Int("bytes");
  slice.checksum = fields.String("xxh3");
  RETURN_IF_ERROR(fields.status());
  if (slice.file.empty() || slice.file.find('/') != std::string::npos) {
    return absl::DataLossError(absl::StrCat(where, ": no file name: ", slice.file));
  }
  return slice;
}

absl::StatusOr<StoredVariable> ParseVariable(const Json& json, std::string_view where) {
  Fields fields(json, where);
  StoredVariable variable;
  variable.name = fields.String("name");
  variable.dims = fields.Sizes("dims");
  const std::string dtype = fields.String("dtype");
  const Json& slices = fields.List("slices");
  RETURN_IF_ERROR(fields.status());
  const std::string at = absl::StrCat(ToAbsl(where), ": variable ", variable.name);
  absl::StatusOr<DType> type = ParseDType(dtype);
  if (!type.ok()) return Annotate(type.status(), at);
  variable.dtype = *type;
  for (const Json& slice : slices) {
    ASSIGN_OR_RETURN(StoredSlice stored, ParseSlice(slice, at));
    variable.slices.push_back(std::move(stored));
  }
  const absl::Status cover = CheckCover(variable);
  if (!cover.ok()) return Annotate(cover, at);
  return variable;
}

absl::Status CheckHeader(const Json& json, std::string_view where) {
  Fields fields(json, where);
  const std::string format = fields.String("format");
  const int64_t version = fields.Int("version");
  if (!fields.status().ok() || format != kFormat) {
    return InputError(where, "not the manifest of a oneflow checkpoint", "give its folder");
  }
  if (version != kVersion) {
    return InputError(where,
                      absl::StrCat("format version ", version, ", this program reads ", kVersion),
                      "use the release that wrote the checkpoint");
  }
  if (fields.String("xxh3") != ChecksumOf(json)) {
    return absl::DataLossError(
        absl::StrCat(ToAbsl(where), ": does not match its own checksum; use another checkpoint"));
  }
  return absl::OkStatus();
}

bool Overlap(const Slice& a, const Slice& b) { return Intersect(a, b).elements() > 0; }

bool Inside(const Slice& slice, const Dims& dims) {
  if (slice.begin.size() != dims.size() || slice.size.size() != dims.size()) return false;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (slice.begin[d] > dims[d] || slice.size[d] > dims[d] - slice.begin[d]) return false;
  }
  return true;
}

}  // namespace

std::string Checksum(std::span<const std::byte> bytes) {
  return absl::StrCat(absl::Hex(XXH3_64bits(bytes.data(), bytes.size()), absl::kZeroPad16));
}

std::string ToJson(const Manifest& manifest) {
  const Json header = HeaderOf(manifest);
  Json whole = header;
  Json variables = Json::array();
  std::string text = "{\n";
  for (const auto& [key, value] : header.items()) {
    absl::StrAppend(&text, JsonText(Json(key)), ": ", JsonText(value), ",\n");
  }
  absl::StrAppend(&text, "\"variables\": [");
  for (const StoredVariable& variable : manifest.variables) {
    variables.push_back(ToObject(variable));
    absl::StrAppend(&text, variables.size() > 1 ? ",\n" : "\n", JsonText(variables.back()));
  }
  whole["variables"] = std::move(variables);
  absl::StrAppend(&text, "\n],\n\"xxh3\": \"", ChecksumOf(std::move(whole)), "\"\n}\n");
  return text;
}

absl::StatusOr<Manifest> ParseManifest(std::string_view text, std::string_view where) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return absl::DataLossError(
        absl::StrCat(ToAbsl(where), ": not valid JSON; use another checkpoint"));
  }
  RETURN_IF_ERROR(CheckHeader(json, where));
  Fields fields(json, where);
  Manifest manifest;
  manifest.model = fields.String("model");
  manifest.plan = fields.String("plan");
  manifest.step = fields.Int("step");
  manifest.seed = fields.Unsigned("seed");
  if (fields.Has("mesh")) manifest.mesh = fields.String("mesh");
  if (fields.Has("tokens")) manifest.tokens = fields.Int("tokens");
  const Json& variables = fields.List("variables");
  RETURN_IF_ERROR(fields.status());
  for (const Json& variable : variables) {
    ASSIGN_OR_RETURN(StoredVariable stored, ParseVariable(variable, where));
    manifest.variables.push_back(std::move(stored));
  }
  return manifest;
}

absl::Status CheckCover(const StoredVariable& variable) {
  if (!Countable(variable.dims)) {
    return absl::DataLossError(
        absl::StrCat("has more than 2^48 elements: ", ToString(variable.dims)));
  }
  int64_t elements = 0;
  for (size_t i = 0; i < variable.slices.size(); ++i) {
    const StoredSlice& s = variable.slices[i];
    const auto where =
        absl::StrCat("slice ", ToString(s.slice.begin), " + ", ToString(s.slice.size));
    if (!Inside(s.slice, variable.dims)) {
      return absl::DataLossError(absl::StrCat(where, " is outside ", ToString(variable.dims)));
    }
    if (s.bytes != s.slice.elements() * static_cast<int64_t>(SizeOf(variable.dtype)) ||
        s.offset < 0) {
      return absl::DataLossError(absl::StrCat(where, " has ", s.bytes, " bytes at ", s.offset));
    }
    for (size_t j = 0; j < i; ++j) {
      if (Overlap(s.slice, variable.slices[j].slice)) {
        return absl::DataLossError(absl::StrCat(where, " overlaps another"));
      }
    }
    elements += s.slice.elements();
  }
  if (elements == Product(variable.dims)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("has ", elements, " of ", Product(variable.dims),
                                          " elements of ", ToString(variable.dims)));
}

}  // namespace oneflow

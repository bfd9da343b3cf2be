#include "actor_runtime/checkpoint/manifest.h"

#include <glog/logging.h>

#include <algorithm>
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
constexpr char kMend[] = "; use another checkpoint";

Json ToObject(const StoredRun& r) {
  return {{"file", r.file}, {"offset", r.offset}, {"bytes", r.bytes}, {"xxh3", r.checksums}};
}

Json ToObject(const StoredSlice& s) {
  Json object = {{"begin", s.slice.begin}, {"size", s.slice.size}};
  object.update(ToObject(s.run));
  return object;
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
  Json header = {{"format", kFormat}, {"version", m.version}, {"model", m.model},
                 {"step", m.step},    {"seed", m.seed},       {"plan", m.plan}};
  if (!m.mesh.empty()) header["mesh"] = m.mesh;
  if (m.tokens > 0) header["tokens"] = m.tokens;
  header["block"] = m.block;
  header["graph"] = ToObject(m.graph);
  header["train"] = ToObject(m.train);
  return header;
}

std::string ChecksumOfText(std::string_view text) {
  return Checksum(std::as_bytes(std::span(text)));
}

// The lines that end a manifest which began with `text`.
std::string EndOf(std::string_view text) {
  return absl::StrCat("\"xxh3\": \"", ChecksumOfText(text), "\"\n}\n");
}

bool IsIntact(std::string_view text) {
  const size_t end = EndOf("").size();
  return text.size() >= end &&
         text.substr(text.size() - end) == EndOf(text.substr(0, text.size() - end));
}

// Of version 1: of everything but the checksum itself, whatever the white space.
bool IsIntactVersion1(Json manifest) {
  const auto it = manifest.find("xxh3");
  const std::string checksum =
      it != manifest.end() && it->is_string() ? it->get<std::string>() : "";
  manifest.erase("xxh3");
  return checksum == ChecksumOfText(JsonText(manifest));
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
  // Sizes and offsets of bytes.
  int64_t Bytes(const char* key) {
    const int64_t value = Int(key);
    if (value < 0) Refuse(key);
    return value;
  }
  std::vector<std::string> Strings(const char* key) {
    std::vector<std::string> strings;
    for (const Json& item : List(key)) {
      if (!item.is_string()) Refuse(key);
      strings.push_back(item.is_string() ? item.get<std::string>() : "");
    }
    return strings;
  }
  const Json& Object(const char* key) {
    const Json* value = Find(key, &Json::is_object);
    return value == nullptr ? empty_ : *value;
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

// Reads what a manifest of one version says of variables and files.
class RunParser {
 public:
  RunParser(const Manifest& manifest, std::string where)
      : version_(manifest.version), block_(manifest.block), where_(std::move(where)) {}

  absl::StatusOr<StoredRun> Run(const Json& json, const std::string& at) const {
    Fields fields(json, at);
    StoredRun run;
    run.file = fields.String("file");
    run.offset = fields.Bytes("offset");
    run.bytes = fields.Bytes("bytes");
    run.checksums = version_ == 1 ? std::vector{fields.String("xxh3")} : fields.Strings("xxh3");
    RETURN_IF_ERROR(fields.status());
    if (run.file.empty() || run.file.find('/') != std::string::npos) {
      return absl::DataLossError(absl::StrCat(at, ": no file name: ", run.file));
    }
    if (run.bytes > 0 &&
        static_cast<int64_t>(run.checksums.size()) != (run.bytes - 1) / block_ + 1) {
      return absl::DataLossError(
          absl::StrCat(at, ": ", run.checksums.size(), " checksums of ", run.bytes, " bytes"));
    }
    return run;
  }

  // A file that is one run.
  absl::StatusOr<StoredRun> File(const Json& json, const char* key) const {
    const std::string at = absl::StrCat(where_, ": ", key);
    ASSIGN_OR_RETURN(StoredRun run, Run(json, at));
    if (run.offset == 0 && run.bytes > 0) return run;
    return absl::DataLossError(absl::StrCat(at, ": has ", run.bytes, " bytes at ", run.offset));
  }

  absl::StatusOr<StoredVariable> Variable(const Json& json) const {
    Fields fields(json, where_);
    StoredVariable variable;
    variable.name = fields.String("name");
    variable.dims = fields.Sizes("dims");
    const std::string dtype = fields.String("dtype");
    const Json& slices = fields.List("slices");
    RETURN_IF_ERROR(fields.status());
    const std::string at = absl::StrCat(where_, ": variable ", variable.name);
    absl::StatusOr<DType> type = ParseDType(dtype);
    if (!type.ok()) return Annotate(type.status(), at);
    variable.dtype = *type;
    for (const Json& slice : slices) {
      Fields place(slice, at);
      StoredSlice stored{{place.Sizes("begin"), place.Sizes("size")}, {}};
      RETURN_IF_ERROR(place.status());
      ASSIGN_OR_RETURN(stored.run, Run(slice, at));
      variable.slices.push_back(std::move(stored));
    }
    const absl::Status cover = CheckCover(variable);
    if (!cover.ok()) return Annotate(cover, at);
    return variable;
  }

 private:
  const int64_t version_, block_;
  const std::string where_;
};

using RunsOfFile = std::map<int64_t, int64_t>;  // bytes, by offset

// Whether no bytes of a file belong to two runs, or to none.
absl::Status CheckFiles(const Manifest& manifest) {
  std::map<std::string, RunsOfFile> files;
  for (const StoredVariable& variable : manifest.variables) {
    for (const StoredSlice& slice : variable.slices) {
      const StoredRun& run = slice.run;
      if (files[run.file].emplace(run.offset, run.bytes).second) continue;
      return absl::DataLossError(absl::StrCat(run.file, ": two slices are at byte ", run.offset));
    }
  }
  for (const auto& [file, runs] : files) {
    int64_t next = 0;
    for (const auto& [offset, bytes] : runs) {
      if (offset != next) {
        return absl::DataLossError(
            absl::StrCat(file, ": a slice is at byte ", offset, ", not ", next));
      }
      next = NextRun(offset + bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckHeader(std::string_view text, const Json& json, std::string_view where) {
  Fields fields(json, where);
  const std::string format = fields.String("format");
  const int64_t version = fields.Int("version");
  if (!fields.status().ok() || format != kFormat) {
    return InputError(where, "not the manifest of a oneflow checkpoint", "give its folder");
  }
  if (version != 1 && version != kCheckpointVersion) {
    return InputError(
        where,
        absl::StrCat("format version ", version, ", this program reads 1 and ", kCheckpointVersion),
        "use the release that wrote the checkpoint");
  }
  if (!(version == 1 ? IsIntactVersion1(json) : IsIntact(text))) {
    return absl::DataLossError(
        absl::StrCat(ToAbsl(where), ": does not match its own checksum", kMend));
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

std::vector<std::string> ChecksumsOfBlocks(std::span<const std::byte> bytes) {
  std::vector<std::string> checksums;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min<size_t>(bytes.size(), kBlockBytes))) {
    checksums.push_back(Checksum(bytes.first(std::min<size_t>(bytes.size(), kBlockBytes))));
  }
  return checksums;
}

int64_t NextRun(int64_t end) { return (end + kRunAlignment - 1) / kRunAlignment * kRunAlignment; }

std::string ToJson(const Manifest& manifest) {
  CHECK_EQ(manifest.version, kCheckpointVersion);
  std::string text = "{\n";
  const Json header = HeaderOf(manifest);
  for (const auto& [key, value] : header.items()) {
    absl::StrAppend(&text, JsonText(Json(key)), ": ", JsonText(value), ",\n");
  }
  absl::StrAppend(&text, "\"variables\": [");
  const char* separator = "\n";
  for (const StoredVariable& variable : manifest.variables) {
    absl::StrAppend(&text, std::exchange(separator, ",\n"), JsonText(ToObject(variable)));
  }
  absl::StrAppend(&text, "\n],\n");
  return text + EndOf(text);
}

absl::StatusOr<Manifest> ParseManifest(std::string_view text, std::string_view where) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return absl::DataLossError(absl::StrCat(ToAbsl(where), ": not valid JSON", kMend));
  }
  RETURN_IF_ERROR(CheckHeader(text, json, where));
  Fields fields(json, where);
  Manifest manifest;
  manifest.version = fields.Int("version");
  manifest.model = fields.String("model");
  manifest.plan = fields.String("plan");
  manifest.step = fields.Int("step");
  manifest.seed = fields.Unsigned("seed");
  if (fields.Has("mesh")) manifest.mesh = fields.String("mesh");
  if (fields.Has("tokens")) manifest.tokens = fields.Int("tokens");
  const bool old = manifest.version == 1;
  manifest.block = old ? std::numeric_limits<int64_t>::max() : fields.Bytes("block");
  const Json& variables = fields.List("variables");
  RETURN_IF_ERROR(fields.status());
  if (manifest.block == 0) {
    return absl::DataLossError(absl::StrCat(ToAbsl(where), ": blocks of 0 bytes", kMend));
  }
  const RunParser parser(manifest, std::string(where));
  if (!old) {
    const Json &graph = fields.Object("graph"), &train = fields.Object("train");
    RETURN_IF_ERROR(fields.status());
    ASSIGN_OR_RETURN(manifest.graph, parser.File(graph, "graph"));
    ASSIGN_OR_RETURN(manifest.train, parser.File(train, "train"));
  }
  for (const Json& variable : variables) {
    ASSIGN_OR_RETURN(StoredVariable stored, parser.Variable(variable));
    manifest.variables.push_back(std::move(stored));
  }
  RETURN_IF_ERROR(Annotate(CheckFiles(manifest), where));
  return manifest;
}

std::map<std::string, int64_t> FileSizes(const Manifest& manifest) {
  std::map<std::string, int64_t> sizes;
  for (const StoredVariable& variable : manifest.variables) {
    for (const StoredSlice& slice : variable.slices) {
      int64_t& size = sizes[slice.run.file];
      size = std::max(size, slice.run.offset + slice.run.bytes);
    }
  }
  return sizes;
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
    if (s.run.bytes != s.slice.elements() * static_cast<int64_t>(SizeOf(variable.dtype))) {
      return absl::DataLossError(absl::StrCat(where, " has ", s.run.bytes, " bytes"));
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

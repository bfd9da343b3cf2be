#include "training/checkpoint/manifest_json.h"

#include <map>
#include <span>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"

namespace oneflow::manifest_json {
Json ToObject(const StoredRun& r) {
  return {{"file", r.file}, {"offset", r.offset}, {"bytes", r.bytes}, {"xxh3", r.checksums}};
}

namespace {

constexpr uint64_t kMaxSize = uint64_t{1} << 40;  // of one dimension

// True for the name of a file, and with `folders` for one in a folder, too: never for a path that
// leads out of where it begins.
bool IsFileName(std::string_view path, bool folders) {
  const size_t slash = path.find('/');
  const std::string_view first = path.substr(0, slash);
  if (first.empty() || first == "." || first == "..") return false;
  return slash == path.npos || (folders && IsFileName(path.substr(slash + 1), false));
}

Json SliceObject(const StoredSlice& s) {
  Json object = {{"begin", s.slice.begin}, {"size", s.slice.size}};
  object.update(ToObject(s.run));
  return object;
}

Json VariableObject(const StoredVariable& v) {
  Json slices = Json::array();
  for (const StoredSlice& slice : v.slices) slices.push_back(SliceObject(slice));
  return {{"name", v.name},
          {"dtype", std::string(Name(v.dtype))},
          {"dims", v.dims},
          {"slices", std::move(slices)}};
}

// The lines that end a manifest which began with `text`.
std::string SignatureLines(std::string_view text) {
  return absl::StrCat("\"xxh3\": \"", Checksum(std::as_bytes(std::span(text))), "\"\n}\n");
}

}  // namespace

Json ToObject(const ModelNotes& notes) {
  Json object = {{"model_type", notes.model_type},
                 {"dtype", notes.dtype},
                 {"vocab", notes.vocab},
                 {"positions", notes.positions},
                 {"end_ids", notes.end_ids}};
  if (notes.begin_id) object["begin_id"] = *notes.begin_id;
  if (!notes.dtypes.empty()) object["dtypes"] = notes.dtypes;
  return object;
}

absl::StatusOr<ModelNotes> ParseNotes(const Json& json, std::string_view where) {
  Fields fields(json, where);
  ModelNotes notes;
  notes.model_type = fields.String("model_type");
  notes.dtype = fields.String("dtype");
  notes.vocab = fields.Bytes("vocab");
  notes.positions = fields.Bytes("positions");
  notes.end_ids = fields.Sizes("end_ids");
  if (fields.Has("begin_id")) notes.begin_id = fields.Bytes("begin_id");
  if (fields.Has("dtypes")) {
    Fields dtypes(fields.Object("dtypes"), where);
    for (const auto& [name, dtype] : fields.Object("dtypes").items()) {
      notes.dtypes[name] = dtypes.String(name.c_str());
    }
    RETURN_IF_ERROR(dtypes.status());
  }
  RETURN_IF_ERROR(fields.status());
  return notes;
}

std::string ToText(const Json& header, const std::vector<StoredVariable>& variables) {
  std::string text = "{\n";
  for (const auto& [key, value] : header.items()) {
    absl::StrAppend(&text, JsonText(Json(key)), ": ", JsonText(value), ",\n");
  }
  absl::StrAppend(&text, "\"variables\": [");
  const char* separator = "\n";
  for (const StoredVariable& variable : variables) {
    absl::StrAppend(&text, std::exchange(separator, ",\n"), JsonText(VariableObject(variable)));
  }
  absl::StrAppend(&text, "\n],\n");
  return text + SignatureLines(text);
}

bool HasChecksum(std::string_view text) {
  const std::string end = SignatureLines("");
  const size_t digits = end.find_last_of('"') - 16;
  if (text.size() < end.size()) return false;
  text.remove_prefix(text.size() - end.size());
  return text.substr(0, digits) == end.substr(0, digits) &&
         text.substr(digits + 16) == end.substr(digits + 16);
}

bool IsIntact(std::string_view text) {
  const size_t end = SignatureLines("").size();
  return text.size() >= end &&
         text.substr(text.size() - end) == SignatureLines(text.substr(0, text.size() - end));
}

std::string Fields::String(const char* key) {
  const Json* value = Find(key, &Json::is_string);
  return value == nullptr ? "" : value->get<std::string>();
}

int64_t Fields::Int(const char* key) {
  const Json* value = Find(key, &Json::is_number_integer);
  return value == nullptr ? 0 : value->get<int64_t>();
}

int64_t Fields::Bytes(const char* key) {
  const int64_t value = Int(key);
  if (value < 0) Refuse(key);
  return value;
}

uint64_t Fields::Unsigned(const char* key) {
  const Json* value = Find(key, &Json::is_number_unsigned);
  return value == nullptr ? 0 : value->get<uint64_t>();
}

double Fields::Positive(const char* key) {
  const Json* value = Find(key, &Json::is_number);
  if (value == nullptr) return 0;
  if (!(value->get<double>() > 0)) Refuse(key);
  return value->get<double>();
}

std::vector<std::string> Fields::Strings(const char* key) {
  std::vector<std::string> strings;
  for (const Json& item : List(key)) {
    if (!item.is_string()) Refuse(key);
    strings.push_back(item.is_string() ? item.get<std::string>() : "");
  }
  return strings;
}

std::vector<int32_t> Fields::Ids(const char* key) {
  std::vector<int32_t> ids;
  for (const Json& item : List(key)) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > INT32_MAX) {
      Refuse(key);
      return {};
    }
    ids.push_back(item.get<int32_t>());
  }
  return ids;
}

Dims Fields::Sizes(const char* key) {
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

const Json& Fields::Object(const char* key) {
  const Json* value = Find(key, &Json::is_object);
  return value == nullptr ? empty_ : *value;
}

const Json& Fields::List(const char* key) {
  static constexpr auto is_array = &Json::is_array;
  const Json* value = Find(key, is_array);
  return value == nullptr ? empty_ : *value;
}

const Json* Fields::Find(const char* key, bool (Json::*is)() const noexcept) {
  const auto it = object_.is_object() ? object_.find(key) : object_.end();
  if (it != object_.end() && ((*it).*is)()) return &*it;
  Refuse(key);
  return nullptr;
}

void Fields::Refuse(const char* key) {
  if (!status_.ok()) return;
  status_ = absl::DataLossError(
      absl::StrCat(where_, ": \"", key, "\" is missing or odd; the checkpoint is damaged"));
}

absl::StatusOr<StoredRun> RunParser::Run(const Json& json, const std::string& at,
                                         std::string_view folder) const {
  Fields fields(json, at);
  StoredRun run;
  run.file = fields.String("file");
  run.offset = fields.Bytes("offset");
  run.bytes = fields.Bytes("bytes");
  run.checksums = fields.Strings("xxh3");
  RETURN_IF_ERROR(fields.status());
  std::string_view name = run.file;
  const bool below = !folder.empty() && name.starts_with(folder);
  if (below) name.remove_prefix(folder.size());
  if (!IsFileName(name, below)) {
    return absl::DataLossError(absl::StrCat(at, ": no file name: ", run.file));
  }
  if (run.bytes > 0 && static_cast<int64_t>(run.checksums.size()) != (run.bytes - 1) / block_ + 1) {
    return absl::DataLossError(
        absl::StrCat(at, ": ", run.checksums.size(), " checksums of ", run.bytes, " bytes"));
  }
  return run;
}

absl::StatusOr<StoredRun> RunParser::File(const Json& json, const char* key) const {
  const std::string at = absl::StrCat(where_, ": ", key);
  ASSIGN_OR_RETURN(StoredRun run, Run(json, at));
  if (run.offset == 0 && run.bytes > 0) return run;
  return absl::DataLossError(absl::StrCat(at, ": has ", run.bytes, " bytes at ", run.offset));
}

absl::StatusOr<StoredVariable> RunParser::Variable(const Json& json) const {
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
    Fields bounds(slice, at);
    StoredSlice stored{{bounds.Sizes("begin"), bounds.Sizes("size")}, {}};
    RETURN_IF_ERROR(bounds.status());
    ASSIGN_OR_RETURN(stored.run, Run(slice, at));
    variable.slices.push_back(std::move(stored));
  }
  return variable;
}

using RunsOfFile = std::map<int64_t, int64_t>;  // bytes, by offset

absl::Status CheckFiles(const std::vector<StoredVariable>& variables) {
  std::map<std::string, RunsOfFile> files;
  for (const StoredVariable& variable : variables) {
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

}  // namespace oneflow::manifest_json

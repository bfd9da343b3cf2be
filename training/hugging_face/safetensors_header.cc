#include "training/hugging_face/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/json_text.h"
#include "oneflow_core/base/status.h"
#include "training/hugging_face/strict_json.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kMetadata[] = "__metadata__";

struct KnownType {
  std::string_view name;
  int64_t bytes;
  std::optional<FileType> type;
};

constexpr KnownType kStoredTypes[] = {
    {"F32", 4, FileType::kF32},
    {"BF16", 2, FileType::kBF16},
    {"F16", 2, FileType::kF16},
    {"F64", 8, {}},
    {"I64", 8, {}},
    {"U64", 8, {}},
    {"C64", 8, {}},
    {"I32", 4, {}},
    {"U32", 4, {}},
    {"I16", 2, {}},
    {"U16", 2, {}},
    {"I8", 1, {}},
    {"U8", 1, {}},
    {"BOOL", 1, {}},
    {"F8_E4M3", 1, {}},
    {"F8_E5M2", 1, {}},
    {"F8_E8M0", 1, {}},
};

const KnownType* FindType(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kStoredTypes), std::end(kStoredTypes),
                                         [&](auto& t) { return t.name == name; });
  return found == std::end(kStoredTypes) ? nullptr : found;
}

// Takes the events of the parser. Each returns false after the first mistake, which ends parsing.
class HeaderEvents final : public Json::json_sax_t {
 public:
  explicit HeaderEvents(std::string where) : where_(std::move(where)) {}

  bool null() override { return Odd("null"); }
  bool boolean(bool) override { return Odd("a boolean"); }
  bool number_integer(Json::number_integer_t value) override {
    return depth_ == 3 ? Refuse(absl::StrCat(FieldText(), " has the negative number ", value))
                       : Odd("a number");
  }
  bool number_unsigned(Json::number_unsigned_t value) override {
    if (depth_ != 3) return Odd("a number");
    if (value > std::numeric_limits<int64_t>::max()) {
      return Refuse(absl::StrCat(FieldText(), " has ", value, ", more than 2^63 - 1"));
    }
    numbers_.push_back(static_cast<int64_t>(value));
    return true;
  }
  bool number_float(Json::number_float_t, const std::string& text) override {
    return depth_ == 3 ? Refuse(absl::StrCat(FieldText(), " has ", text, ", which is no integer"))
                       : Odd("a number");
  }
  bool string(std::string& value) override {
    if (depth_ == 2 && is_metadata_) {
      header_.metadata[field_] = std::move(value);
      return true;
    }
    if (depth_ != 2 || field_ != "dtype") return Odd("a string");
    const KnownType* const type = FindType(value);
    if (type == nullptr) return Refuse("dtype " + Quoted(value) + " is not known");
    tensor_.type_name = std::move(value);
    tensor_.type = type->type;
    return true;
  }
  bool binary(Json::binary_t&) override { return Odd("bytes"); }

  bool start_object(size_t) override {
    if (depth_ > 1) return Odd("an object");
    ++depth_;
    fields_.clear();
    return true;
  }
  bool key(std::string& name) override {
    if (depth_ == 1) {
      tensor_ = {.name = name};
      is_metadata_ = name == kMetadata;
      if (!names_.insert(name).second) return Refuse("occurs twice");
      return true;
    }
    field_ = name;
    if (!fields_.insert(name).second) return Refuse(Quoted(name) + " occurs twice");
    if (is_metadata_ || name == "dtype" || name == "shape" || name == "data_offsets") return true;
    return Refuse("has the unknown field " + Quoted(name));
  }
  bool end_object() override {
    if (depth_-- != 2 || is_metadata_) return true;
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (!fields_.contains(field)) return Refuse(absl::StrCat("has no \"", field, "\""));
    }
    return TakeTensor();
  }
  bool start_array(size_t) override {
    if (depth_ != 2 || is_metadata_ || field_ == "dtype") return Odd("an array");
    ++depth_;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    --depth_;
    if (field_ == "shape") {
      tensor_.dims = std::move(numbers_);
      return true;
    }
    if (numbers_.size() != 2) {
      return Refuse(absl::StrCat("data_offsets has ", numbers_.size(), " numbers, not 2"));
    }
    tensor_.offset = numbers_[0];
    tensor_.bytes = numbers_[1] - numbers_[0];
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    if (!error_.ok()) return false;
    const std::string_view what = error.what();
    const size_t cause = what.find(": ");
    error_ = InputError(where_,
                        absl::StrCat("the header is no JSON at its byte ", position,
                                     cause == what.npos ? "" : std::string(what.substr(cause))),
                        kDamagedFile);
    return false;
  }

  // After parsing.
  absl::StatusOr<SafetensorsHeader> Take() {
    RETURN_IF_ERROR(error_);
    return std::move(header_);
  }

 private:
  bool TakeTensor() {
    if (tensor_.bytes < 0) {
      return Refuse(absl::StrCat("data_offsets [", tensor_.offset, ",",
                                 tensor_.offset + tensor_.bytes, "] end before they begin"));
    }
    int64_t bytes = FindType(tensor_.type_name)->bytes;
    for (const int64_t size : tensor_.dims) {
      if (__builtin_mul_overflow(bytes, size, &bytes)) {
        return Refuse("shape " + ToString(tensor_.dims) + " has more than 2^63 bytes");
      }
    }
    if (bytes != tensor_.bytes) {
      return Refuse(absl::StrCat("shape ", ToString(tensor_.dims), " of ", tensor_.type_name,
                                 " takes ", bytes, " bytes, and data_offsets have ",
                                 tensor_.bytes));
    }
    header_.tensors.push_back(std::move(tensor_));
    return true;
  }

  std::string FieldText() const { return std::string(field_); }

  // A value of another kind than its position in the header asks for.
  bool Odd(std::string_view kind) {
    const std::string at = depth_ == 0   ? "the header"
                           : depth_ == 1 ? "it"
                           : depth_ == 2 ? Quoted(field_)
                                         : "an element of " + Quoted(field_);
    return Refuse(absl::StrCat(at, " is ", ToAbsl(kind)));
  }

  bool Refuse(std::string_view what) {
    if (error_.ok()) {
      const std::string at = depth_ == 0 ? where_
                                         : absl::StrCat(where_, ": ", is_metadata_ ? "" : "tensor ",
                                                        Quoted(tensor_.name));
      error_ = InputError(at, what, kDamagedFile);
    }
    return false;
  }

  const std::string where_;
  SafetensorsHeader header_;
  absl::Status error_;
  int depth_ = 0;
  std::set<std::string> names_, fields_;
  FileTensor tensor_;
  std::string field_;
  bool is_metadata_ = false;
  Dims numbers_;
};

// Sorts the tensors; an error unless they cover [0, data_bytes).
absl::Status CheckCovers(std::vector<FileTensor>& tensors, int64_t data_bytes,
                         const std::string& where) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const FileTensor& a, const FileTensor& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  int64_t next = 0;
  const FileTensor* before = nullptr;
  for (const FileTensor& tensor : tensors) {
    const std::string at = where + ": tensor " + Quoted(tensor.name);
    const std::string behind = before == nullptr ? "" : ", behind " + Quoted(before->name);
    if (tensor.offset < next) {
      return InputError(at,
                        absl::StrCat("overlaps ", Quoted(before->name), ": it begins at byte ",
                                     tensor.offset, " of the data, which ends at ", next),
                        kDamagedFile);
    }
    if (tensor.offset > next) {
      return InputError(at,
                        absl::StrCat("leaves bytes ", next, " to ", tensor.offset,
                                     " of the data to no tensor", behind),
                        kDamagedFile);
    }
    if (tensor.bytes > data_bytes - next) {
      return InputError(
          at,
          absl::StrCat("ends behind the file: it has ", tensor.bytes, " bytes from byte ", next,
                       " of ", data_bytes, " of the data on"),
          kDamagedFile);
    }
    next += tensor.bytes;
    before = &tensor;
  }
  if (next == data_bytes) return absl::OkStatus();
  return InputError(
      where,
      absl::StrCat("the file has ", data_bytes, " bytes of data, and its tensors have ", next),
      kDamagedFile);
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text, int64_t data_bytes,
                                                         const std::string& where) {
  if (!text.starts_with('{'))
    return InputError(where, "the header does not begin with {", kDamagedFile);
  HeaderEvents events(where);
  Json::sax_parse(text, &events);
  ASSIGN_OR_RETURN(SafetensorsHeader header, events.Take());
  RETURN_IF_ERROR(CheckCovers(header.tensors, data_bytes, where));
  return header;
}

std::string SafetensorsHeaderText(const std::map<std::string, std::string>& metadata,
                                  std::span<FileTensor> tensors) {
  std::string text = "{";
  if (!metadata.empty()) {
    absl::StrAppend(&text, "\"", kMetadata, "\":", JsonText(Json(metadata)));
  }
  int64_t end = 0;
  for (FileTensor& tensor : tensors) {
    tensor.offset = end;
    tensor.bytes = Product(tensor.dims) * ElementBytes(*tensor.type);
    end += tensor.bytes;
    tensor.type_name = SafetensorsName(*tensor.type);
    const Json object = {{"dtype", tensor.type_name},
                         {"shape", tensor.dims},
                         {"data_offsets", {tensor.offset, end}}};
    absl::StrAppend(&text, text.size() > 1 ? "," : "", JsonText(Json(tensor.name)), ":",
                    JsonText(object));
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace oneflow

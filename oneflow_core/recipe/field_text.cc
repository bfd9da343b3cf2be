#include "oneflow_core/recipe/field_text.h"

#include <glog/logging.h>
#include <google/protobuf/util/field_mask_util.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/words.h"

namespace oneflow {
std::string ExactText(double number) {
  if (number == std::floor(number) && std::abs(number) < 1e15) {
    return absl::StrCat(static_cast<int64_t>(number));
  }
  std::string text;
  for (int digits = 1; digits <= 17; ++digits) {
    text = absl::StrFormat("%.*g", digits, number);
    if (std::strtod(text.c_str(), nullptr) == number) break;
  }
  return text;
}

namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

const FieldDescriptor& FindField(const Row& row, const Message& message) {
  return *message.GetDescriptor()->FindFieldByName(std::string(row.name));
}

bool ParseBool(std::string_view text, bool* value) {
  const std::string plain = absl::AsciiStrToLower(ToAbsl(text));
  *value = plain == "true" || plain == "t" || plain == "yes" || plain == "y" || plain == "1";
  return *value || plain == "false" || plain == "f" || plain == "no" || plain == "n" ||
         plain == "0";
}

// The words of an enum's values: "each_use" of EACH_USE, "host" of UPDATE_ON_HOST of UpdateOn.
std::string EnumWord(const EnumValueDescriptor& value) {
  std::string prefix;
  for (const char c : value.type()->name()) {
    if (absl::ascii_isupper(c) && !prefix.empty()) prefix += '_';
    prefix += absl::ascii_tolower(c);
  }
  prefix += '_';
  const std::string word = absl::AsciiStrToLower(value.name());
  return word.starts_with(prefix) ? word.substr(prefix.size()) : word;
}

const EnumValueDescriptor* FindValue(const EnumDescriptor& type, std::string_view word) {
  for (int i = 0; i < type.value_count(); ++i) {
    if (EnumWord(*type.value(i)) == word) return type.value(i);
  }
  return nullptr;
}

// "only at the end", of the sentence that says so.
std::string DefaultWords(const Row& row) {
  constexpr std::string_view kBegin = "Default: ";
  const size_t at = row.sentence.find(kBegin);
  if (at == std::string_view::npos) return std::string(row.default_text);
  std::string text(row.sentence.substr(at + kBegin.size()));
  return text.substr(0, text.find_last_not_of('.') + 1);
}

// "1 to 8", "0 or more, and less than 1"; "" of any number.
std::string RangeText(const Row& row) {
  if (row.least != -kNoLimit && row.most != kNoLimit) {
    return absl::StrCat(ExactText(row.least), " to ", ExactText(row.most));
  }
  std::vector<std::string> parts;
  if (row.least != -kNoLimit) parts.push_back(ExactText(row.least) + " or more");
  if (row.above != -kNoLimit) parts.push_back("more than " + ExactText(row.above));
  if (row.below != kNoLimit) parts.push_back("less than " + ExactText(row.below));
  if (row.most != kNoLimit) parts.push_back("at most " + ExactText(row.most));
  return absl::StrJoin(parts, ", and ");
}

std::string RangeHint(const Row& row) {
  std::string hint = "use ";
  if (!row.absent.empty()) absl::StrAppend(&hint, std::string(row.absent), ", or ");
  hint += RangeText(row);
  const std::string by_default = DefaultWords(row);
  if (row.absent.empty() && !by_default.empty()) {
    absl::StrAppend(&hint, ", or leave it out; the default: ", by_default);
  }
  return hint;
}

// An example of a value: the default, where that is more than nothing.
std::string MakeExample(std::string_view type, std::string_view default_text) {
  double number = 0;
  if (absl::SimpleAtod(ToAbsl(default_text), &number) && number != 0) {
    return std::string(default_text);
  }
  return type == "double" ? "0.1" : "4";
}

// Sets a field of whole numbers of any width.
void SetInteger(const FieldDescriptor& field, int64_t number, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    reflection.SetInt32(message, &field, static_cast<int32_t>(number));
  } else {
    reflection.SetInt64(message, &field, number);
  }
}

absl::Status SetNumber(const std::string& where, const Row& row, const FieldDescriptor& field,
                       std::string_view text, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  const absl::Status is_number = CheckScalar(where, field.cpp_type_name(), text, row.default_text);
  if (!is_number.ok() && !row.absent.empty()) {
    return InputError(where, "is no number", RangeHint(row));
  }
  RETURN_IF_ERROR(is_number);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    double number = 0;
    (void)absl::SimpleAtod(ToAbsl(text), &number);
    RETURN_IF_ERROR(CheckRange(where, row, number));
    reflection.SetDouble(message, &field, number);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
    uint64_t number = 0;
    (void)absl::SimpleAtoi(ToAbsl(text), &number);
    RETURN_IF_ERROR(CheckRange(where, row, static_cast<double>(number)));
    reflection.SetUInt64(message, &field, number);
  } else {
    int64_t number = 0;
    (void)absl::SimpleAtoi(ToAbsl(text), &number);
    RETURN_IF_ERROR(CheckRange(where, row, static_cast<double>(number)));
    SetInteger(field, number, message);
  }
  return absl::OkStatus();
}

absl::Status SetByForm(const std::string& where, const Row& row, const FieldDescriptor& field,
                       std::string_view text, Message* message) {
  const Form& form = *row.form;
  if (form.parse_number != nullptr) {
    ASSIGN_OR_RETURN(const int64_t number, form.parse_number(where, text));
    SetInteger(field, number, message);
    return absl::OkStatus();
  }
  const Reflection& reflection = *message->GetReflection();
  Message* value = reflection.MutableMessage(message, &field);
  value->Clear();
  absl::Status status = form.parse(where, text, value);
  if (!status.ok()) reflection.ClearField(message, &field);
  return status;
}

int64_t GetInteger(const FieldDescriptor& field, const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 ? reflection.GetInt32(message, &field)
                                                            : reflection.GetInt64(message, &field);
}

}  // namespace

absl::Status CheckRange(std::string_view where, const Row& row, double number) {
  if (std::isfinite(number) && number >= row.least && number <= row.most && number > row.above &&
      number < row.below) {
    return absl::OkStatus();
  }
  if (RangeText(row).empty()) return InputError(where, "is no finite number");
  return InputError(where, "is out of range", RangeHint(row));
}

absl::Status CheckScalar(std::string_view where, std::string_view type, std::string_view text,
                         std::string_view default_text) {
  const std::string begin(where.substr(0, where.size() - text.size()));
  double number = 0;
  int64_t integer = 0;
  const bool is_number = absl::SimpleAtod(ToAbsl(text), &number);
  if (type == "string") return absl::OkStatus();
  if (type == "bool") {
    bool value = false;
    if (ParseBool(text, &value)) return absl::OkStatus();
    return InputError(where, "is neither true nor false",
                      absl::StrCat("write ", begin, "true or ", begin, "false"));
  }
  const std::string hint = begin + MakeExample(type, default_text);
  if (type == "double") {
    if (is_number && (!std::isinf(number) || text.find("nf") != text.npos)) return absl::OkStatus();
    return InputError(where, is_number ? "is too large a number" : "is no number",
                      "write a number, e.g. " + hint);
  }
  uint64_t natural = 0;
  int32_t small = 0;
  if (type == "int32"    ? absl::SimpleAtoi(ToAbsl(text), &small)
      : type == "uint64" ? absl::SimpleAtoi(ToAbsl(text), &natural)
                         : absl::SimpleAtoi(ToAbsl(text), &integer)) {
    return absl::OkStatus();
  }
  const bool digits = text.find_first_not_of("+-0123456789") == text.npos;
  if (digits && is_number && type == "uint64" && number < 0) {
    return InputError(where, "is negative", absl::StrCat("use 0 or more, e.g. ", begin, "1"));
  }
  if (digits && is_number) {
    const std::string most = type == "int32"   ? "2147483647"
                             : type == "int64" ? "2^63 - 1"
                                               : "2^64 - 1";
    return InputError(where, "is out of range", "use at most " + most);
  }
  return InputError(where, "is no whole number", "write it in digits, e.g. " + hint);
}

absl::Status SetField(const Row& row, std::string_view text, Message* message,
                      std::string_view prefix) {
  const FieldDescriptor& field = FindField(row, *message);
  const Reflection& reflection = *message->GetReflection();
  const std::string where = absl::StrCat(ToAbsl(prefix), ToAbsl(row.name), "=", ToAbsl(text));
  RETURN_IF_ERROR(CheckWords(where, row.value, text));
  if (!row.absent.empty() && text == row.absent) {
    reflection.ClearField(message, &field);
    return absl::OkStatus();
  }
  if (row.form != nullptr) return SetByForm(where, row, field, text, message);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(message, &field, std::string(text));
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_ENUM:
      reflection.SetEnum(message, &field, FindValue(*field.enum_type(), text));
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_BOOL: {
      RETURN_IF_ERROR(CheckScalar(where, "bool", text, ""));
      bool value = false;
      (void)ParseBool(text, &value);
      reflection.SetBool(message, &field, value);
      return absl::OkStatus();
    }
    default: return SetNumber(where, row, field, text, message);
  }
}

std::string FieldText(const Row& row, const Message& message) {
  if (!HasField(row, message)) return "";
  const FieldDescriptor& field = FindField(row, message);
  const Reflection& reflection = *message.GetReflection();
  if (row.form != nullptr && row.form->print != nullptr) {
    return row.form->print(reflection.GetMessage(message, &field));
  }
  if (row.form != nullptr) return row.form->print_number(GetInteger(field, message));
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING: return reflection.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM: return EnumWord(*reflection.GetEnum(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_DOUBLE: return ExactText(reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(reflection.GetUInt64(message, &field));
    default: return absl::StrCat(GetInteger(field, message));
  }
}

bool HasField(const Row& row, const Message& message) {
  return message.GetReflection()->HasField(message, &FindField(row, message));
}

void ClearField(const Row& row, Message* message) {
  message->GetReflection()->ClearField(message, &FindField(row, *message));
}

void CopyField(const Row& row, const Message& from, Message* to) {
  ClearField(row, to);
  if (!HasField(row, from)) return;
  google::protobuf::FieldMask mask;
  mask.add_paths(std::string(row.name));
  google::protobuf::util::FieldMaskUtil::MergeMessageTo(from, mask, {}, to);
}

void CopyFields(std::span<const Row> rows, const Message& from, Message* to) {
  for (const Row& row : rows) {
    if (HasField(row, from)) CopyField(row, from, to);
  }
}

bool IsSwitch(const Row& row, const Message& message) {
  return FindField(row, message).cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
}

std::vector<const Row*> DifferingRows(std::span<const Row> rows, const Message& a,
                                      const Message& b) {
  std::vector<const Row*> differing;
  for (const Row& row : rows) {
    const bool there = HasField(row, a);
    if (there != HasField(row, b) || (there && FieldText(row, a) != FieldText(row, b))) {
      differing.push_back(&row);
    }
  }
  return differing;
}

void SetDefaults(std::span<const Row> rows, Message* message) {
  for (const Row& row : rows) {
    if (row.default_text.empty() || HasField(row, *message)) continue;
    const absl::Status set = SetField(row, row.default_text, message);
    CHECK(set.ok()) << set;
  }
}

std::vector<std::string> FlagWords(std::span<const Row> rows, const Message& message) {
  std::vector<std::string> flags;
  for (const Row& row : rows) {
    if (!HasField(row, message)) continue;
    flags.push_back(absl::StrCat("--", ToAbsl(row.name), "=", FieldText(row, message)));
  }
  return flags;
}

std::string FlagsText(std::span<const Row> rows, const Message& message) {
  std::vector<std::string> words = FlagWords(rows, message);
  for (std::string& word : words) {
    if (word.find_first_of(" ()") == word.npos) continue;
    word =
        absl::StrCat(word.substr(0, word.find('=') + 1), "'", word.substr(word.find('=') + 1), "'");
  }
  return absl::StrJoin(words, " ");
}

namespace {

// Words between blanks; in quotes, a blank is a part of a word.
std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : text) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c != ' ' || quoted) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

}  // namespace

absl::Status SetFields(std::span<const Row> rows, std::string_view flags,
                       google::protobuf::Message* message) {
  for (const std::string& flag : SplitWords(flags)) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(flag, absl::MaxSplits('=', 1));
    const Row* row = parts.first.starts_with("--") ? FindRow(rows, parts.first.substr(2)) : nullptr;
    if (row == nullptr) {
      return InputError(flag, "is no choice", "write --NAME=VALUE of a choice that there is");
    }
    const bool is_switch = flag.find('=') == flag.npos && IsSwitch(*row, *message);
    RETURN_IF_ERROR(SetField(*row, is_switch ? "true" : parts.second, message));
  }
  return absl::OkStatus();
}

proto::Recipe MakeRecipe(std::string_view flags) {
  proto::Recipe recipe;
  const absl::Status set = SetFields(RecipeRows(), flags, &recipe);
  CHECK(set.ok()) << set;
  return recipe;
}

absl::Status CheckFields(std::span<const Row> rows, const Message& message,
                         const std::function<std::string(const Row&)>& prefix) {
  const std::unique_ptr<Message> scratch(message.New());
  for (const Row& row : rows) {
    if (!HasField(row, message) || (row.form != nullptr && row.form->is_file)) continue;
    RETURN_IF_ERROR(SetField(row, FieldText(row, message), scratch.get(), prefix(row)));
  }
  return absl::OkStatus();
}

}  // namespace oneflow

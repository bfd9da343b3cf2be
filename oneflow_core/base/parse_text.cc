#include "oneflow_core/base/parse_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "oneflow_core/base/file_kind.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/utf8.h"

namespace oneflow {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using Locations = TextFormat::ParseInfoTree;

// Keeps the first error: the others follow from it.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!location_.empty() || !message_.empty()) return;
    if (line >= 0) location_ = ':' + std::to_string(line + 1) + ':' + std::to_string(column + 1);
    message_ = message;
  }
  const std::string& location() const { return location_; }
  const std::string& message() const { return message_; }

 private:
  std::string location_, message_;
};

// The field that the parser met twice though it has one value; "" if `message` says another thing.
std::string FieldGivenTwice(const std::string& message) {
  const std::string_view before = "Non-repeated field \"", after = "\" is specified multiple times";
  const size_t end = message.find(after);
  if (!message.starts_with(before) || end == std::string::npos) return "";
  return message.substr(before.size(), end - before.size());
}

struct BadString {
  const FieldDescriptor* field = nullptr;  // nullptr: there is none
  std::string text;
  int line = -1, column = -1;  // from 0; -1: not known
};

// The first string of `message` that is not UTF-8. `locations` may be nullptr.
BadString FindBadString(const Message& message, const Locations* locations) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool many = field->is_repeated();
    for (int i = 0; i < (many ? reflection.FieldSize(message, field) : 1); ++i) {
      const int index = many ? i : -1;  // as ParseInfoTree counts
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        const Message& inner = many ? reflection.GetRepeatedMessage(message, field, i)
                                    : reflection.GetMessage(message, field);
        const Locations* inside = locations ? locations->GetTreeForNested(field, index) : nullptr;
        BadString bad = FindBadString(inner, inside);
        if (bad.field != nullptr) return bad;
      } else if (field->type() == FieldDescriptor::TYPE_STRING) {
        std::string text = many ? reflection.GetRepeatedString(message, field, i)
                                : reflection.GetString(message, field);
        if (Utf8(text) == text) continue;
        const auto location =
            locations ? locations->GetLocation(field, index) : TextFormat::ParseLocation();
        return {field, std::move(text), location.line, location.column};
      }
    }
  }
  return {};
}

}  // namespace

absl::Status ParseText(std::string_view text, std::string_view file, std::string_view noun,
                       Message* message, Locations* locations) {
  FirstError error;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (locations != nullptr) parser.WriteLocationsTo(locations);
  if (!parser.ParseFromString(std::string(text), message)) {
    RETURN_IF_ERROR(RefuseOtherKind(text, file, noun));
    if (text.find('\0') != text.npos) {  // the parser would stumble over its first byte
      return InputError(file, "is binary, and no " + std::string(noun) + ", which is text",
                        "give a textproto");
    }
    if (const std::string field = FieldGivenTwice(error.message()); !field.empty()) {
      return InputError(std::string(file) + error.location(), field + " is given twice",
                        "it has one value: leave one of the two out");
    }
    const bool ends = error.message().ends_with("got: ");  // nothing: the text is over
    return InputError(std::string(file) + error.location(),
                      error.message().empty() ? "is no " + std::string(noun) : error.message(),
                      ends ? "the text ends here: it was cut off, or lacks a brace"
                      : error.message().find("has no field named") != std::string::npos
                          ? message->GetDescriptor()->file()->name() + " lists the fields"
                          : "");
  }
  if (FindBadString(*message, nullptr).field == nullptr) return absl::OkStatus();
  // Locations cost more than the message, so they are looked up only for an error.
  Locations known;
  parser.WriteLocationsTo(&known);
  parser.ParseFromString(std::string(text), message);
  const BadString bad = FindBadString(*message, &known);
  if (bad.line >= 0) error.AddError(bad.line, bad.column, "");
  return InputError(std::string(file) + error.location(),
                    bad.field->name() + ": \"" + absl::CEscape(bad.text) + "\" is not UTF-8",
                    "write names and texts in UTF-8");
}

}  // namespace oneflow

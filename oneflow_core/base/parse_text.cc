#include "oneflow_core/base/parse_text.h"

#include <google/protobuf/io/tokenizer.h>

#include <string>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// Keeps the first error: the others follow from it.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!place_.empty() || !message_.empty()) return;
    if (line >= 0) place_ = ':' + std::to_string(line + 1) + ':' + std::to_string(column + 1);
    message_ = message;
  }
  const std::string& place() const { return place_; }
  const std::string& message() const { return message_; }

 private:
  std::string place_, message_;
};

}  // namespace

absl::Status ParseText(std::string_view text, std::string_view file, std::string_view noun,
                       google::protobuf::Message* message,
                       google::protobuf::TextFormat::ParseInfoTree* places) {
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (places != nullptr) parser.WriteLocationsTo(places);
  if (parser.ParseFromString(std::string(text), message)) return absl::OkStatus();
  return InputError(std::string(file) + error.place(),
                    error.message().empty() ? "is no " + std::string(noun) : error.message());
}

}  // namespace oneflow

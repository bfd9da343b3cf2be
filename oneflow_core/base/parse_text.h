// Text protos that users write: parsed with the location of the first mistake.
#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <string_view>

#include "absl/status/status.h"

namespace oneflow {

// Parses `text` into `message`. Errors begin "file:line:column". `noun` completes the error if the
// parser gives no reason: "is no graph". A file of another kind (file_kind.h) is named as such. A
// string that is not UTF-8 is a mistake, too, because JSON and binary protos have no other.
// `locations`, if given, gets the positions of the fields.
absl::Status ParseText(std::string_view text, std::string_view file, std::string_view noun,
                       google::protobuf::Message* message,
                       google::protobuf::TextFormat::ParseInfoTree* locations = nullptr);

}  // namespace oneflow

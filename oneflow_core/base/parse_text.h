// Text protos that users write: parsed with the location of the first mistake.
#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <string_view>

#include "absl/status/status.h"

namespace oneflow {

// Parses `text` into `message`; `file` is its name in errors, which begin "file:line:column";
// `noun` is what it is not, where the parser says no more: "is no graph". A file of another kind
// (file_kind.h) is named as such. A string that is not UTF-8 is a mistake, too: JSON and binary
// protos have no other. `locations`, if given, learns where the fields stand.
absl::Status ParseText(std::string_view text, std::string_view file, std::string_view noun,
                       google::protobuf::Message* message,
                       google::protobuf::TextFormat::ParseInfoTree* locations = nullptr);

}  // namespace oneflow

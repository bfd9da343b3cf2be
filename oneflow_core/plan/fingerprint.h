// The fingerprint of a plan: a hash of its canonical form. Protobuf bytes are not canonical,
// because maps have no order and encoders may differ. So the form is our own: fields by number, map
// entries by key, values in fixed widths, defaults left out.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

#include "proto/plan.pb.h"

namespace oneflow {

// Returns 32 hex digits. Ignores the field `fingerprint` itself, and `facts`: plans that run alike
// have one fingerprint. Equal plans have equal fingerprints on every machine and in every build.
std::string Fingerprint(const proto::Plan& plan);

// The same of any message, all of it, and of a text.
std::string MessageFingerprint(const google::protobuf::Message& message);
std::string TextFingerprint(std::string_view text);

}  // namespace oneflow

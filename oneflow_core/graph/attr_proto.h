// Converts attributes of ops between C++ values and messages (graph.proto, plan.proto).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "oneflow_core/graph/graph.h"
#include "proto/graph.pb.h"

namespace oneflow {

using ProtoAttrs = google::protobuf::Map<std::string, proto::AttrValue>;

// An error names the attribute that has no value.
absl::StatusOr<AttrMap> AttrsFromProto(const ProtoAttrs& attrs, std::string_view where);
ProtoAttrs AttrsToProto(const AttrMap& attrs);

}  // namespace oneflow

#include "oneflow_core/graph/attr_proto.h"

#include <set>

#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

proto::AttrValue ValueToProto(const Attr& attr) {
  proto::AttrValue value;
  if (const auto* i = std::get_if<int64_t>(&attr)) {
    value.set_i(*i);
  } else if (const auto* f = std::get_if<double>(&attr)) {
    value.set_f(*f);
  } else if (const auto* b = std::get_if<bool>(&attr)) {
    value.set_b(*b);
  } else if (const auto* s = std::get_if<std::string>(&attr)) {
    value.set_s(*s);
  } else {
    const auto& ints = std::get<std::vector<int64_t>>(attr);
    value.mutable_ints()->mutable_value()->Assign(ints.begin(), ints.end());
  }
  return value;
}

}  // namespace

absl::StatusOr<AttrMap> AttrsFromProto(const ProtoAttrs& attrs, std::string_view where) {
  AttrMap result;
  std::set<std::string> empty;  // sorted: the message's map has no order
  for (const auto& [key, value] : attrs) {
    switch (value.value_case()) {
      case proto::AttrValue::kI: result[key] = Attr(std::in_place_type<int64_t>, value.i()); break;
      case proto::AttrValue::kF: result[key] = value.f(); break;
      case proto::AttrValue::kB: result[key] = value.b(); break;
      case proto::AttrValue::kS: result[key] = value.s(); break;
      case proto::AttrValue::kInts:
        result[key] =
            std::vector<int64_t>(value.ints().value().begin(), value.ints().value().end());
        break;
      case proto::AttrValue::VALUE_NOT_SET: empty.insert(key); break;
    }
  }
  if (!empty.empty()) {
    return InputError(where, "attribute \"" + *empty.begin() + "\" has no value",
                      "give one, e.g. { i: 1 }, { f: 0.5 }, { b: true } or { s: \"x\" }");
  }
  return result;
}

ProtoAttrs AttrsToProto(const AttrMap& attrs) {
  ProtoAttrs result;
  for (const auto& [key, attr] : attrs) result[key] = ValueToProto(attr);
  return result;
}

}  // namespace oneflow

#include "oneflow_core/plan/fingerprint.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace oneflow {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void AppendInt(std::string& out, uint64_t value) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void AppendBytes(std::string& out, const std::string& bytes) {
  AppendInt(out, bytes.size());
  out.append(bytes);
}

// Value `i` of a repeated field, or the value of a singular one (i = -1).
void AppendValue(std::string& out, const Message& m, const FieldDescriptor* f, int i) {
  const Reflection& r = *m.GetReflection();
  const bool many = i >= 0;
  switch (f->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return AppendInt(out,
                       static_cast<int64_t>(many ? r.GetRepeatedInt32(m, f, i) : r.GetInt32(m, f)));
    case FieldDescriptor::CPPTYPE_INT64:
      return AppendInt(out, many ? r.GetRepeatedInt64(m, f, i) : r.GetInt64(m, f));
    case FieldDescriptor::CPPTYPE_UINT32:
      return AppendInt(out, many ? r.GetRepeatedUInt32(m, f, i) : r.GetUInt32(m, f));
    case FieldDescriptor::CPPTYPE_UINT64:
      return AppendInt(out, many ? r.GetRepeatedUInt64(m, f, i) : r.GetUInt64(m, f));
    case FieldDescriptor::CPPTYPE_BOOL:
      return AppendInt(out, many ? r.GetRepeatedBool(m, f, i) : r.GetBool(m, f));
    case FieldDescriptor::CPPTYPE_ENUM:
      return AppendInt(
          out, static_cast<int64_t>(many ? r.GetRepeatedEnumValue(m, f, i) : r.GetEnumValue(m, f)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return AppendInt(
          out, std::bit_cast<uint64_t>(many ? r.GetRepeatedDouble(m, f, i) : r.GetDouble(m, f)));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return AppendInt(
          out, std::bit_cast<uint32_t>(many ? r.GetRepeatedFloat(m, f, i) : r.GetFloat(m, f)));
    case FieldDescriptor::CPPTYPE_STRING:
      return AppendBytes(out, many ? r.GetRepeatedString(m, f, i) : r.GetString(m, f));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return AppendBytes(out,
                         CanonicalBytes(many ? r.GetRepeatedMessage(m, f, i) : r.GetMessage(m, f)));
  }
}

void AppendField(std::string& out, const Message& m, const FieldDescriptor* f) {
  AppendInt(out, f->number());
  if (!f->is_repeated()) return AppendValue(out, m, f, -1);
  std::vector<std::string> values(m.GetReflection()->FieldSize(m, f));
  for (size_t i = 0; i < values.size(); ++i) AppendValue(values[i], m, f, static_cast<int>(i));
  // An entry of a map begins with its key: sorting the entries sorts by key.
  if (f->is_map()) std::sort(values.begin(), values.end());
  AppendInt(out, values.size());
  for (const std::string& value : values) out.append(value);
}

}  // namespace

std::string CanonicalBytes(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);  // those that are set, by number
  std::string out;
  for (const FieldDescriptor* f : fields) AppendField(out, message, f);
  return out;
}

std::string Fingerprint(const proto::Plan& plan) {
  proto::Plan bare = plan;
  bare.clear_fingerprint();
  const std::string bytes = CanonicalBytes(bare);
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (uint64_t half : {hash.high64, hash.low64}) {
    for (int shift = 60; shift >= 0; shift -= 4) text.push_back(kDigits[(half >> shift) & 15]);
  }
  return text;
}

}  // namespace oneflow

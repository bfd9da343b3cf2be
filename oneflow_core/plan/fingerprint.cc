#include "oneflow_core/plan/fingerprint.h"

#include <algorithm>
#include <array>
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

using Bytes8 = std::array<char, 8>;

Bytes8 LittleEndian(uint64_t value) {
  Bytes8 bytes;
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

void AppendInt(std::string& out, uint64_t value) {
  const Bytes8 bytes = LittleEndian(value);
  out.append(bytes.data(), bytes.size());
}

void AppendBytes(std::string& out, const std::string& bytes) {
  AppendInt(out, bytes.size());
  out.append(bytes);
}

void AppendFields(std::string& out, const Message& m);

// Its length first, which is known last.
void AppendMessage(std::string& out, const Message& m) {
  const size_t begin = out.size();
  AppendInt(out, 0);
  AppendFields(out, m);
  const Bytes8 length = LittleEndian(out.size() - begin - sizeof(Bytes8));
  std::copy(length.begin(), length.end(), out.begin() + begin);
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
      return AppendMessage(out, many ? r.GetRepeatedMessage(m, f, i) : r.GetMessage(m, f));
  }
}

void AppendField(std::string& out, const Message& m, const FieldDescriptor* f) {
  AppendInt(out, f->number());
  if (!f->is_repeated()) return AppendValue(out, m, f, -1);
  const int size = m.GetReflection()->FieldSize(m, f);
  AppendInt(out, size);
  if (!f->is_map()) {
    for (int i = 0; i < size; ++i) AppendValue(out, m, f, i);
    return;
  }
  // An entry begins with its key: sorting the entries sorts by key.
  std::vector<std::string> entries(size);
  for (int i = 0; i < size; ++i) AppendValue(entries[i], m, f, i);
  std::sort(entries.begin(), entries.end());
  for (const std::string& entry : entries) out.append(entry);
}

// Those that are set, by number.
void AppendFields(std::string& out, const Message& m) {
  std::vector<const FieldDescriptor*> fields;
  m.GetReflection()->ListFields(m, &fields);
  for (const FieldDescriptor* f : fields) AppendField(out, m, f);
}

}  // namespace

std::string CanonicalBytes(const Message& message) {
  std::string out;
  AppendFields(out, message);
  return out;
}

std::string Fingerprint(const proto::Plan& plan) {
  // A copy, also because reflection lists the entries of a map once, and may not see what is later
  // put there through a reference.
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

#include "oneflow_core/plan/fingerprint.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format.h"
#include "google/protobuf/wire_format_lite.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace oneflow {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::internal::WireFormat;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

using Bytes8 = std::array<char, 8>;

Bytes8 LittleEndian(uint64_t value) {
  Bytes8 bytes;
  CodedOutputStream::WriteLittleEndian64ToArray(value, reinterpret_cast<uint8_t*>(bytes.data()));
  return bytes;
}

void AppendFixed64(std::string& out, uint64_t value) {
  const Bytes8 bytes = LittleEndian(value);
  out.append(bytes.data(), bytes.size());
}

// Over an int that was not known when it was appended.
void SetInt(std::string& out, size_t at, uint64_t value) {
  const Bytes8 bytes = LittleEndian(value);
  std::copy(bytes.begin(), bytes.end(), out.begin() + static_cast<int64_t>(at));
}

// From the bytes of a message on the wire, which hold what is set, fields by number, to its
// canonical ones. Many times as fast as reflection, and maps stay as they are.
class Walk {
 public:
  // `without`: numbers of fields of the message itself that are left out.
  Walk(const std::string& wire, std::set<int> without)
      : in_(reinterpret_cast<const uint8_t*>(wire.data()), static_cast<int>(wire.size())),
        without_(std::move(without)) {}

  std::string Run(const Descriptor& type) && {
    std::string out;
    for (uint32_t tag = in_.ReadTag(); tag != 0;) {
      if (without_.contains(WireFormatLite::GetTagFieldNumber(tag))) {
        WireFormatLite::SkipField(&in_, tag);
        tag = in_.ReadTag();
      } else {
        tag = AppendField(out, type, tag);
      }
    }
    return out;
  }

 private:
  // The field that `tag` begins; one that the type does not have, or has otherwise (of another
  // version, or of an edited file), counts for nothing. Returns the tag after it; 0 at the end of
  // the message.
  uint32_t AppendField(std::string& out, const Descriptor& type, uint32_t tag) {
    const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (field == nullptr || tag != WireFormat::MakeTag(field)) {
      WireFormatLite::SkipField(&in_, tag);
      return in_.ReadTag();
    }
    const FieldDescriptor& f = *field;
    AppendFixed64(out, f.number());
    if (f.is_map()) return AppendEntries(out, f, tag);
    if (!f.is_repeated()) {
      AppendValue(out, f);
      return in_.ReadTag();
    }
    const size_t begin = out.size();
    AppendFixed64(out, 0);
    uint64_t size = 0;
    uint32_t next = tag;
    for (; next == tag; next = in_.ReadTag()) {
      if (!f.is_packed()) {
        AppendValue(out, f);
        ++size;
        continue;
      }
      const CodedInputStream::Limit outer = in_.ReadLengthAndPushLimit();
      for (; in_.BytesUntilLimit() > 0; ++size) AppendValue(out, f);
      in_.PopLimit(outer);
    }
    SetInt(out, begin, size);
    return next;
  }

  // An entry begins with its key: sorting the entries sorts by key.
  uint32_t AppendEntries(std::string& out, const FieldDescriptor& f, uint32_t tag) {
    std::vector<std::string> entries;
    uint32_t next = tag;
    for (; next == tag; next = in_.ReadTag()) AppendMessage(entries.emplace_back(), f);
    std::sort(entries.begin(), entries.end());
    AppendFixed64(out, entries.size());
    for (const std::string& entry : entries) out.append(entry);
    return next;
  }

  void AppendValue(std::string& out, const FieldDescriptor& f) {
    switch (f.cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING: return AppendBytes(out);
      case FieldDescriptor::CPPTYPE_MESSAGE: return AppendMessage(out, f);
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        uint64_t bits = 0;
        in_.ReadLittleEndian64(&bits);
        return AppendFixed64(out, bits);
      }
      case FieldDescriptor::CPPTYPE_FLOAT: {
        uint32_t bits = 0;
        in_.ReadLittleEndian32(&bits);
        return AppendFixed64(out, bits);
      }
      default: {  // whole numbers and enums; negative ones of 32 bits are extended on the wire
        uint64_t value = 0;
        in_.ReadVarint64(&value);
        return AppendFixed64(out, value);
      }
    }
  }

  void AppendBytes(std::string& out) {
    uint32_t size = 0;
    in_.ReadVarint32(&size);
    AppendFixed64(out, size);
    const void* data = nullptr;
    int left = 0;
    in_.GetDirectBufferPointerInline(&data, &left);
    out.append(static_cast<const char*>(data), size);
    in_.Skip(static_cast<int>(size));
  }

  // Its length first, which is known last.
  void AppendMessage(std::string& out, const FieldDescriptor& f) {
    const size_t begin = out.size();
    AppendFixed64(out, 0);
    const CodedInputStream::Limit outer = in_.ReadLengthAndPushLimit();
    for (uint32_t tag = in_.ReadTag(); tag != 0;) tag = AppendField(out, *f.message_type(), tag);
    in_.PopLimit(outer);
    SetInt(out, begin, out.size() - begin - sizeof(Bytes8));
  }

  CodedInputStream in_;
  const std::set<int> without_;
};

std::string Canonical(const Message& message, std::set<int> without) {
  std::string wire;
  {
    google::protobuf::io::StringOutputStream stream(&wire);
    CodedOutputStream coded(&stream);
    message.SerializeToCodedStream(&coded);
  }
  return Walk(wire, std::move(without)).Run(*message.GetDescriptor());
}

}  // namespace

std::string TextFingerprint(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  for (uint64_t half : {hash.high64, hash.low64}) {
    for (int shift = 60; shift >= 0; shift -= 4) digits.push_back(kDigits[(half >> shift) & 15]);
  }
  return digits;
}

std::string MessageFingerprint(const Message& message) {
  return TextFingerprint(Canonical(message, {}));
}

std::string Fingerprint(const proto::Plan& plan) {
  return TextFingerprint(
      Canonical(plan, {proto::Plan::kFingerprintFieldNumber, proto::Plan::kFactsFieldNumber}));
}

}  // namespace oneflow

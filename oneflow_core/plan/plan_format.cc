#include "oneflow_core/plan/plan_format.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/file_kind.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace oneflow {
namespace {

constexpr size_t kHeader = 40;  // magic 8, version 4, reserved (0) 4, length 8, checksum 16

void AppendInt(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t IntAt(std::string_view bytes, size_t at, int n) {
  uint64_t value = 0;
  for (int i = 0; i < n; ++i) value |= uint64_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  return value;
}

std::string Checksum(std::string_view payload) {
  const XXH128_hash_t hash = XXH3_128bits(payload.data(), payload.size());
  std::string out;
  AppendInt(out, hash.low64, 8);
  AppendInt(out, hash.high64, 8);
  return out;
}

bool IsText(const std::string& path) { return absl::EndsWith(path, ".textproto"); }

// The same for the same plan: attributes are written by key, not in the order of a hash table.
std::string Payload(const proto::Plan& plan) {
  std::string payload;
  google::protobuf::io::StringOutputStream stream(&payload);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  plan.SerializeToCodedStream(&coded);
  coded.Trim();
  return payload;
}

absl::Status OtherVersion(std::string_view where, int64_t version) {
  return InputError(
      where, absl::StrCat("is a plan of version ", version, ", this build reads ", kPlanVersion),
      "compile it again with this build");
}

class Silent : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
};

}  // namespace

std::string SerializePlan(const proto::Plan& plan) {
  const std::string payload = Payload(plan);
  std::string out(kPlanMagic);
  AppendInt(out, kPlanVersion, 4);
  AppendInt(out, 0, 4);
  AppendInt(out, payload.size(), 8);
  out += Checksum(payload);
  return out + payload;
}

absl::StatusOr<proto::Plan> ParsePlan(std::string_view bytes, std::string_view where) {
  if (!bytes.starts_with(kPlanMagic)) {
    RETURN_IF_ERROR(RefuseOtherKind(bytes, where, "plan"));
    return InputError(where, "is no plan", "give a file that `oneflow compile` wrote");
  }
  if (bytes.size() < kHeader)
    return InputError(where, "is truncated in its header", "copy or compile it again");
  const uint64_t version = IntAt(bytes, 8, 4), length = IntAt(bytes, 16, 8);
  if (version != kPlanVersion) return OtherVersion(where, version);
  if (IntAt(bytes, 12, 4) != 0) {
    return InputError(where, "is corrupt: the reserved bytes of its header are not 0",
                      "copy or compile it again");
  }
  const std::string_view payload = bytes.substr(kHeader);
  if (payload.size() < length) {
    return InputError(where,
                      absl::StrCat("is truncated: ", payload.size(), " of ", length, " bytes"),
                      "copy or compile it again");
  }
  if (payload.size() > length) {
    return InputError(where, absl::StrCat("has ", payload.size() - length, " bytes after its end"),
                      "copy or compile it again");
  }
  if (Checksum(payload) != bytes.substr(24, 16)) {
    return InputError(where, "is corrupt: its checksum does not fit its content",
                      "copy or compile it again");
  }
  proto::Plan plan;
  if (!plan.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return InputError(where, "is corrupt: its content is no plan", "compile it again");
  }
  return plan;
}

absl::Status WritePlan(const proto::Plan& plan, const std::string& path) {
  std::string bytes;
  if (IsText(path)) {
    google::protobuf::TextFormat::PrintToString(plan, &bytes);
  } else {
    bytes = SerializePlan(plan);
  }
  return WriteFile(path, bytes);
}

absl::StatusOr<proto::Plan> ReadPlanUnchecked(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  if (!IsText(path)) return ParsePlan(bytes, path);
  proto::Plan plan;
  if (bytes.starts_with(kPlanMagic)) {
    return InputError(path, "is a plan in binary form, and its name says text",
                      "rename it to *.plan: the text form is *.textproto");
  }
  const absl::Status parsed = ParseText(bytes, path, "plan", &plan);
  if (parsed.ok()) {
    if (plan.version() == 0) RETURN_IF_ERROR(RefuseOtherKind(bytes, path, "plan"));
    // It may have been edited since it was written, and no checksum tells.
    plan.set_fingerprint(Fingerprint(plan));
    return plan;
  }
  // Fields come and go with versions, so what is not known may be another version's.
  Silent silent;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  parser.AllowUnknownField(true);
  const bool known = parser.ParseFromString(bytes, &plan) && plan.version() != 0;
  return known && plan.version() != kPlanVersion ? OtherVersion(path, plan.version()) : parsed;
}

}  // namespace oneflow

#include "tests/e2e/recorded_plans.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <stdexcept>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/gzip_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"

namespace oneflow {
namespace {

constexpr const char* kFile = "tests/e2e/recorded_plans.gz";

// Keys and serialized plans in turn, each after its length.
std::map<std::string, std::string> Read() {
  std::ifstream file(kFile, std::ios::binary);
  google::protobuf::io::IstreamInputStream packed(&file);
  google::protobuf::io::GzipInputStream unpacked(&packed);
  google::protobuf::io::CodedInputStream in(&unpacked);
  const auto next = [&in](std::string* text) {
    uint32_t size = 0;
    return in.ReadLittleEndian32(&size) && in.ReadString(text, static_cast<int>(size));
  };
  std::map<std::string, std::string> plans;
  std::string key, plan;
  while (next(&key) && next(&plan)) plans.emplace(key, std::move(plan));
  return plans;
}

}  // namespace

void RecordPlan(const std::string& key, const proto::Plan& plan) {
  const char* path = std::getenv("ONEFLOW_RECORD_PLANS");
  if (path == nullptr) return;
  std::ofstream file(path, std::ios::binary | std::ios::app);
  google::protobuf::io::OstreamOutputStream stream(&file);
  google::protobuf::io::CodedOutputStream out(&stream);
  for (const std::string& text : {key, plan.SerializeAsString()}) {
    out.WriteLittleEndian32(static_cast<uint32_t>(text.size()));
    out.WriteString(text);
  }
}

proto::Plan RecordedPlan(const std::string& key) {
  static const std::map<std::string, std::string> plans = Read();
  const auto found = plans.find(key);
  proto::Plan plan;
  if (found == plans.end() || !plan.ParseFromString(found->second)) {
    throw std::runtime_error("no plan is recorded of " + key + ": run tests/e2e/record_plans");
  }
  return plan;
}

}  // namespace oneflow

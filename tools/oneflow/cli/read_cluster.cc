#include "tools/oneflow/cli/read_cluster.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/check_cluster.h"

namespace oneflow {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Clears the lists of the message that `own` gives, in all messages within.
void ClearGivenLists(const Message& own, Message* message) {
  std::vector<const FieldDescriptor*> given;
  own.GetReflection()->ListFields(own, &given);
  for (const FieldDescriptor* field : given) {
    if (field->is_repeated()) {
      message->GetReflection()->ClearField(message, field);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      ClearGivenLists(own.GetReflection()->GetMessage(own, field),
                      message->GetReflection()->MutableMessage(message, field));
    }
  }
}

template <typename T>
void MergeOver(const T& own, T* message) {
  ClearGivenLists(own, message);
  message->MergeFrom(own);
}

absl::Status MergeLevels(proto::Cluster* own, std::string_view where, proto::Cluster* cluster) {
  std::vector<std::string> names;
  std::set<std::string> given;
  for (const proto::Level& level : cluster->level()) names.push_back(level.name());
  for (const proto::Level& level : own->level()) {
    const auto found = std::find(names.begin(), names.end(), level.name());
    if (found == names.end()) {
      return InputError(where,
                        absl::StrCat("level \"", level.name(), "\" is none of the base ",
                                     own->base(), ", which has ", absl::StrJoin(names, ", ")),
                        "name one of these, or leave out `base` and say everything");
    }
    if (!given.insert(level.name()).second) {
      return InputError(where, absl::StrCat("level \"", level.name(), "\" is given twice"),
                        "say all that differs from the base's level of this name in one");
    }
    MergeOver(level, cluster->mutable_level(static_cast<int>(found - names.begin())));
  }
  own->clear_level();
  return absl::OkStatus();
}

void ScaleAttention(double factor, proto::Device* device) {
  for (proto::AttentionRates& rates : *device->mutable_attention()) {
    for (double& rate : *rates.mutable_forward()) rate *= factor;
    for (double& rate : *rates.mutable_backward()) rate *= factor;
  }
}

absl::StatusOr<proto::Cluster> WithBase(proto::Cluster own, std::string_view where) {
  ASSIGN_OR_RETURN(const ClusterText text, KnownClusterText(own.base(), where, "base"));
  if (own.name().empty()) {
    return InputError(
        where, absl::StrCat("has the base ", own.base(), " and no name"),
        absl::StrCat("add one: systems compared on ", own.base(), " were not compared on it"));
  }
  ASSIGN_OR_RETURN(proto::Cluster cluster, ParseCluster(text));
  cluster.clear_system();  // how predictions have held is known of the base alone
  cluster.clear_between_systems();
  const proto::Device& device = own.device();
  if (device.peak_flops_bf16() > 0) {
    ScaleAttention(device.peak_flops_bf16() / cluster.device().peak_flops_bf16(),
                   cluster.mutable_device());
  }
  RETURN_IF_ERROR(MergeLevels(&own, where, &cluster));
  MergeOver(own, &cluster);
  cluster.clear_base();
  return cluster;
}

}  // namespace

absl::StatusOr<proto::Cluster> ParseCluster(const ClusterText& file) {
  proto::Cluster cluster;
  const absl::Status parsed = ParseText(file.text, file.where, "cluster", &cluster);
  if (absl::StrContains(parsed.message(), ": device is given twice")) {
    return InputError(file.where, "has two kinds of devices",
                      "a cluster has one: write a file for each kind, and compile a plan for each");
  }
  RETURN_IF_ERROR(parsed);
  if (cluster.ByteSizeLong() == 0) {
    return InputError(file.where, "is empty", "say of what device and which links a cluster is");
  }
  if (!cluster.base().empty()) {
    ASSIGN_OR_RETURN(cluster, WithBase(std::move(cluster), file.where));
  }
  if (!cluster.as_system().empty()) {
    return InputError(file.where,
                      absl::StrCat("as_system is \"", cluster.as_system(), "\", which a plan has"),
                      "leave it out: --system sets it, with the rates of the system");
  }
  RETURN_IF_ERROR(CheckCluster(cluster, file.where));
  return cluster;
}

}  // namespace oneflow

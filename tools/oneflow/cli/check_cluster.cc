#include "tools/oneflow/cli/check_cluster.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/verify/verify_plan.h"

namespace oneflow {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr double kLeastSlowdown = 0.2;  // of a system; the most is 1 over it

// All fields of a message and of those in it, so that none that is added is forgotten.
class Numbers {
 public:
  // `most_sustained`: above 1 where a system is faster than `sustained` gives.
  Numbers(std::string_view where, double most_sustained)
      : where_(where), most_sustained_(most_sustained) {}

  absl::Status Check(const Message& message, const std::string& path) const {
    for (int f = 0; f < message.GetDescriptor()->field_count(); ++f) {
      const FieldDescriptor& field = *message.GetDescriptor()->field(f);
      const std::string name = absl::StrCat(path, field.name());
      RETURN_IF_ERROR(field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE
                          ? CheckMessages(message, field, name)
                          : CheckNumbers(message, field, name));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckMessages(const Message& message, const FieldDescriptor& field,
                             const std::string& name) const {
    const Reflection& reflection = *message.GetReflection();
    if (!field.is_repeated()) return Check(reflection.GetMessage(message, &field), name + ".");
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      RETURN_IF_ERROR(Check(reflection.GetRepeatedMessage(message, &field, i),
                            absl::StrCat(name, "[", i, "].")));
    }
    return absl::OkStatus();
  }

  absl::Status CheckNumbers(const Message& message, const FieldDescriptor& field,
                            const std::string& name) const {
    if (!field.is_repeated()) return CheckNumber(ReadValue(message, field), field, name);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE) return absl::OkStatus();
    const Reflection& reflection = *message.GetReflection();
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      const double value = reflection.GetRepeatedDouble(message, &field, i);
      RETURN_IF_ERROR(CheckNumber(value, field, absl::StrCat(name, "[", i, "]")));
    }
    return absl::OkStatus();
  }

  absl::Status CheckNumber(double value, const FieldDescriptor& field,
                           const std::string& name) const {
    if (IsShare(field)) {
      if (value > 0 && value <= 1) return absl::OkStatus();
      return InputError(where_, absl::StrCat(name, " is ", value),
                        "use a part of the bandwidth, above 0 and at most 1");
    }
    if (!std::isfinite(value) || value < 0) {
      return InputError(where_, absl::StrCat(name, " is ", value),
                        "use a finite number that is not negative, or leave it out");
    }
    const bool sustained = field.containing_type() == proto::Sustained::descriptor();
    if (IsShareOrNone(field) && value > (sustained ? most_sustained_ : 1)) {
      return InputError(where_, absl::StrCat(name, " is ", value), "use a part, at most 1");
    }
    if (IsUsage(field) && value > 0.9) {
      return InputError(where_, absl::StrCat(name, " is ", value), "use a part, 0 to 0.9");
    }
    if (IsTime(field) && value > kMostSeconds) {
      return InputError(where_, absl::StrCat(name, " is ", value, " seconds"),
                        absl::StrCat("use at most ", kMostSeconds));
    }
    if (IsRate(field) && value > 0 && (value < 1 || value > kMostRate)) {
      return InputError(where_, absl::StrCat(name, " is ", value, " a second"),
                        absl::StrCat("use 1 to ", kMostRate, ", or leave it out"));
    }
    return absl::OkStatus();
  }

  // Within these the times of all steps of any plan are finite sums, and compare exactly enough.
  static constexpr double kMostSeconds = 3600, kMostRate = 1e24;

  static bool IsTime(const FieldDescriptor& field) {
    return field.name() == "seconds" || field.name().ends_with("_seconds") ||
           field.name() == "latency" ||
           (field.containing_type() == proto::Protocol::descriptor() && !IsShare(field));
  }

  static bool IsShare(const FieldDescriptor& field) {
    return field.containing_type() == proto::Protocol::descriptor() &&
           field.name().ends_with("_share");
  }

  // 0: not given.
  static bool IsShareOrNone(const FieldDescriptor& field) {
    return field.name() == "share" || field.name() == "unaligned" ||
           field.name() == "small_tiles" ||
           field.containing_type() == proto::MemoryShares::descriptor() ||
           field.name() == "compute" || field.name() == "memory";
  }

  // A part of something that may be none of it, but leaves some.
  static bool IsUsage(const FieldDescriptor& field) {
    return field.name() == "processor_usage" || field.name() == "congestion" ||
           field.containing_type() == proto::Spread::descriptor();
  }

  static bool IsRate(const FieldDescriptor& field) {
    return field.name().starts_with("peak_flops") || field.name().ends_with("bandwidth") ||
           field.name() == "to_host" || field.name() == "from_host" || field.name() == "forward" ||
           field.name() == "backward";
  }

  // 0 of what is no number.
  static double ReadValue(const Message& message, const FieldDescriptor& field) {
    const Reflection& reflection = *message.GetReflection();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_DOUBLE: return reflection.GetDouble(message, &field);
      case FieldDescriptor::CPPTYPE_FLOAT: return reflection.GetFloat(message, &field);
      case FieldDescriptor::CPPTYPE_INT32: return reflection.GetInt32(message, &field);
      case FieldDescriptor::CPPTYPE_INT64:
        return static_cast<double>(reflection.GetInt64(message, &field));
      default: return 0;
    }
  }

  const std::string where_;
  const double most_sustained_;
};

// A collective runs by one protocol at all levels.
absl::Status CheckProtocols(const proto::Cluster& cluster, int l, std::string_view where) {
  const proto::Level &first = cluster.level(0), &level = cluster.level(l);
  if (level.protocol_size() != first.protocol_size()) {
    return InputError(where,
                      absl::StrCat("level[", l, "] has ", level.protocol_size(),
                                   " protocols, level[0] has ", first.protocol_size()),
                      "give the same protocols at every level, in one order");
  }
  for (int p = 0; p < level.protocol_size(); ++p) {
    if (level.protocol(p).name() == first.protocol(p).name()) continue;
    return InputError(
        where,
        absl::StrCat("level[", l, "].protocol[", p, "] is \"", level.protocol(p).name(),
                     "\", level[0]'s is \"", first.protocol(p).name(), "\""),
        "give the same protocols at every level, in one order");
  }
  return absl::OkStatus();
}

// Units of a level are counted in devices.
absl::Status CheckLevels(const proto::Cluster& cluster, std::string_view where) {
  for (int l = 0; l < cluster.level_size(); ++l) {
    RETURN_IF_ERROR(CheckProtocols(cluster, l, where));
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (int l = 0; l + 1 < cluster.level_size(); ++l) {  // the outermost holds all there are
    if (cluster.level(l).size() > 0) continue;
    return InputError(where, absl::StrCat("level[", l, "].size is missing"),
                      "say how many devices, or units of the level below, it joins");
  }
  int64_t devices = 1;
  for (const proto::Level& level : cluster.level()) {
    if (level.size() > 0) devices *= level.size();
    if (devices <= kMost) continue;
    return InputError(where, absl::StrCat("its levels have more than ", kMost, " devices"),
                      "use smaller sizes");
  }
  return absl::OkStatus();
}

// A bandwidth is divided by the devices that share it, and all of a node may.
absl::Status CheckHostLink(const proto::HostLink& link, std::string_view where) {
  constexpr int kMost = 1024;
  if (link.sharing() <= kMost) return absl::OkStatus();
  return InputError(
      where, absl::StrCat("host_link.sharing is ", link.sharing(), " devices of one host"),
      absl::StrCat("use at most ", kMost, ", or leave it out: each device has its own link"));
}

// A measurement of a kernel that does not exist would count for all kernels that were not measured.
absl::Status CheckKernels(const proto::Device& device, std::string_view where) {
  for (int k = 0; k < device.kernel_time_size(); ++k) {
    const std::string& kernel = device.kernel_time(k).kernel();
    const bool host_copy = kernel == "copy_in" || kernel == "copy_out";
    if (host_copy || FindOpDef(kernel) != nullptr) continue;
    const std::string nearest = Nearest(kernel, OpKinds());
    return InputError(
        where,
        absl::StrCat("device.kernel_time[", k, "].kernel is \"", kernel, "\"; there is none"),
        nearest.empty() ? "see docs/ops.md for the kinds of ops"
                        : "did you mean \"" + nearest + "\"?");
  }
  return absl::OkStatus();
}

// Figures of a library that is not there, or figures and no library, would count nothing.
absl::Status CheckAttention(const proto::Device& device, std::string_view where) {
  const std::string& wanted = device.attention_library();
  std::set<std::string> known;
  for (int i = 0; i < device.attention_size(); ++i) {
    const proto::AttentionRates& rates = device.attention(i);
    known.insert(rates.library());
    const auto& keys = rates.keys();
    const auto positive = [](const auto& all) {
      return std::all_of(all.begin(), all.end(), [](double rate) { return rate > 0; });
    };
    const bool ascend = std::is_sorted(keys.begin(), keys.end(), std::less_equal<>());
    if (rates.head_size() > 0 && !keys.empty() && keys[0] > 0 && ascend &&
        rates.forward_size() == keys.size() && rates.backward_size() == keys.size() &&
        positive(rates.forward()) && positive(rates.backward())) {
      continue;
    }
    return InputError(
        where, absl::StrCat("device.attention[", i, "] is incomplete"),
        "give a head_size, ascending keys, and as many rates above 0 forward and backward");
  }
  if (known.empty() ? wanted.empty() : known.count(wanted) > 0) return absl::OkStatus();
  return InputError(where,
                    absl::StrCat("device.attention_library is \"", wanted, "\", with ",
                                 known.empty() ? "no rates of attention"
                                               : "rates of " + absl::StrJoin(known, ", ")),
                    "name a library whose rates the file has");
}

absl::Status CheckRegion(const proto::Region& region, const std::string& name,
                         std::string_view where) {
  for (const auto& [figure, range] : {std::pair("sequence", &region.sequence()),
                                      {"parameters", &region.parameters()},
                                      {"devices", &region.devices()},
                                      {"device_tokens", &region.device_tokens()},
                                      {"slots", &region.slots()}}) {
    if (range == &region.slots() && !region.experts()) continue;
    if (range->most() > 0 && range->least() <= range->most()) continue;
    return InputError(
        where, absl::StrCat(name, ".", figure, " is ", range->least(), " to ", range->most()),
        "give its least and its most, which is above 0 and not below the least");
  }
  if (region.models() < 1 || region.models() > region.runs()) {
    return InputError(
        where,
        absl::StrCat(name, " is of ", region.runs(), " runs of ", region.models(), " models"),
        "say how many runs were compared, and of how many models: at least 1");
  }
  if (region.sigma() > 0) return absl::OkStatus();
  return InputError(where, name + ".sigma is 0", "give the root mean square of the errors");
}

absl::Status CheckSystem(const proto::System& system, const std::string& name,
                         std::string_view where) {
  const bool is_word = std::ranges::all_of(system.name(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  });
  if (system.name().empty() || !is_word) {
    return InputError(where, absl::StrCat(name, ".name is \"", system.name(), "\""),
                      "use a word for --system: letters, digits, _, - and .");
  }
  if (!(system.slowdown() >= kLeastSlowdown && system.slowdown() <= 1 / kLeastSlowdown)) {
    return InputError(where, absl::StrCat(name, ".slowdown is ", system.slowdown()),
                      absl::StrCat("use ", kLeastSlowdown, " to ", 1 / kLeastSlowdown,
                                   "; 1: kernels take as long as `sustained` gives"));
  }
  if (system.what().empty() || system.region().empty()) {
    return InputError(where,
                      absl::StrCat(name, " has no ", system.what().empty() ? "what" : "region"),
                      "say what it is, and give a region for each kind of its runs");
  }
  for (int r = 0; r < system.region_size(); ++r) {
    RETURN_IF_ERROR(CheckRegion(system.region(r), absl::StrCat(name, ".region[", r, "]"), where));
  }
  return absl::OkStatus();
}

absl::Status CheckSystems(const proto::Cluster& cluster, std::string_view where) {
  std::set<std::string> names;
  for (int s = 0; s < cluster.system_size(); ++s) {
    const proto::System& system = cluster.system(s);
    const std::string name = absl::StrCat("system[", s, "]");
    RETURN_IF_ERROR(CheckSystem(system, name, where));
    if (names.insert(system.name()).second) continue;
    return InputError(where, absl::StrCat(name, ".name is \"", system.name(), "\", twice"),
                      "give each system a name of its own");
  }
  if (!cluster.as_system().empty() && names.count(cluster.as_system()) == 0) {
    return InputError(where,
                      absl::StrCat("as_system is \"", cluster.as_system(), "\"; there is none"),
                      "leave it out: --system sets it");
  }
  const proto::BetweenSystems& between = cluster.between_systems();
  if (names.empty() && !cluster.has_between_systems()) return absl::OkStatus();
  constexpr int kMostFreedom = 1000;
  if (!names.empty() && between.sigma() > 0 && between.freedom() >= 1 &&
      between.freedom() <= kMostFreedom && !between.what().empty()) {
    return absl::OkStatus();
  }
  return InputError(
      where,
      absl::StrCat("between_systems, of ", names.size(), " systems, has sigma ", between.sigma(),
                   ", freedom ", between.freedom(), " and what \"", between.what(), "\""),
      absl::StrCat("give systems, a sigma above 0, a freedom of 1 to ", kMostFreedom,
                   ", and what the devices are, e.g. \"H100s\""));
}

}  // namespace

absl::Status CheckCluster(const proto::Cluster& cluster, std::string_view where) {
  RETURN_IF_ERROR(
      Numbers(where, cluster.as_system().empty() ? 1 : 1 / kLeastSlowdown).Check(cluster, ""));
  RETURN_IF_ERROR(CheckLevels(cluster, where));
  RETURN_IF_ERROR(CheckHostLink(cluster.host_link(), where));
  RETURN_IF_ERROR(CheckKernels(cluster.device(), where));
  const proto::Device& device = cluster.device();
  if (device.kernel_threads() > kMaxKernelThreads) {
    return InputError(where, "has more kernel threads than a device may use",
                      absl::StrCat("use at most ", kMaxKernelThreads));
  }
  if (device.memory_bytes() > 0 && UsableBytes(device) <= 0) {
    return InputError(
        where,
        absl::StrCat("device.", device.has_kept_bytes() ? "kept" : "reserve", "_bytes is ",
                     KeptBytes(device), " of memory_bytes ", device.memory_bytes()),
        "say less, or leave it out: nothing would be left to a plan");
  }
  RETURN_IF_ERROR(CheckAttention(device, where));
  return CheckSystems(cluster, where);
}

}  // namespace oneflow

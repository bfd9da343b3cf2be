// oneflow cluster: the clusters that --cluster knows, one of them as a file, and one from the
// figures of a data sheet.
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/cost/link_cost.h"
#include "oneflow_core/print/plan_text.h"
#include "oneflow_core/print/table.h"
#include "oneflow_core/recipe/parse_bytes.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/known_clusters.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/read_cluster.h"
#include "tools/oneflow/cli/verb.h"

namespace oneflow {
namespace {

constexpr const char* kFigures[] = {"bf16_tflops", "memory",         "memory_bandwidth",
                                    "devices",     "link_bandwidth", "network_bandwidth"};
// The cluster that a data sheet does not tell of.
constexpr char kBase[] = "a100";
// NVLink 3 has 300 GB/s each way (examples/clusters/a100.textproto).
constexpr double kLinkOfBase = 300e9;

std::string LinksText(const proto::Cluster& cluster) {
  return absl::StrJoin(cluster.level(), "; ", [](std::string* text, const proto::Level& level) {
    absl::StrAppendFormat(text, "%s: ", level.name());
    if (level.size() > 0) absl::StrAppend(text, level.size(), " at ");
    absl::StrAppendFormat(text, "%.4g GB/s", level.bandwidth() / 1e9);
    if (level.ports() > 0) absl::StrAppend(text, " a port, ports: ", level.ports());
  });
}

absl::Status ListClusters() {
  std::vector<std::vector<std::string>> rows = {
      {"", "devices", "bf16 TFLOP/s", "memory", "kept", "TB/s", "links"}};
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const std::string& name : KnownClusters()) {
    ASSIGN_OR_RETURN(const ClusterText text, ReadClusterText(name));
    ASSIGN_OR_RETURN(const proto::Cluster cluster, ParseCluster(text));
    const proto::Device& device = cluster.device();
    rows.push_back({name, cluster.name(), absl::StrFormat("%.4g", device.peak_flops_bf16() / 1e12),
                    SizeText(static_cast<double>(device.memory_bytes())),
                    SizeText(static_cast<double>(device.reserve_bytes())),
                    absl::StrFormat("%.3g", device.memory_bandwidth() / 1e12), LinksText(cluster)});
    nlohmann::ordered_json levels = nlohmann::ordered_json::array();
    for (const proto::Level& level : cluster.level()) {
      levels.push_back(
          {{"name", level.name()}, {"size", level.size()}, {"bandwidth", level.bandwidth()}});
    }
    list.push_back({{"name", name},
                    {"devices", cluster.name()},
                    {"peak_flops_bf16", device.peak_flops_bf16()},
                    {"memory_bytes", device.memory_bytes()},
                    {"reserve_bytes", device.reserve_bytes()},
                    {"memory_bandwidth", device.memory_bandwidth()},
                    {"levels", std::move(levels)}});
  }
  const Column number = {.right = true};
  return Print(TableText(rows, {{}, {}, number, number, number, number, {}}) +
                   "kept: of the memory, for libraries; `oneflow cluster h100` writes a file\n",
               {{"clusters", std::move(list)}});
}

absl::StatusOr<double> ReadBytes(const std::string& flag, const std::string& value) {
  ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes("--" + flag + "=" + value, value));
  return static_cast<double>(bytes);
}

std::string NumberText(double value) { return absl::StrFormat("%.10g", value); }

// A file whose base has what the six figures do not say.
absl::StatusOr<std::string> DataSheetText(const Arguments& args) {
  for (const char* name : kFigures) {
    if (args.Given(name)) continue;
    return InputError(absl::StrCat("--", name), "is missing",
                      absl::StrCat("a cluster from a data sheet needs six figures: --",
                                   absl::StrJoin(kFigures, ", --")));
  }
  if (!(FLAGS_bf16_tflops > 0 && FLAGS_bf16_tflops <= 1e6)) {
    return InputError(absl::StrCat("--bf16_tflops=", FLAGS_bf16_tflops), "is out of range",
                      "use TFLOP/s of one device, above 0 and at most 1e6");
  }
  int devices = 0;
  if (!absl::SimpleAtoi(FLAGS_devices, &devices) || devices < 1) {
    return InputError("--devices=" + FLAGS_devices, "is no number of devices of a node",
                      "use 1 or more");
  }
  ASSIGN_OR_RETURN(const ClusterText text, ReadClusterText(kBase));
  ASSIGN_OR_RETURN(const proto::Cluster base, ParseCluster(text));
  ASSIGN_OR_RETURN(const double memory, ReadBytes("memory", FLAGS_memory));
  double reserve = static_cast<double>(base.device().reserve_bytes());
  if (FLAGS_reserve == "0") {
    reserve = 0;
  } else if (!FLAGS_reserve.empty()) {
    ASSIGN_OR_RETURN(reserve, ReadBytes("reserve", FLAGS_reserve));
  }
  ASSIGN_OR_RETURN(const double rate, ReadBytes("memory_bandwidth", FLAGS_memory_bandwidth));
  ASSIGN_OR_RETURN(const double link, ReadBytes("link_bandwidth", FLAGS_link_bandwidth));
  ASSIGN_OR_RETURN(const double network, ReadBytes("network_bandwidth", FLAGS_network_bandwidth));
  const double peak = FLAGS_bf16_tflops * 1e12;
  const double reached = LinkOfLevel(base, 0).bandwidth / kLinkOfBase;
  std::string made = absl::StrFormat(
      "# A cluster from six figures of a data sheet. All else is assumed: it is that of %s, the "
      "base.\n"
      "# proto/cluster.proto describes the fields.\n"
      "base: \"%s\"\n"
      "name: \"devices of %g TFLOP/s and %s, nodes of %d\"\n"
      "device {\n"
      "  peak_flops: %s  # FP32; assumed, in proportion to bf16\n"
      "  peak_flops_bf16: %s  # attention in proportion\n"
      "  memory_bandwidth: %s\n"
      "  memory_bytes: %s  # what PyTorch reports of a device is a better figure\n"
      "  reserve_bytes: %s  # %s\n"
      "}\n"
      "level {\n"
      "  name: \"%s\"\n"
      "  size: %d\n"
      "  bandwidth: %s  # %s x %.3g, the part that collectives reach; assumed\n"
      "}\n"
      "level {\n"
      "  name: \"%s\"\n"
      "  bandwidth: %s\n"
      "}\n",
      kBase, kBase, FLAGS_bf16_tflops, SizeText(memory), devices,
      NumberText(peak * base.device().peak_flops() / base.device().peak_flops_bf16()),
      NumberText(peak), NumberText(rate), absl::StrFormat("%.0f", memory),
      absl::StrFormat("%.0f", reserve),
      FLAGS_reserve.empty() ? "for libraries; assumed" : "for libraries", base.level(0).name(),
      devices, NumberText(link * reached), NumberText(link), reached, base.level(1).name(),
      NumberText(network));
  RETURN_IF_ERROR(ParseCluster({"the figures", made}).status());
  return made;
}

absl::Status Clusters(const Arguments& args) {
  if (args.positional.size() > 1) {
    return InputError("oneflow cluster " + absl::StrJoin(args.positional, " "),
                      "is more than one cluster",
                      "give one name, or the figures of a data sheet, or neither for a list");
  }
  std::string figure = args.Given("reserve") ? "reserve" : "";
  for (const char* name : kFigures) {
    if (args.Given(name)) figure = name;
  }
  const bool sheet = !figure.empty();
  if (sheet && !args.positional.empty()) {
    return InputError("--" + figure, "acts on nothing beside the name " + args.positional[0],
                      absl::StrCat("edit the file, or give all six figures and no name: --",
                                   absl::StrJoin(kFigures, ", --")));
  }
  if (!sheet && args.positional.empty()) return ListClusters();
  if (FLAGS_format != "text") {
    return InputError("--format=" + FLAGS_format, "acts on nothing: a cluster is written as text",
                      "leave it out");
  }
  if (sheet) {
    ASSIGN_OR_RETURN(const std::string text, DataSheetText(args));
    return Print(text);
  }
  const std::string& name = args.positional[0];
  ASSIGN_OR_RETURN(const ClusterText file,
                   KnownClusterText(name, "oneflow cluster " + name, "NAME"));
  return Print(file.text);
}

}  // namespace

Verb ClusterVerb() {
  return {verbs::kCluster, "list the clusters that --cluster knows, or write one to edit",
          "oneflow cluster\n"
          "oneflow cluster h100 > mine.textproto\n"
          "oneflow cluster --bf16_tflops=362 --memory=48GB --memory_bandwidth=864GB --devices=8 "
          "--link_bandwidth=32GB --network_bandwidth=12.5GB > mine.textproto\n",
          Clusters, /*words=*/"NAME"};
}

}  // namespace oneflow

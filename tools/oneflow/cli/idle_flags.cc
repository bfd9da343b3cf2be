#include "tools/oneflow/cli/idle_flags.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "oneflow_core/model/annotate_recompute.h"
#include "oneflow_core/model/sharding.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/plan_text.h"
#include "tools/oneflow/cli/flags.h"

namespace oneflow {
namespace {

bool HasTokenAxis(const Mesh& mesh) {
  return std::any_of(mesh.axes.begin(), mesh.axes.end(), [](const Mesh::Axis& axis) {
    return axis.size > 1 && SplitsTokens(axis.name);
  });
}

// True if an axis of that name, or a factor of it (tensor.0), has two devices or more.
bool HasAxis(const Mesh& mesh, std::string_view name) {
  return std::any_of(mesh.axes.begin(), mesh.axes.end(), [&](const Mesh::Axis& axis) {
    return axis.size > 1 && axis.name.substr(0, axis.name.find('.')) == name;
  });
}

bool HasVariable(const proto::Graph& graph) {
  return std::any_of(graph.op().begin(), graph.op().end(),
                     [](const proto::Op& op) { return op.kind() == "variable"; });
}

// True if the graph itself says that a variable rests in the host's memory.
bool MovesVariables(const proto::Graph& graph) {
  return std::any_of(graph.op().begin(), graph.op().end(),
                     [](const proto::Op& op) { return op.attr().contains("host"); });
}

}  // namespace

void WarnOfIdleOffload(const GraphSource& source, const PlanRequest& options,
                       const proto::Plan& plan) {
  // A larger plan keeps more than the buffers of its copies take, and its compilation costs more.
  constexpr int64_t kSmall = int64_t{1} << 30;
  if (!options.offload.activations || FindProgram(plan, "train") == nullptr) return;
  if (MostDeviceBytes(plan) > kSmall) return;
  PlanRequest without = options;
  without.offload.activations.reset();
  const absl::StatusOr<proto::Plan> other = Compile(source, without);
  if (!other.ok() || MostDeviceBytes(*other) > MostDeviceBytes(plan)) return;
  std::fprintf(stderr,
               "oneflow: warning: --offload=activations saves no memory in this plan: a device "
               "takes %s with it, %s without\n",
               BytesText(MostDeviceBytes(plan)).c_str(),
               BytesText(MostDeviceBytes(*other)).c_str());
}

void WarnOfIdleFlags(const Arguments& args, const PlanRequest& options,
                     const proto::Graph& graph) {
  const Mesh& mesh = options.mesh;
  const auto warn = [&](const char* flag, bool idle, const char* why) {
    if (!idle || !args.Given(flag)) return;
    const std::string given = std::string(flag) + "=" + args.Repeated(flag)[0];
    std::fprintf(stderr, "oneflow: warning: --%s acts on nothing in this plan: %s\n", given.c_str(),
                 why);
  };
  const bool one = mesh.devices() == 1, tokens = HasTokenAxis(mesh),
             tensor = HasAxis(mesh, "tensor");
  const char* no_tokens = "no axis of 2 or more devices splits tokens (data, expert, context)";
  const auto split = std::count_if(mesh.axes.begin(), mesh.axes.end(),
                                   [](const Mesh::Axis& axis) { return axis.size > 1; });
  const absl::StatusOr<RecomputePolicy> recompute = ParseRecompute(FLAGS_recompute);
  const bool gathers = recompute.ok() && recompute->gather;
  const bool overlaps = OverlapsExchanges(options);
  warn("shard", FLAGS_shard != "none" && !tokens, no_tokens);
  warn("gather", FLAGS_gather != "each_use" && FLAGS_shard.find("weights") == std::string::npos,
       "--shard splits no weights");
  warn("reduce", FLAGS_reduce != "once" && !tokens, no_tokens);
  warn("sequence_parallel", FLAGS_sequence_parallel && !tensor,
       "the mesh has no axis tensor of 2 or more devices");
  warn("keep_axis_order", FLAGS_keep_axis_order && split < 2,
       "the mesh has fewer than two axes of 2 or more devices");
  const bool rests = FLAGS_offload != "none" || FLAGS_update_on == "host" || MovesVariables(graph);
  warn("overlap", overlaps && one && !rests, "one device exchanges nothing");
  warn("bucket_bytes", one, "one device exchanges nothing");
  warn("bucket_bytes", !one && !overlaps, "exchanges are joined only with --overlap=true");
  warn("context_pieces", FLAGS_context_pieces > 1 && !HasAxis(mesh, "context"),
       "the mesh has no axis context of 2 or more devices");
  warn("prefetch", one && !rests, "one device exchanges nothing");
  warn("prefetch", (!one || rests) && !overlaps, "uses run ahead only with --overlap=true");
  warn("recompute", gathers && !tokens && !tensor,
       "without an axis data, context or tensor of 2 or more devices the forward gathers nothing");
  const bool trains = !graph.loss().empty() && HasVariable(graph);
  const bool weights = FLAGS_offload.find("weights") != std::string::npos && HasVariable(graph);
  warn("offload", FLAGS_offload != "none" && !trains && !weights,
       "the graph has no loss of variables, so nothing is kept for a backward or an update");
  warn("update_on", FLAGS_update_on == "host" && !trains,
       "the graph has no loss of variables, so nothing is updated");
  warn("host_memory", FLAGS_device == "cpu" && !rests,
       "without --offload or --update_on=host nothing of a CPU device rests in the host's memory");
}

}  // namespace oneflow

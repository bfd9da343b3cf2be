// oneflow run: executes any graph once on given inputs; with --shards one can see what SBP does.
#include <algorithm>
#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/runtime.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "tools/oneflow/cli/backend_flags.h"
#include "tools/oneflow/cli/check_outputs.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/one_process.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/cli/verb.h"
#include "tools/oneflow/model/tensor_io.h"
#include "training/data/npy.h"
#include "training/trainer/plan_facts.h"
#include "training/trainer/runtime_options.h"

namespace oneflow {
namespace {

constexpr std::string_view kMend = "the plan was edited; compile it again";

using Files = std::map<std::string, std::string>;  // tensor -> file

absl::StatusOr<Files> ParseFiles(const Arguments& args, const std::string& flag) {
  Files files;
  for (const std::string& text : args.Repeated(flag)) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      return InputError(absl::StrCat("--", flag, "=", text), "is not NAME=FILE.npy");
    }
    if (!files.emplace(text.substr(0, equals), text.substr(equals + 1)).second) {
      return InputError(absl::StrCat("--", flag, "=", text), "the tensor is given twice");
    }
  }
  return files;
}

// "out.npy" -> "out.rank1.npy"
std::string ShardFile(const std::string& file, int rank) {
  const size_t dot = file.rfind(".npy");
  return file.substr(0, dot) + ".rank" + std::to_string(rank) + ".npy";
}

absl::Status CheckNames(const Files& files, const proto::Plan& plan, const std::string& kernel,
                        const std::string& flag) {
  std::vector<std::string> names = HostTensorNames(plan, "run", kernel);
  for (const auto& [name, file] : files) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::string list;
    for (const std::string& n : names) list += (list.empty() ? "" : ", ") + n;
    return InputError(absl::StrCat("--", flag, "=", name, "=", file),
                      "the graph has no such tensor to " + flag,
                      list.empty() ? "it has none" : "it has " + list);
  }
  if (kernel == "feed") {
    for (const std::string& name : names) {
      if (!files.contains(name)) {
        return InputError("--feed", "input " + name + " is not given",
                          "write --feed=" + name + "=FILE.npy");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckShardFiles(const Arguments& args, const Files& fetches, int ranks) {
  for (const auto& [name, file] : fetches) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string where = absl::StrCat("--shards --fetch=", name, "=", file);
      RETURN_IF_ERROR(CheckNotRead(args, where, ShardFile(file, rank)));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteFetched(const FetchedTensors& fetched, const Files& fetches) {
  for (const auto& [name, file] : fetches) {
    const auto full = fetched.full.find(name);
    const auto shards = fetched.shards.find(name);
    if (full == fetched.full.end() || (FLAGS_shards && shards == fetched.shards.end()))
      return InputError("--fetch=" + name, "the plan does not fetch all of it", kMend);
    RETURN_IF_ERROR(WriteNpy(file, full->second));
    RETURN_IF_ERROR(
        Print(absl::StrCat(file, ": ", name, " ", ToString(full->second.dims), "\n")));
    if (!FLAGS_shards) continue;
    for (const auto& [rank, piece] : shards->second) {
      const std::string shard = ShardFile(file, rank);
      RETURN_IF_ERROR(WriteNpy(shard, piece));
      RETURN_IF_ERROR(Print(
          absl::StrCat(shard, ": rank ", rank, " of ", name, " ", ToString(piece.dims), "\n")));
    }
  }
  return absl::OkStatus();
}

absl::Status RunGraph(const Arguments& args) {
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(args));
  ASSIGN_OR_RETURN(const bool works, WorksAlone("run", run));
  if (!works) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Files feeds, ParseFiles(args, "feed"));
  ASSIGN_OR_RETURN(const Files fetches, ParseFiles(args, "fetch"));
  if (FLAGS_shards && fetches.empty()) {
    return InputError("--shards", "there is nothing to write parts of",
                      "add --fetch=NAME=FILE.npy");
  }
  ASSIGN_OR_RETURN(const proto::Plan plan, PlanFromFlags(args));
  RETURN_IF_ERROR(CheckExact(plan.graph(), "run"));
  if (FindProgram(plan, "run") == nullptr) {
    return InputError(FLAGS_graph.empty() ? FLAGS_plan : FLAGS_graph, "the plan has no program run",
                      "use `oneflow train` or `oneflow generate` for a model that reads tokens");
  }
  // Proves the plan, which may be edited: what is looked up in it below is there.
  RuntimeOptions options;
  RETURN_IF_ERROR(SetRuntimeOptions(run, &options));
  options.notice = PrintNotice;
  SoleProcess alone;
  alone.Configure(&options);
  ASSIGN_OR_RETURN(const std::optional<GpuBackend> gpus, OpenGpus(run, plan, alone));
  if (gpus) options.backend = &gpus->devices;
  ASSIGN_OR_RETURN(const auto runtime, Runtime::Create(plan, options));
  RETURN_IF_ERROR(CheckNames(feeds, plan, "feed", "feed"));
  RETURN_IF_ERROR(CheckNames(fetches, plan, "fetch", "fetch"));
  if (FLAGS_shards) {
    ASSIGN_OR_RETURN(const Mesh mesh, MeshFromProto(plan.mesh(), "plan"));
    RETURN_IF_ERROR(CheckShardFiles(args, fetches, mesh.devices()));
  }
  std::map<std::string, NpyArray> inputs;
  for (const auto& [name, file] : feeds) {
    ASSIGN_OR_RETURN(inputs[name], ReadNpy(file));
    RETURN_IF_ERROR(CheckFeed(plan, "run", name, inputs[name], file));
  }

  RunContext context;
  context.seed = run.has_seed() ? run.seed() : 1;
  RETURN_IF_ERROR(runtime->Run("init", context, 1));
  FetchedTensors fetched;
  std::mutex mutex;  // pieces may come from several host workers
  context.load = [&](const Piece& piece) {
    const auto input = inputs.find(*piece.name);  // not so for a variable that program run loads
    return input != inputs.end() ? CopyFeed(input->second, piece)
                                 : InputError(*piece.name, "is no input of the graph", kMend);
  };
  context.save = [&](const Piece& piece) {
    std::lock_guard lock(mutex);
    return fetched.Take(piece);
  };
  RETURN_IF_ERROR(runtime->Run("run", context, 1));
  return WriteFetched(fetched, fetches);
}

}  // namespace

Verb RunVerb() {
  return {verbs::kRun, "execute any graph on given inputs, and show each rank's slice",
          "oneflow run --graph=examples/matmul_data_parallel.textproto --feed=x=x.npy "
          "--feed=w=w.npy --fetch=out=out.npy --shards\n",
          RunGraph};
}

}  // namespace oneflow

// Trains a small GPT in this process: what the parity and numerics tests compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actor_runtime/kernel/run_context.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "proto/cluster.pb.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"

namespace oneflow {

class Runtime;
struct DeviceBackend;

struct SmallRun {
  proto::Model model =
      MakeModel("family: 'gpt'");  // 4 layers, so that four stages have work; see small_run.cc
  // The optimizer clips if there is a global norm.
  proto::Recipe recipe =
      MakeRecipe("--batch=8 --micro_batches=4 --schedule=1f1b --overlap=false --global_norm=true");
  int64_t steps = 20;
  int threads = 1;
  const DeviceBackend* backend = nullptr;  // of devices that run by themselves
  bool synchronous = false;                // such devices
  bool trace = false;
  std::optional<uint64_t> interleaving;  // drawn from it, all workers on one thread
  proto::Cluster cluster;                // that it is compiled for; its threads are those above
  uint64_t seed = 1;
  std::function<void(proto::Graph*)> edit;      // of the model's graph; may be null
  std::function<void(int64_t step)> on_report;  // called by the host worker; may be null
  // Called by Train and RunEveryProgram around each program they run; may be null.
  std::function<void(const Runtime&runtime, const std::string&program)> before, after;
  SmallRun();

  // Says more of the recipe: flags, "--mesh=pipe=2 --shard=weights", or the text of one ("": none).
  // With sequence_parallel messages cost nothing, so that positions are split.
  void Set(std::string_view flags);
  void Set(std::string_view name, std::string_view text);
  std::string Get(std::string_view name) const;  // the text of one
};

struct SmallResult {
  std::vector<double> losses, norms;
  std::vector<std::vector<double>> choices;  // of experts, by step, where the model has some
  bool operator==(const SmallResult&) const = default;  // the same bits
};

// The largest relative difference of the losses of two runs of as many steps; infinite if one of
// them is not finite.
double LargestDifference(const SmallResult& a, const SmallResult& b);

// The key of a run whose plan is recorded (recorded_plans.h).
std::string RecordKey(const SmallRun& run);

// Aborts the test (throws) on any error.
proto::Plan CompileSmall(const SmallRun& run);
SmallResult Train(const SmallRun& run);
// With a plan that CompileSmall made.
SmallResult Train(const SmallRun& run, const proto::Plan& plan);
// And the variables that are trained, in full, whatever the mesh splits: the bytes of each, by
// name.
struct Trained {
  SmallResult result;
  std::map<std::string, std::vector<std::byte>> variables;
  bool operator==(const Trained&) const = default;
};
Trained TrainAndSave(const SmallRun& run, const proto::Plan& plan);
// The same, but after `first` steps another plan of the model loads what the first one saves.
Trained TrainInTurns(const SmallRun& run, int64_t first, const proto::Plan& plan,
                     const proto::Plan& other);
// Trains twice with one runtime, of which the first is to fail: the second, and what the first
// said.
struct SecondResult {
  SmallResult result;
  std::string failure;
};
SecondResult TrainAfterFailure(const SmallRun& run, const proto::Plan& plan);

// What programs give: losses of eval, and by program, name and rank the bytes of what is fetched.
struct Given {
  std::vector<double> losses;
  std::map<std::string, std::vector<std::byte>> fetched;
  bool operator==(const Given&) const = default;
};
// All programs of the plan in order. Those that do not train take two steps (so that what is
// fetched ahead has filled both slots): on zeros, save to a checkpoint, load of it.
Given RunEveryProgram(const SmallRun& run);

}  // namespace oneflow

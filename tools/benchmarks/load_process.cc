// load_process PLAN PROCESSES INDEX: reads and proves a plan and makes the actors of one of its
// processes: nets, states, and what their exchanges do, those with members elsewhere included; no
// arenas and no kernels. That is what a process needs before its first step, whatever the others
// own. Prints how many actors, exchanges and pieces of exchanges it made.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "actor_runtime/actor/actor_state.h"
#include "actor_runtime/exec/loaded_plan.h"
#include "actor_runtime/exec/stage_mesh.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/net/plan_net.h"
#include "oneflow_core/verify/read_plan.h"

namespace oneflow {
namespace {

absl::Status Load(const std::string& path, int processes, int index) {
  ASSIGN_OR_RETURN(proto::Plan plan, ReadPlan(path));
  ASSIGN_OR_RETURN(const StageMesh mesh, MakeStageMesh(plan));
  const int each = mesh.ranks() / processes;
  LoadOptions options;
  options.ranks = {index * each, (index + 1) * each};
  // Nothing is run.
  options.make_communicator = [](const Group&, const ExchangeBounds&) { return nullptr; };
  const std::unique_ptr<Carrier> carrier = MakeHostCarrier(options.make_communicator);
  ASSIGN_OR_RETURN(const auto loaded, LoadedPlan::Load(std::move(plan), options));
  std::vector<ActorStates> states;
  size_t actors = 0;
  int64_t pieces = 0;
  for (size_t p = 0; p < loaded->programs().size(); ++p) {
    LoadedProgram& program = loaded->programs()[p];
    actors += program.net.specs.size();
    for (const StreamOrder& stream : program.net.streams) {
      states.push_back(InitialStates(stream.table));
    }
    ASSIGN_OR_RETURN(const PlanNet net,
                     MakePlanNet(loaded->plan(), loaded->plan().program(static_cast<int>(p))));
    for (size_t x = 0; x < program.works.size(); ++x) {
      ASSIGN_OR_RETURN(program.works[x], BindExchange({net, mesh, options.ranks, {}},
                                                      FindMembers(program.net, x), *carrier));
      pieces += program.works[x].pieces();
    }
  }
  size_t exchanges = 0;
  for (const LoadedProgram& program : loaded->programs()) exchanges += program.works.size();
  std::printf("%zu actors, %zu exchanges of %lld pieces, of ranks %d to %d\n", actors, exchanges,
              static_cast<long long>(pieces), options.ranks.begin, options.ranks.end - 1);
  return absl::OkStatus();
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: load_process PLAN PROCESSES INDEX\n");
    return 2;
  }
  const absl::Status status = oneflow::Load(argv[1], std::atoi(argv[2]), std::atoi(argv[3]));
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "compiler/lower/groups.h"
#include "compiler/lower/lower_to_actors.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/passes/passes.h"
#include "compiler/sbp/infer_sbp.h"
#include "compiler/schedule/issue_order.h"
#include "compiler/schedule/schedule.h"
#include "compiler/schedule/slots.h"
#include "compiler/schedule/streams.h"
#include "oneflow_core/plan/plan_format.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "tests/e2e/boxing_case.h"
#include "tests/e2e/recorded_plans.h"

namespace oneflow {
namespace {

TensorId Add(Graph* graph, const char* kind, const std::string& name, std::vector<TensorId> inputs,
             const BoxingCase& c, const NdSbp& sbp) {
  const OpId op = graph->AddOp(kind, name, std::move(inputs), {});
  Tensor& tensor = graph->tensors[graph->ops[op].outputs[0]];
  tensor.shape = Shape(c.dims);
  tensor.sbp = sbp;
  return graph->ops[op].outputs[0];
}

// The choice of infer_sbp if each tensor is constrained to its own layout.
SbpChoice Infer(const BoxingCase& c, Graph* graph) {
  std::vector<NdSbp> wanted;
  for (Tensor& tensor : graph->tensors) {
    for (size_t a = 0; a < c.mesh.axes.size(); ++a) {
      tensor.constraint[c.mesh.axes[a].name] = tensor.sbp[a];
    }
    wanted.push_back(std::move(tensor.sbp));
  }
  SbpChoice choice = InferSbp(graph, {.cluster = c.cluster}).value();
  for (size_t t = 0; t < wanted.size(); ++t) {
    for (size_t a = 0; a < c.mesh.axes.size(); ++a) {
      if (c.mesh.axes[a].size > 1) REQUIRE(graph->tensors[t].sbp[a] == wanted[t][a]);
    }
  }
  return choice;
}

}  // namespace

proto::Plan MakeBoxingPlan(const BoxingCase& c) {
  Graph graph;
  graph.mesh = c.mesh;
  SbpChoice choice{.op_inputs = {{}}};
  TensorId x = Add(&graph, "input", "x", {}, c, FedAs(c));
  if (c.constrained) x = Add(&graph, "add_n", "x.laid", {x}, c, c.from);
  ProgramSpec spec{.name = "run", .feed_inputs = true};
  for (size_t i = 0; i < c.to.size(); ++i) {
    const std::string name = "y" + std::to_string(i);
    const TensorId y = Add(&graph, "add_n", name, {x}, c, c.to[i]);
    graph.ops.back().stage = c.mesh.stages() - 1;
    choice.op_inputs.push_back({c.to[i]});
    spec.outputs.push_back({"fetch", name + ".fetch", {y}, {{"name", name}, {"raw", true}}});
  }
  if (c.constrained) choice = Infer(c, &graph);
  REQUIRE(InsertBoxing(&graph, choice, c.cluster).ok());
  proto::Plan plan;
  plan.set_version(kPlanVersion);
  *plan.mutable_mesh() = ToProto(c.mesh);
  plan.set_stage_axis(c.mesh.stage_axis());
  plan.set_kernel_threads(1);
  plan.set_launch_queue(1);
  *plan.mutable_cluster() = c.cluster;
  for (const proto::Group& group : FindGroups({&graph})) *plan.add_group() = group;
  auto lowered = LowerToActors(graph, {}, plan, spec).value();
  AddStreams(&lowered, c.mesh.stages(), *FindSchedule("1f1b"));
  *plan.add_program() = lowered.program;
  *plan.mutable_facts()->add_program() = lowered.facts;
  REQUIRE(SetSlots(plan, plan.mutable_program(0)).ok());
  REQUIRE(PlanMemory(c.mesh.stages(), &plan).ok());
  const std::vector<double> seconds(plan.program(0).actor_size(), 1);
  auto issue = PlayIssueOrders(plan, plan.program(0), seconds).value();
  for (const proto::IssueOrder& order : issue) *plan.mutable_program(0)->add_issue() = order;
  RecordPlan(RecordKey(c), plan);
  return plan;
}

}  // namespace oneflow

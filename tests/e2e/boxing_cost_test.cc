// One cost: what the search of layouts and insert_boxing take for a boxing is, to rounding, the
// seconds in which the simulator is done with the actors that it becomes, on devices that do
// nothing else. On CPUs of one and of several processes, with and without measured kernels, and on
// accelerators.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "compiler/boxing/boxing_path.h"
#include "compiler/sbp/transition_cost.h"
#include "oneflow_core/cost/actor_cost.h"
#include "planning/simulate/simulate.h"
#include "tests/e2e/boxing_case.h"

namespace oneflow {
namespace {

struct Machines {
  std::string name;
  proto::Cluster cluster;
};

proto::Cluster Base(proto::Device::Kind kind, int process) {
  proto::Cluster cluster;
  proto::Device* device = cluster.mutable_device();
  device->set_kind(kind);
  device->set_peak_flops(1e12);
  device->set_memory_bandwidth(2e11);
  device->set_firing_seconds(3e-6);
  for (const double bandwidth : {1e11, 1e9}) {
    proto::Level* level = cluster.add_level();
    level->set_size(process);
    level->set_latency(2e-6);
    level->set_bandwidth(bandwidth);
  }
  return cluster;
}

// Copies and sums that reach half, and a third, of the memory's rate.
proto::Cluster Measured() {
  proto::Cluster cluster = Base(proto::Device::CPU, 8);
  for (const auto& [kernel, rate] : {std::pair("slice", 1e11), std::pair("add", 7e10)}) {
    proto::KernelTime* time = cluster.mutable_device()->add_kernel_time();
    time->set_kernel(kernel);
    time->set_dtype(proto::F32);
    time->set_bytes(1 << 20);
    time->set_seconds((1 << 20) / rate);
  }
  return cluster;
}

proto::Cluster WithProtocols() {
  proto::Cluster cluster = Base(proto::Device::CUDA, 2);
  for (proto::Level& level : *cluster.mutable_level()) {
    for (const double share : {0.5, 1.0}) {
      proto::Protocol* protocol = level.add_protocol();
      protocol->set_ring_start(4e-6 * share);
      protocol->set_ring_step(1e-6 * share);
      protocol->set_ring_share(share);
      protocol->set_tree_start(5e-6 * share);
      protocol->set_tree_step(2e-6 * share);
      protocol->set_tree_share(share);
    }
    level.set_ports(2);
  }
  return cluster;
}

std::vector<Machines> Clusters() {
  return {{"CPUs of one process", Base(proto::Device::CPU, 8)},
          {"measured CPUs of one process", Measured()},
          {"CPUs of processes of two", Base(proto::Device::CPU, 2)},
          {"nodes of two GPUs", Base(proto::Device::CUDA, 2)},
          {"nodes of two GPUs with protocols", WithProtocols()}};
}

// Of the program's boxing, one firing after the other.
struct Simulated {
  double charged = 0;  // by ActorTimes
  double took = 0;     // in the run
  int actors = 0;
};
Simulated Simulate(const proto::Plan& plan, const proto::Cluster& cluster) {
  const proto::Program& program = plan.program(0);
  const auto times = ActorTimes(plan, program, plan.facts().program(0), cluster).value();
  // As the compiler simulates: where nobody counts packets, they are estimated.
  SimulateOptions options{.worker_a_device = cluster.device().kind() == proto::Device::CPU};
  for (const ActorTime& time : times) {
    options.actor_seconds.push_back(time.worker);
    options.link_seconds.push_back(time.link);
  }
  const auto run = Simulate(plan, "run", options).value();
  Simulated simulated;
  for (size_t a = 0; a < run.net.specs.size(); ++a) {
    const proto::Actor& actor = program.actor(run.net.specs[a].actor);
    if (!actor.has_boxing()) continue;
    REQUIRE(run.CountFirings(static_cast<int32_t>(a)) == 1);
    const SimulatedRun::Span span = run.FindSpan(static_cast<int32_t>(a), 0);
    simulated.charged += times[actor.id()].both();
    simulated.took += span.end - span.begin;
    ++simulated.actors;
  }
  return simulated;
}

double PathSeconds(const BoxingCase& c) {
  double seconds = 0;
  const BoxingCosts costs{c.cluster, c.mesh};
  for (const BoxingStep& step : BoxingPath(costs, {c.dims}, c.from, c.to[0])) {
    seconds += step.seconds;
  }
  return seconds;
}

TEST_CASE("a boxing's cost is the time that the simulator charges, also of ragged parts") {
  for (const auto& [name, cluster] : Clusters()) {
    for (const char* text : {"a=2", "a=3", "a=4", "a=2,b=2"}) {
      const Mesh mesh = *ParseMesh(text);
      for (const Dims& dims : {Dims{13, 7}, Dims{512, 1024}}) {
        const std::vector<NdSbp> all = AllSbps(mesh, 2);
        for (size_t i = 0; i < all.size(); ++i) {
          for (size_t j = i % 3; j < all.size(); j += 3) {
            if (all[i] == all[j]) continue;
            const BoxingCase c{mesh, dims, all[i], {all[j]}, cluster};
            INFO(name << ", " << text << ": " << ToString(all[i]) << " to " << ToString(all[j]));
            const proto::Plan plan = MakeBoxingPlan(c);
            const Simulated simulated = Simulate(plan, cluster);
            CHECK(simulated.actors > 0);
            CHECK(simulated.charged == Approx(PathSeconds(c)).epsilon(1e-9));
            CHECK(simulated.took == Approx(simulated.charged).epsilon(1e-9));
            double facts = 0;
            for (const proto::ActorFacts& of : plan.facts().program(0).actor()) {
              facts += of.seconds();
            }
            CHECK(facts == Approx(simulated.charged).epsilon(1e-9));
          }
        }
      }
    }
  }
}

TEST_CASE("the search's cost of a change on one axis is that time, where parts are even") {
  int compared = 0;
  for (const auto& [name, cluster] : Clusters()) {
    for (const char* text : {"a=2", "a=4"}) {
      const Mesh mesh = *ParseMesh(text);
      const TransitionCosts costs(cluster, mesh, 0);
      for (const Dims& dims : {Dims{16, 16}, Dims{1024, 4096}}) {
        for (const NdSbp& from : AllSbps(mesh, 2)) {
          for (const NdSbp& to : AllSbps(mesh, 2)) {
            if (from == to || (from[0].partial() && to[0].partial())) continue;
            const proto::Plan plan = MakeBoxingPlan({mesh, dims, from, {to}, cluster});
            INFO(name << ", " << text << ": " << ToString(from) << " to " << ToString(to));
            const double bytes = 4 * static_cast<double>(Product(dims));
            CHECK(costs.Seconds(from[0], to[0], bytes, DType::kF32) ==
                  Approx(Simulate(plan, cluster).charged).epsilon(1e-9));
            ++compared;
          }
        }
      }
    }
  }
  CHECK(compared == 5 * 2 * 2 * 18);
}

TEST_CASE("a transfer between stages has one cost, too") {
  for (const auto& [name, cluster] : Clusters()) {
    const Mesh mesh = *ParseMesh("pipe=2,a=2");
    for (const Sbp sbp : {S(0), P()}) {  // B is sent in parts over slow links
      INFO(name << ": " << ToString(sbp));
      const NdSbp all = {B(), sbp};
      const proto::Plan plan = MakeBoxingPlan({mesh, {512, 1024}, all, {all}, cluster});
      const Simulated simulated = Simulate(plan, cluster);
      REQUIRE(simulated.actors == 1);
      const BoxingWork work = TransferWork(mesh, {{512, 1024}}, all, 0, 1);
      CHECK(simulated.charged == Approx(BoxingSeconds({cluster, mesh}, work)).epsilon(1e-9));
      CHECK(simulated.took == Approx(simulated.charged).epsilon(1e-9));
    }
  }
}

}  // namespace
}  // namespace oneflow

// Simulated time equals the play of the links: programs that move data to the host and back, held
// against closed forms and against a play of their own.

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "oneflow_core/net/plan_for_test.h"
#include "planning/simulate/simulate.h"
#include "planning/simulate/summary.h"
#include "planning/simulate/utilization.h"

namespace oneflow {
namespace {

// The n-th firings of streams, by the definition of docs/firing.md alone: one begins when its
// stream has ended the one before, its inputs are full, and its outputs have a free slot. `delay`:
// of what another stream says. Every stream has a worker of its own.
class Play {
 public:
  Play(const proto::Program& program, const std::vector<double>& seconds, int steps, double delay)
      : program_(program), seconds_(seconds), delay_(delay) {
    for (const proto::Stream& stream : program.stream()) {
      for (int step = 0; step < steps; ++step) {
        for (const proto::OrderRun& run : stream.order()) {
          for (int r = 0; r < run.repeat(); ++r) AddRun(stream.id(), run);
        }
      }
    }
  }

  // When everything is over.
  double Seconds() {
    double last = 0;
    for (const auto& [stream, firings] : order_) {
      for (const auto& [actor, n] : firings) last = std::max(last, End(actor, n));
    }
    return last;
  }

 private:
  using Firing = std::pair<int, int64_t>;  // actor, the how many-th

  void AddRun(int stream, const proto::OrderRun& run) {
    for (const int segment : run.segment()) {
      for (const int actor : program_.segment(segment).actor()) {
        const Firing firing = {actor, fired_[actor]++};
        std::vector<Firing>& before = order_[stream];
        before_[firing] = before.empty() ? Firing{-1, 0} : before.back();
        stream_of_[actor] = stream;
        before.push_back(firing);
      }
    }
  }

  double End(int actor, int64_t n) {
    const auto known = ends_.find({actor, n});
    if (known != ends_.end()) return known->second;
    const double end = Begin(actor, n) + seconds_[actor];
    return ends_[{actor, n}] = end;
  }

  double Begin(int actor, int64_t n) {
    double begin = 0;
    const auto wait = [&](int other, int64_t firing) {
      const double end = End(other, firing);
      begin = std::max(begin, end + (stream_of_[other] == stream_of_[actor] ? 0 : delay_));
    };
    if (const Firing before = before_.at({actor, n}); before.first >= 0) {
      wait(before.first, before.second);
    }
    for (const proto::Input& input : program_.actor(actor).input()) {
      const int64_t fill = n / input.fires_per_read() - input.initial_fills();
      const int writer = FindWriter(input.register_());
      if (fill < 0 || writer < 0) continue;
      wait(writer, (fill + 1) * program_.register_(input.register_()).fires_per_fill() - 1);
    }
    for (const int id : program_.actor(actor).output()) {
      const proto::Register& r = program_.register_(id);
      for (const proto::Actor& reader : program_.actor()) {
        for (const proto::Input& input : reader.input()) {
          if (input.register_() != id) continue;
          const int64_t last = n / r.fires_per_fill() + input.initial_fills() - r.slots();
          if (last >= 0) wait(reader.id(), (last + 1) * input.fires_per_read() - 1);
        }
      }
    }
    return begin;
  }

  int FindWriter(int id) const {
    for (const proto::Actor& actor : program_.actor()) {
      for (const int output : actor.output()) {
        if (output == id) return actor.id();
      }
    }
    return -1;
  }

  const proto::Program& program_;
  const std::vector<double>& seconds_;
  const double delay_;
  std::map<int, std::vector<Firing>> order_;  // by stream
  std::map<Firing, Firing> before_;           // on its stream
  std::map<int, int> stream_of_;              // by actor
  std::map<int, int64_t> fired_;              // by actor
  std::map<Firing, double> ends_;
};

SimulatedRun Run(const proto::Plan& plan, const SimulateOptions& options) {
  return Simulate(plan, "train", options).value();
}

// A stream of one stage and of this kind, with segments of single actors, each so often in a row.
void AddStream(PlanBuilder* b, const std::string& name, proto::Stream::Kind kind,
               const std::vector<std::pair<int, int>>& actors) {
  PlanBuilder::Order order;
  for (const auto& [actor, times] : actors)
    order.push_back({{b->Segment(name, 0, {actor})}, times});
  b->Stream(name, 0, order);
  b->program().mutable_stream(b->program().stream_size() - 1)->set_kind(kind);
}

int AddActor(PlanBuilder* b, const std::string& name, const std::string& kernel,
             const std::vector<PlanBuilder::In>& inputs, const std::vector<int>& outputs) {
  const int id = b->Actor(name, 0, inputs, outputs);
  b->program().mutable_actor(id)->set_kernel(kernel);
  return id;
}

int HostRegister(PlanBuilder* b, const std::string& name, int slots) {
  const int id = b->Register(name, 0, slots);
  b->At(id).set_memory_kind(proto::HOST);
  return id;
}

// All forwards, then all backwards, of `m` micro-batches; what a forward leaves goes to the host
// and comes back, once all forwards are over, so many slots ahead. Actors: forward, copy_out,
// copy_in, backward.
proto::Plan ActivationsPlan(int m, int slots_out, int slots_in) {
  PlanBuilder b;
  const int kept = b.Register("kept", 0, slots_out), host = HostRegister(&b, "kept.host", m);
  const int back = b.Register("kept.back", 0, slots_in), turn = b.Register("turn");
  b.At(turn).set_fires_per_fill(m);
  b.At(turn).set_slot_bytes(0);
  const int forward = AddActor(&b, "forward", "ones", {}, {kept, turn});
  const int out = AddActor(&b, "out", "copy_out", {{kept}}, {host});
  const int in = AddActor(&b, "in", "copy_in", {{host}, {turn, m}}, {back});
  const int backward = AddActor(&b, "backward", "copy", {{back}}, {});
  AddStream(&b, "compute", proto::Stream::COMPUTE, {{forward, m}, {backward, m}});
  AddStream(&b, "offload.out", proto::Stream::COPY, {{out, m}});
  AddStream(&b, "offload.in", proto::Stream::COPY, {{in, m}});
  b.program().set_micro_batches(m);
  return b.Finish();
}

// A step computes gradients of so many layers at once; each goes to the host, which updates its
// weights, and these come back, for the next step. Actors: compute, then copy_out, update and
// copy_in of each layer.
proto::Plan UpdatePlan(int layers) {
  PlanBuilder b;
  std::vector<PlanBuilder::In> weights;
  std::vector<int> gradients;
  for (int l = 0; l < layers; ++l) {
    weights.push_back({b.Register("w"), 1, 1});
    gradients.push_back(b.Register("g"));
  }
  const int compute = AddActor(&b, "compute", "ones", weights, gradients);
  std::vector<std::pair<int, int>> outs, updates, ins;
  for (int l = 0; l < layers; ++l) {
    const int g = HostRegister(&b, "g.host", 1), w = HostRegister(&b, "w.host", 1);
    outs.push_back({AddActor(&b, "g.out", "copy_out", {{gradients[l]}}, {g}), 1});
    updates.push_back({AddActor(&b, "w.update", "update", {{g}}, {w}), 1});
    ins.push_back({AddActor(&b, "w.in", "copy_in", {{w}}, {weights[l].reg}), 1});
  }
  AddStream(&b, "compute", proto::Stream::COMPUTE, {{compute, 1}});
  AddStream(&b, "offload.out", proto::Stream::COPY, outs);
  AddStream(&b, "host.update", proto::Stream::HOST_COMPUTE, updates);
  AddStream(&b, "offload.in", proto::Stream::COPY, ins);
  return b.Finish();
}

TEST_CASE("activations go out and come back as fast as the slower of link and compute") {
  constexpr int kBatches = 5;
  struct Times {
    double forward, out, in, backward;
  };
  for (const Times& t : {Times{2, 1, 1, 3}, Times{2, 3, 1, 1}, Times{1, 1, 4, 2}}) {
    for (const bool shared : {false, true}) {  // a worker for the device: copies have their own
      const SimulateOptions options = {.steps = 1,
                                       .actor_seconds = {t.forward, t.out, t.in, t.backward},
                                       .worker_a_device = shared};
      // With two slots a forward waits for the copy of the one before the last; with one, for that
      // of the last.
      const double forwards = 2 * t.forward + (kBatches - 2) * std::max(t.forward, t.out);
      const double of_one = t.forward + (kBatches - 1) * (t.forward + t.out);
      // The last to go out comes back last, when it has long been there.
      const double backwards = t.in + (kBatches - 1) * std::max(t.in, t.backward) + t.backward;
      CHECK(Run(ActivationsPlan(kBatches, 2, 2), options).seconds() == forwards + backwards);
      CHECK(Run(ActivationsPlan(kBatches, 1, 2), options).seconds() == of_one + backwards);
      const double in_turn = kBatches * (t.in + t.backward);
      CHECK(Run(ActivationsPlan(kBatches, 2, 1), options).seconds() == forwards + in_turn);
    }
  }
}

TEST_CASE("an update by the host is as long as the slowest of copies and update, layer by layer") {
  for (const int layers : {1, 2, 5}) {
    SimulateOptions options{.steps = 4, .actor_seconds = {4}};
    for (int l = 0; l < layers; ++l) {
      for (const double seconds : {1, 3, 2}) options.actor_seconds.push_back(seconds);
    }
    const SimulatedRun run = Run(UpdatePlan(layers), options);
    CHECK(run.StepSeconds() == 4 + (1 + 3 + 2) + (layers - 1) * 3);
    options.worker_a_device = true;
    CHECK(Run(UpdatePlan(layers), options).StepSeconds() == run.StepSeconds());
  }
}

TEST_CASE("copies are exposed where nothing else of the device goes on; the host's work is idle") {
  // From the compute's end, at 4: copies out until 6, updates from 5 to 11, copies in at 8 and 11.
  const SimulateOptions options{.steps = 3, .actor_seconds = {4, 1, 3, 1, 1, 3, 1}};
  const SimulatedRun run = Run(UpdatePlan(2), options);
  CHECK(run.StepSeconds() == 12);
  const Utilization use = FindUtilization(run);
  CHECK(use.devices == std::vector<DeviceTime>{{.compute = 4, .idle = 4, .exposed_copy = 4}});
  CHECK(use.bubble == Approx(4. / 12));
  CHECK(MovesToHost(run));

  // Out at 2, 4, 6, with the last alone; in from 6, and beside the backwards but for the first.
  const SimulatedRun hidden =
      Run(ActivationsPlan(3, 2, 2), {.steps = 1, .actor_seconds = {2, 1, 1, 3}});
  CHECK(hidden.seconds() == 16);
  CHECK(FindUtilization(hidden).devices ==
        std::vector<DeviceTime>{{.compute = 15, .exposed_copy = 1, .hidden_copy = 4}});
}

TEST_CASE("the summary says how long copies are exposed and hidden, and how busy the link is") {
  const SimulateOptions options{.steps = 3, .actor_seconds = {4, 1, 3, 1, 1, 3, 1}};
  proto::Plan plan = UpdatePlan(2);
  const SimulationSummary summary = Summarize(plan, "a cluster", Run(plan, options));
  REQUIRE(summary.stages.size() == 1);
  CHECK(summary.stages[0].to_host_seconds == 2);
  CHECK(summary.stages[0].from_host_seconds == 2);
  CHECK_THAT(SummaryText(summary),
             Catch::Contains("exposed copy 4.000 s (33.3 %), idle 4.000 s (33.3 %)") &&
                 Catch::Contains("hidden copy 0 s; the link to the host is busy 16.7 % of a step, "
                                 "from it 16.7 %") &&
                 Catch::Contains("host.update 6.000 s"));
  CHECK_THAT(SummaryJson(summary), Catch::Contains("\"exposed_copy_seconds\":4.0") &&
                                       Catch::Contains("\"to_host_seconds\":2.0"));

  // If all that is copied is the host's data, nothing is said of it.
  for (proto::Stream& stream : *plan.mutable_program(0)->mutable_stream()) {
    if (stream.name() == "offload.out") stream.set_name("copy.out");
    if (stream.name() == "offload.in") stream.set_name("copy.in");
  }
  const std::string data = SummaryText(Summarize(plan, "a cluster", Run(plan, options)));
  CHECK_THAT(data, Catch::Contains("idle 8.000 s (66.7 %); hidden exchange") &&
                       !Catch::Contains("exposed copy") && !Catch::Contains("hidden copy"));
}

TEST_CASE("random programs of copies take the time of their own play, to the bit") {
  std::mt19937 random(20);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int i = 0; i < 300; ++i) {
    const int m = 1 + below(8);
    const proto::Plan plan =
        below(2) == 0 ? ActivationsPlan(m, 1 + below(3), 1 + below(3)) : UpdatePlan(m);
    SimulateOptions options{.steps = 1 + below(3)};
    for (int a = 0; a < plan.program(0).actor_size(); ++a) {
      options.actor_seconds.push_back(below(64) / 16.);
    }
    options.worker_a_device = below(2) == 0;
    options.message_seconds = below(3) / 8.;
    INFO(i);
    CHECK(Run(plan, options).seconds() == Play(plan.program(0), options.actor_seconds,
                                               static_cast<int>(options.steps),
                                               options.message_seconds)
                                              .Seconds());
  }
}

}  // namespace
}  // namespace oneflow

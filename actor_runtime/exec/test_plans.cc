#include "actor_runtime/exec/test_plans.h"

#include <google/protobuf/text_format.h>
#include <string>

#include <algorithm>
#include <numeric>

#include <glog/logging.h>

#include "oneflow_core/plan/plan_format.h"

namespace oneflow {
namespace {

constexpr char kChain[] = R"plan(
  launch_queue: 1 stage_axis: -1 kernel_threads: 2 model: "chain"
  memory { persistent_bytes: 64 register_bytes: 256 arena_bytes: 320 }
  persistent { id: 0 name: "w" fill_mode: UPDATE }
  program {
    name: "init" micro_batches: 1 micro_batch_size: 1
    actor { id: 0 name: "w" kernel: "ones" output: 0 }
    segment { id: 0 name: "init" actor: 0 }
    stream { id: 0 name: "host.in" kind: HOST order { segment: 0 repeat: 1 } }
  }
  program {
    name: "train" micro_batches: 4 micro_batch_size: 1
    register { id: 1 name: "x" slots: 2 offset: 64 }
    register {
      id: 2 name: "dw"
      fill_mode: ACCUMULATE fires_per_fill: 4 offset: 192
    }
    register { id: 3 name: "dw.workspace" offset: 256 }
    actor { id: 0 name: "x" kernel: "count" output: 1 }
    actor {
      id: 1 name: "dw" kernel: "multiply" output: 2 workspace: 3
      input { register: 1 }
      input { register: 0 fires_per_read: 4 initial_fills: 1 }
    }
    actor { id: 2 name: "w" kernel: "update" input { register: 2 } output: 0 }
    segment { id: 0 name: "F" actor: 1 }
    segment { id: 1 name: "U" actor: 2 }
    segment { id: 2 name: "data" actor: 0 }
    stream { id: 0 name: "compute" order { segment: 0 repeat: 4 } order { segment: 1 repeat: 1 } }
    stream { id: 1 name: "host.in" kind: HOST order { segment: 2 repeat: 4 } }
  })plan";

constexpr char kTwoRanks[] = R"plan(
  launch_queue: 1 stage_axis: -1 kernel_threads: 1 model: "two ranks"
  mesh { axis { name: "data" size: 2 } }
  group { name: "data" axis: 0 }
  memory { persistent_bytes: 64 register_bytes: 192 arena_bytes: 256 }
  persistent { id: 0 name: "w" fill_mode: UPDATE }
  program {
    name: "train" micro_batches: 3 micro_batch_size: 2
    register { id: 1 name: "g" slots: 2 offset: 64 }
    register { id: 2 name: "g.sum" offset: 192 }
    actor { id: 0 name: "g" kernel: "count" output: 1 }
    actor {
      id: 1 name: "g.sum" kernel: "all_reduce" output: 2
      input { register: 1 }
      boxing { reduce: SUM reduce_axis: 0 }
      exchange { group: 0 }
    }
    actor { id: 2 name: "w" kernel: "update" input { register: 2 } output: 0 }
    segment { id: 0 name: "F" actor: 0 }
    segment { id: 1 name: "F.sum" actor: 1 }
    segment { id: 2 name: "U" actor: 2 }
    stream {
      id: 0 name: "compute" order { segment: 0 repeat: 1 }
      order { segment: 0 segment: 2 repeat: 2 } order { segment: 2 repeat: 1 }
    }
    stream { id: 1 name: "gradients" kind: EXCHANGE order { segment: 1 repeat: 3 } }
    issue { run { actor: 1 repeat: 3 } }
  })plan";

constexpr char kTwoStages[] = R"plan(
  launch_queue: 1 stage_axis: 0 kernel_threads: 1 model: "two stages"
  mesh { axis { name: "pipe" size: 2 } }
  group { name: "stage 0 to 1" stages { from: 0 to: 1 } }
  group { name: "stage 1 to 0" stages { from: 1 to: 0 } }
  memory { stage: 0 persistent_bytes: 64 register_bytes: 192 arena_bytes: 256 }
  memory { stage: 1 persistent_bytes: 64 register_bytes: 256 arena_bytes: 320 }
  persistent { id: 0 name: "w0" fill_mode: UPDATE }
  persistent { id: 1 name: "w1" stage: 1 fill_mode: UPDATE }
  program {
    name: "init" micro_batches: 1 micro_batch_size: 1
    actor { id: 0 name: "w0" kernel: "ones" output: 0 }
    actor { id: 1 name: "w1" stage: 1 kernel: "ones" output: 1 }
    segment { id: 0 name: "init" actor: 0 }
    segment { id: 1 name: "init" stage: 1 actor: 1 }
    stream { id: 0 name: "host.in" kind: HOST order { segment: 0 repeat: 1 } }
    stream { id: 1 name: "host.in" stage: 1 kind: HOST order { segment: 1 repeat: 1 } }
  }
  program {
    name: "train" micro_batches: 4 micro_batch_size: 1
    register { id: 2 name: "x" slots: 2 offset: 64 }
    register { id: 3 name: "x.recv" stage: 1 slots: 2 offset: 64 }
    register { id: 4 name: "dx" stage: 1 offset: 192 }
    register { id: 5 name: "dx.recv" offset: 192 }
    register { id: 6 name: "dw1" stage: 1 fill_mode: ACCUMULATE fires_per_fill: 4 offset: 256 }
    actor { id: 0 name: "x" kernel: "count" output: 2 }
    actor {
      id: 1 name: "x.recv" stage: 1 kernel: "receive" output: 3 boxing {}
      exchange { group: 0 partner: 7 }
    }
    actor {
      id: 2 name: "dx" stage: 1 kernel: "multiply" output: 4
      input { register: 3 }
      input { register: 1 fires_per_read: 4 initial_fills: 1 }
    }
    actor { id: 3 name: "dw1" stage: 1 kernel: "copy" input { register: 3 } output: 6 }
    actor { id: 4 name: "w1" stage: 1 kernel: "update" input { register: 6 } output: 1 }
    actor {
      id: 5 name: "dx.recv" kernel: "receive" output: 5 boxing {}
      exchange { group: 1 partner: 8 }
    }
    actor { id: 6 name: "w0" kernel: "update" input { register: 5 } output: 0 }
    actor {
      id: 7 name: "x.send" kernel: "send" input { register: 2 }
      exchange { group: 0 partner: 1 }
    }
    actor {
      id: 8 name: "dx.send" stage: 1 kernel: "send" input { register: 4 }
      exchange { group: 1 partner: 5 }
    }
    segment { id: 0 name: "F" actor: 0 }
    segment { id: 1 name: "B" actor: 6 }
    segment { id: 2 name: "B.recv" actor: 5 }
    segment { id: 3 name: "F.recv" stage: 1 actor: 1 }
    segment { id: 4 name: "FB" stage: 1 actor: 2 actor: 3 }
    segment { id: 5 name: "U" stage: 1 actor: 4 }
    segment { id: 6 name: "F.send" actor: 7 }
    segment { id: 7 name: "B.send" stage: 1 actor: 8 }
    stream {
      id: 0 name: "compute"
      order { segment: 0 repeat: 2 }
      order { segment: 1 segment: 0 repeat: 2 }
      order { segment: 1 repeat: 2 }
    }
    stream { id: 1 name: "receive.backward" kind: EXCHANGE order { segment: 2 repeat: 4 } }
    stream {
      id: 2 name: "compute" stage: 1 order { segment: 4 repeat: 4 } order { segment: 5 repeat: 1 }
    }
    stream { id: 3 name: "receive.forward" stage: 1 kind: EXCHANGE order { segment: 3 repeat: 4 } }
    stream { id: 4 name: "send.forward" kind: EXCHANGE order { segment: 6 repeat: 4 } }
    stream { id: 5 name: "send.backward" stage: 1 kind: EXCHANGE order { segment: 7 repeat: 4 } }
    issue { run { actor: 7 repeat: 2 } run { actor: 5 actor: 7 repeat: 2 } run { actor: 5 repeat: 2 } }
    issue {
      stage: 1 run { actor: 1 repeat: 2 } run { actor: 8 actor: 1 repeat: 2 }
      run { actor: 8 repeat: 2 }
    }
  })plan";

constexpr char kHostMemory[] = R"plan(
  launch_queue: 1 stage_axis: -1 kernel_threads: 2 model: "host memory"
  mesh { axis { name: "data" size: 2 } }
  memory { persistent_bytes: 64 register_bytes: 320 arena_bytes: 384 }
  memory { kind: HOST persistent_bytes: 64 register_bytes: 256 arena_bytes: 320 }
  persistent { id: 0 name: "w" fill_mode: UPDATE }
  persistent { id: 1 name: "m" fill_mode: UPDATE memory_kind: HOST }
  program {
    name: "init" micro_batches: 1 micro_batch_size: 1
    actor { id: 0 name: "w" kernel: "ones" output: 0 }
    actor { id: 1 name: "m" kernel: "ones" output: 1 }
    segment { id: 0 name: "init" actor: 0 actor: 1 }
    stream { id: 0 name: "host.in" kind: HOST order { segment: 0 repeat: 1 } }
  }
  program {
    name: "restore" micro_batches: 1 micro_batch_size: 1
    actor {
      id: 0 name: "w" kernel: "copy_in" output: 0
      input { register: 1 initial_fills: 1 }
    }
    segment { id: 0 name: "w" actor: 0 }
    stream { id: 0 name: "copy.in" kind: COPY order { segment: 0 repeat: 1 } }
  }
  program {
    name: "train" micro_batches: 4 micro_batch_size: 1
    register { id: 2 name: "x" slots: 2 offset: 64 }
    register { id: 3 name: "x.host" slots: 3 offset: 64 memory_kind: HOST }
    register { id: 4 name: "x.back" slots: 2 offset: 192 }
    register { id: 5 name: "dw" fill_mode: ACCUMULATE fires_per_fill: 4 offset: 320 }
    register { id: 6 name: "dw.host" offset: 256 memory_kind: HOST }
    actor { id: 0 name: "x" kernel: "count" output: 2 }
    actor { id: 1 name: "x.out" kernel: "copy_out" input { register: 2 } output: 3 }
    actor { id: 2 name: "x.in" kernel: "copy_in" input { register: 3 } output: 4 }
    actor {
      id: 3 name: "dw" kernel: "multiply" output: 5
      input { register: 4 }
      input { register: 0 fires_per_read: 4 initial_fills: 1 }
    }
    actor { id: 4 name: "dw.out" kernel: "copy_out" input { register: 5 } output: 6 }
    actor { id: 5 name: "m" kernel: "update" input { register: 6 } output: 1 }
    actor { id: 6 name: "w" kernel: "copy_in" input { register: 1 } output: 0 }
    segment { id: 0 name: "F" actor: 0 }
    segment { id: 1 name: "B" actor: 3 }
    segment { id: 2 name: "x.out" actor: 1 }
    segment { id: 3 name: "x.in" actor: 2 }
    segment { id: 4 name: "dw.out" actor: 4 }
    segment { id: 5 name: "U" actor: 5 }
    segment { id: 6 name: "w" actor: 6 }
    stream {
      id: 0 name: "compute"
      order { segment: 0 repeat: 2 }
      order { segment: 1 segment: 0 repeat: 2 }
      order { segment: 1 repeat: 2 }
    }
    stream {
      id: 1 name: "copy.out" kind: COPY order { segment: 2 repeat: 4 } order { segment: 4 repeat: 1 }
    }
    stream {
      id: 2 name: "copy.in" kind: COPY order { segment: 3 repeat: 4 } order { segment: 6 repeat: 1 }
    }
    stream { id: 3 name: "host.update" kind: HOST_COMPUTE order { segment: 5 repeat: 1 } }
  })plan";

constexpr char kPrefetch[] = R"plan(
  launch_queue: 1 stage_axis: -1 kernel_threads: 1 model: "prefetch"
  memory { persistent_bytes: 64 register_bytes: 256 arena_bytes: 320 }
  memory { kind: HOST persistent_bytes: 64 register_bytes: 0 arena_bytes: 64 }
  persistent { id: 0 name: "w" fill_mode: UPDATE }
  persistent { id: 1 name: "v" fill_mode: UPDATE memory_kind: HOST }
  program {
    name: "init" micro_batches: 1 micro_batch_size: 1
    actor { id: 0 name: "w" kernel: "ones" output: 0 }
    actor { id: 1 name: "v" kernel: "ones" output: 1 }
    segment { id: 0 name: "init" actor: 0 actor: 1 }
    stream { id: 0 name: "host.in" kind: HOST order { segment: 0 repeat: 1 } }
  }
  program {
    name: "train" micro_batches: 4 micro_batch_size: 1
    register { id: 2 name: "v.in" slots: 2 offset: 64 }
    register { id: 3 name: "x" offset: 192 }
    register { id: 4 name: "dw" fill_mode: ACCUMULATE fires_per_fill: 4 offset: 256 }
    actor {
      id: 0 name: "v.in" kernel: "copy_in" output: 2
      input { register: 1 fires_per_read: 4 initial_fills: 1 }
    }
    actor { id: 1 name: "x" kernel: "count" output: 3 }
    actor {
      id: 2 name: "dw" kernel: "multiply" output: 4
      input { register: 3 }
      input { register: 2 }
    }
    actor { id: 3 name: "w" kernel: "update" input { register: 4 } output: 0 }
    segment { id: 0 name: "F" actor: 1 actor: 2 }
    segment { id: 1 name: "U" actor: 3 }
    segment { id: 2 name: "v.in" actor: 0 }
    stream { id: 0 name: "compute" order { segment: 0 repeat: 4 } order { segment: 1 repeat: 1 } }
    stream { id: 1 name: "copy.in" kind: COPY order { segment: 2 repeat: 4 } }
  })plan";

void FillIn(proto::Register* reg) {
  reg->mutable_layout()->add_dim(kElements);
  reg->set_dtype(proto::F32);
  reg->set_slot_bytes(kElements * sizeof(float));
  if (reg->slots() == 0) reg->set_slots(1);
  if (reg->fires_per_fill() == 0) reg->set_fires_per_fill(1);
}

float At(const KernelCall& call, int input, int i) { return call.input<float>(input)[i]; }

float Compute(const std::string& kind, const KernelCall& call, int offset, int i) {
  if (kind == "ones") return 1;
  if (kind == "count") return static_cast<float>(call.firing % 5 + offset);
  if (kind == "multiply") return At(call, 0, i) * At(call, 1, i);
  if (kind == "copy") return At(call, 0, i);
  if (kind == "update") return call.output<float>(0)[i] / 2 + At(call, 0, i) / 8;
  return 0;
}

}  // namespace

absl::StatusOr<Kernel> MakeTestKernel(const KernelSetup& setup) {
  const std::string kind = setup.kind;
  const auto fail = setup.attrs.find("fail_at");
  const int64_t fail_at = fail == setup.attrs.end() ? -1 : std::get<int64_t>(fail->second);
  if (kind == "copy_in" || kind == "copy_out") {
    absl::StatusOr<Kernel> copy = MakeKernel(setup);
    if (!copy.ok()) return copy;
    return Kernel([fail_at, copy = *std::move(copy)](const KernelCall& call) -> absl::Status {
      if (call.firing == fail_at) return absl::DataLossError("as asked");
      return copy(call);
    });
  }
  constexpr std::string_view kKinds[] = {"ones", "count", "multiply", "copy", "update"};
  if (std::count(std::begin(kKinds), std::end(kKinds), kind) == 0) {
    return absl::NotFoundError("no kernel " + kind);
  }
  const int offset = std::accumulate(setup.coordinate.begin(), setup.coordinate.end(), 0);
  return Kernel([kind, fail_at, offset](const KernelCall& call) -> absl::Status {
    if (call.firing == fail_at) return absl::DataLossError("as asked");
    float* out = call.output<float>(0);
    for (int i = 0; i < kElements; ++i) {
      const float value = Compute(kind, call, offset, i);
      out[i] = call.accumulate ? out[i] + value : value;
    }
    return absl::OkStatus();
  });
}

float ChainResult(int64_t steps) {
  float w = 1;
  for (int64_t step = 0; step < steps; ++step) {
    float dw = 0;
    for (int64_t m = 0; m < 4; ++m) dw += static_cast<float>((step * 4 + m) % 5) * w;
    w = w / 2 + dw / 8;
  }
  return w;
}

proto::Plan PlanFromText(std::string_view text) {
  proto::Plan plan;
  CHECK(google::protobuf::TextFormat::ParseFromString(std::string(text), &plan));
  plan.set_version(kPlanVersion);
  for (proto::Register& reg : *plan.mutable_persistent()) FillIn(&reg);
  for (proto::Program& program : *plan.mutable_program()) {
    for (proto::Register& reg : *program.mutable_register_()) FillIn(&reg);
    for (proto::Actor& actor : *program.mutable_actor()) {
      for (proto::Input& input : *actor.mutable_input()) {
        if (input.fires_per_read() == 0) input.set_fires_per_read(1);
      }
    }
  }
  return plan;
}

proto::Plan ChainPlan() { return PlanFromText(kChain); }
proto::Plan TwoRanksPlan() { return PlanFromText(kTwoRanks); }
proto::Plan TwoStagesPlan() { return PlanFromText(kTwoStages); }
proto::Plan HostMemoryPlan() { return PlanFromText(kHostMemory); }
proto::Plan PrefetchPlan() { return PlanFromText(kPrefetch); }

int CountRanks(const proto::Plan& plan) {
  int ranks = 1;
  for (const auto& axis : plan.mesh().axis()) ranks *= axis.size();
  return ranks;
}

void SetFailure(proto::Plan* plan, std::string_view program, std::string_view actor,
                int64_t firing) {
  for (proto::Program& p : *plan->mutable_program()) {
    if (p.name() != program) continue;
    for (proto::Actor& a : *p.mutable_actor()) {
      if (a.name() == actor) (*a.mutable_attr())["fail_at"].set_i(firing);
    }
  }
}

}  // namespace oneflow

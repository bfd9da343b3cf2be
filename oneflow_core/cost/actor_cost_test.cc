#include "oneflow_core/cost/actor_cost.h"

#include <google/protobuf/text_format.h>
#include <catch2/catch.hpp>

#include <vector>

namespace oneflow {
namespace {

// Two stages of two devices: a product with a split weight, its gathered result, a sum over
// devices, and a send to the next stage.
proto::Plan SmallPlan() {
  constexpr char kPlan[] = R"plan(
    version: 4 stage_axis: 0 kernel_threads: 1
    mesh { axis { name: "pipe" size: 2 } axis { name: "tensor" size: 2 } }
    group { name: "tensor" axis: 1 }
    group { name: "stage 0 to 1" stages { to: 1 } }
    program {
      name: "train" micro_batches: 2 micro_batch_size: 1
      register { id: 0 name: "x" dtype: F32 layout { dim: 8 dim: 16 } fires_per_fill: 1 }
      register { id: 1 name: "w" dtype: F32 layout { dim: 16 dim: 32 split { dim: 1 axis: 1 } } }
      register { id: 2 name: "y" dtype: F32 layout { dim: 8 dim: 32 split { dim: 1 axis: 1 } } }
      register { id: 3 name: "y.all" dtype: F32 layout { dim: 8 dim: 32 } }
      register { id: 4 name: "y.sum" dtype: F32 layout { dim: 8 dim: 32 } }
      register { id: 5 name: "y.to1" dtype: BF16 stage: 1 layout { dim: 8 dim: 32 } }
      register {
        id: 6 name: "total" dtype: F32 layout { dim: 8 dim: 32 } stage: 1
        fill_mode: ACCUMULATE fires_per_fill: 2
      }
      register { id: 7 name: "table" dtype: F32 layout { dim: 1000 dim: 16 } }
      register { id: 8 name: "ids" dtype: I32 layout { dim: 8 } }
      register {
        id: 9 name: "dw" dtype: F32 layout { dim: 16 dim: 32 split { dim: 1 axis: 1 } }
        fill_mode: ACCUMULATE fires_per_fill: 2
      }
      register { id: 10 name: "q" dtype: F32 layout { dim: 5 dim: 8 dim: 4 split { dim: 0 axis: 1 } } }
      register { id: 11 name: "k" dtype: F32 layout { dim: 5 dim: 4 dim: 8 split { dim: 0 axis: 1 } } }
      register { id: 12 name: "qk" dtype: F32 layout { dim: 5 dim: 8 dim: 8 split { dim: 0 axis: 1 } } }
      register { id: 13 name: "order" stage: 1 }
      actor {
        id: 0 name: "y" kernel: "linear" input { register: 0 } input { register: 1 } output: 2
      }
      actor {
        id: 1 name: "y.all" kernel: "all_gather" input { register: 2 } output: 3
        boxing {} exchange { group: 0 }
      }
      actor {
        id: 2 name: "y.sum" kernel: "all_reduce" input { register: 3 } output: 4
        boxing { reduce: SUM reduce_axis: 1 } exchange { group: 0 }
      }
      actor {
        id: 3 name: "y.to1" kernel: "receive" stage: 1 input { register: 13 } output: 5
        boxing {} exchange { group: 1 partner: 9 }
      }
      actor {
        id: 4 name: "total" kernel: "gelu" stage: 1 input { register: 5 } output: 6
      }
      actor { id: 5 name: "order" }
      actor {
        id: 6 name: "rows" kernel: "embedding" input { register: 7 } input { register: 8 } output: 0
      }
      actor {
        id: 7 name: "dw" kernel: "linear_grad_weight" attr { key: "lead" value { i: 1 } }
        input { register: 0 } input { register: 2 } output: 9
      }
      actor {
        id: 8 name: "qk" kernel: "batch_matmul"
        input { register: 10 } input { register: 11 } output: 12
      }
      actor {
        id: 9 name: "y.to1.send" kernel: "send" input { register: 4 }
        exchange { group: 1 partner: 3 }
      }
    }
    facts {
      program {
        actor { flops: 4096 }
        actor { bytes_moved: 512 }
        actor { bytes_moved: 1024 }
        actor { bytes_moved: 512 }
        actor { flops: 256 }
        actor {}
        actor {}
        actor { flops: 4096 }
        actor { flops: 1536 }
      }
    })plan";
  proto::Plan plan;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(kPlan, &plan));
  for (proto::Register& r : *plan.mutable_program(0)->mutable_register_()) {
    if (r.layout().dim_size() > 0) r.set_slot_bytes(64);
  }
  return plan;
}

proto::Cluster Machines(proto::Device::Kind kind) {
  proto::Cluster cluster;
  proto::Device* device = cluster.mutable_device();
  device->set_kind(kind);
  device->set_peak_flops(1e9);
  device->set_memory_bandwidth(1e9);
  device->set_firing_seconds(1e-6);
  for (const double bandwidth : {1e8, 1e7}) {
    proto::Level* level = cluster.add_level();
    level->set_size(2);
    level->set_latency(1e-5);
    level->set_bandwidth(bandwidth);
  }
  return cluster;
}

CallWork Call(const proto::Plan& plan, int actor) {
  return *FindCallWork(plan, plan.program(0), plan.facts().program(0),
                       plan.program(0).actor(actor));
}

absl::StatusOr<std::vector<double>> Seconds(const proto::Plan& plan,
                                            const proto::Cluster& cluster) {
  return ActorSeconds(plan, plan.program(0), plan.facts().program(0), cluster);
}

TEST_CASE("a call reads and writes the largest local part") {
  const proto::Plan plan = SmallPlan();
  CHECK(Call(plan, 0).flops == 4096);
  CHECK(Call(plan, 0).bytes == 4 * (8 * 16 + 16 * 16 + 8 * 16));
  // Gathered: the whole is read once and written; summed: read from each of two.
  CHECK(Call(plan, 1).bytes == 2 * 4 * 8 * 32);
  CHECK(Call(plan, 2).bytes == 3 * 4 * 8 * 32);
  // A sum over micro-batches is read, too.
  CHECK(Call(plan, 4).dtype == DType::kBF16);
  CHECK(Call(plan, 4).bytes == 2 * 8 * 32 + 2 * 4 * 8 * 32);
  proto::Plan alone = plan;
  alone.mutable_program(0)->mutable_register_(6)->set_fires_per_fill(1);
  CHECK(Call(alone, 4).bytes == 2 * 8 * 32 + 4 * 8 * 32);
  // Of a table only the rows looked up.
  CHECK(Call(plan, 6).bytes == 4 * (2 * 8 * 16 + 8));
}

TEST_CASE("a product says its sizes on one device, and adds to its result as it goes") {
  const proto::Plan plan = SmallPlan();
  const auto sizes = [&](int actor) {
    const ProductSpec product = Call(plan, actor).product;
    return std::vector<int64_t>{product.batch, product.m, product.n, product.k};
  };
  CHECK(sizes(0) == std::vector<int64_t>{1, 8, 16, 16});
  CHECK(sizes(7) == std::vector<int64_t>{1, 16, 16, 8});
  CHECK(sizes(8) == std::vector<int64_t>{3, 8, 8, 4});
  CHECK(Call(plan, 4).product.Empty());
  CHECK(Call(plan, 4).attention == AttentionSpec{});
  CHECK(Call(plan, 7).bytes == 4 * (8 * 16 + 8 * 16 + 16 * 16));
}

TEST_CASE("on accelerators boxing goes over links, on CPUs through memory") {
  const proto::Plan plan = SmallPlan();
  const auto cuda = *Seconds(plan, Machines(proto::Device::CUDA));
  // Firings are issued ahead (SimulateOptions::issue_seconds): they take no time beside kernels.
  CHECK(cuda[0] == Approx(4096e-9));
  CHECK(cuda[1] == Approx(1e-5 + 512 / 1e8));
  CHECK(cuda[2] == Approx(2e-5 + 1024 / 1e8));  // 2 steps, 2 (p-1)/p T, T = 1024
  CHECK(cuda[3] == Approx(1e-5 + 512 / 1e7));   // stages are in different nodes
  CHECK(cuda[9] == cuda[3]);                    // a send ends with its receive
  CHECK(cuda[5] == 0);
  proto::Cluster one_process = Machines(proto::Device::CPU);
  one_process.mutable_level(0)->set_size(4);
  const auto cpu = *Seconds(plan, one_process);
  CHECK(cpu[0] == Approx(1e-6 + 4096e-9));
  CHECK(cpu[5] == Approx(1e-6));
  CHECK(cpu[1] == Approx(1e-6 + 2048e-9));
  CHECK(cpu[2] == Approx(1e-6 + 3072e-9));
  CHECK(cpu[3] == Approx(1e-6 + 1024e-9));  // elements of two bytes
  CHECK(cpu[9] == cpu[3]);
  // One device a node: members of the group are as far apart as stages.
  proto::Cluster apart = Machines(proto::Device::CUDA);
  apart.mutable_level(0)->set_size(1);
  apart.mutable_level(1)->set_latency(1e-4);
  CHECK((*Seconds(plan, apart))[1] == Approx(1e-4 + 512 / 1e7));
  // What receives nothing is a copy, and so is boxing of the device alone.
  proto::Plan local = plan;
  local.mutable_facts()->mutable_program(0)->mutable_actor(1)->set_bytes_moved(0);
  CHECK((*Seconds(local, apart))[1] == Approx(2048e-9));
  local.mutable_facts()->mutable_program(0)->mutable_actor(1)->set_bytes_moved(512);
  local.mutable_program(0)->mutable_actor(1)->clear_exchange();
  CHECK((*Seconds(local, apart))[1] == Approx(2048e-9));
}

// Gradients go to the host, which updates a weight of 16 x 32 in its memory, split over two
// devices; the weight comes back.
proto::Plan HostUpdatePlan() {
  constexpr char kPlan[] = R"plan(
    version: 4 stage_axis: -1 kernel_threads: 1
    mesh { axis { name: "tensor" size: 2 } }
    program {
      name: "train" micro_batches: 1 micro_batch_size: 1
      register { id: 0 name: "g" }
      register { id: 1 name: "g.host" memory_kind: HOST }
      register { id: 2 name: "w.host" memory_kind: HOST fill_mode: UPDATE }
      register { id: 3 name: "m" memory_kind: HOST fill_mode: UPDATE }
      register { id: 4 name: "v" memory_kind: HOST fill_mode: UPDATE }
      register { id: 5 name: "w" }
      actor { id: 0 name: "g.out" kernel: "copy_out" input { register: 0 } output: 1 }
      actor {
        id: 1 name: "w.update" kernel: "adamw" input { register: 1 }
        output: 2 output: 3 output: 4
      }
      actor { id: 2 name: "w.in" kernel: "copy_in" input { register: 2 } output: 5 }
    })plan";
  proto::Plan plan;
  REQUIRE(google::protobuf::TextFormat::ParseFromString(kPlan, &plan));
  for (proto::Register& r : *plan.mutable_program(0)->mutable_register_()) {
    r.set_dtype(proto::F32);
    r.set_slot_bytes(1024);
    r.mutable_layout()->add_dim(16);
    r.mutable_layout()->add_dim(32);
    auto* split = r.mutable_layout()->add_split();
    split->set_dim(1);
    split->set_axis(0);
  }
  plan.mutable_facts()->add_program();
  return plan;
}

TEST_CASE("kernels wait for the slowest of the nodes of a run") {
  proto::Cluster cluster = Machines(proto::Device::CUDA);  // nodes of two devices
  CHECK(FindSlowdown(cluster, 1000) == 1);
  cluster.mutable_spread()->set_slow_share(0.1);
  cluster.mutable_spread()->set_slower(0.2);
  // A node is slow at 1 in 10; one of two at 1 - 0.9^2.
  CHECK(FindSlowdown(cluster, 1) == Approx(1.02));
  CHECK(FindSlowdown(cluster, 2) == Approx(1.02));
  CHECK(FindSlowdown(cluster, 3) == Approx(1.038));
  CHECK(FindSlowdown(cluster, 4) == Approx(1.038));
  CHECK(FindSlowdown(cluster, 100000) == Approx(1.2));
  // The plan has four devices. Its kernels are slower, neither its exchanges nor its copies.
  const proto::Plan plan = SmallPlan();
  const auto seconds = *Seconds(plan, cluster);
  CHECK(seconds[0] == Approx(1.038 * 4096e-9));
  CHECK(seconds[1] == Approx(1e-5 + 512 / 1e8));
  CHECK(seconds[3] == Approx(1e-5 + 512 / 1e7));
  // A level without a size holds all devices.
  cluster.mutable_level()->RemoveLast();
  CHECK(FindSlowdown(cluster, 4) == Approx(1.038));
  cluster.mutable_level(0)->clear_size();
  CHECK(FindSlowdown(cluster, 4) == Approx(1.02));
  cluster.clear_level();
  CHECK(FindSlowdown(cluster, 4) == Approx(1.02));
}

TEST_CASE("copies take the link to the host, and what is in its memory alone the host computes") {
  const proto::Plan plan = HostUpdatePlan();
  proto::Cluster gpus = Machines(proto::Device::CUDA);
  proto::HostLink* link = gpus.mutable_host_link();
  link->set_to_host(1e8);
  link->set_from_host(2e8);
  link->set_latency(1e-4);
  link->set_sharing(4);
  link->set_host_bandwidth(1e7);
  const auto of_gpu = *Seconds(plan, gpus);
  CHECK(of_gpu[0] == Approx(1e-4 + 1024 * 4 / 1e8).epsilon(1e-12));
  // It reads four values of each parameter, three of which it updates in place.
  const double bytes = 28 * 16 * 16;
  CHECK(Call(plan, 1).bytes == bytes);
  CHECK(of_gpu[1] == Approx(bytes / 1e7).epsilon(1e-12));
  CHECK(of_gpu[2] == Approx(1e-4 + 1024 * 4 / 2e8).epsilon(1e-12));

  // A measured copy of old files says nothing: the link does.
  proto::KernelTime* measured = gpus.mutable_device()->add_kernel_time();
  measured->set_kernel("copy_out");
  measured->set_bytes(2048);
  measured->set_seconds(7);
  CHECK((*Seconds(plan, gpus))[0] == of_gpu[0]);

  const auto of_cpu = *Seconds(plan, Machines(proto::Device::CPU));
  CHECK(of_cpu[0] == Approx(1e-6 + 1024 / 0.5e9).epsilon(1e-12));
  CHECK(of_cpu[1] == Approx(1e-6 + bytes / 1e9).epsilon(1e-12));
  CHECK(of_cpu[2] == of_cpu[0]);
}

TEST_CASE("between processes of CPUs the link comes first, then the worker's part") {
  const proto::Plan plan = SmallPlan();
  const auto times = [&](const proto::Cluster& cluster, const std::vector<FarTraffic>& far) {
    return *ActorTimes(plan, plan.program(0), plan.facts().program(0), cluster, far);
  };
  // Processes of two devices: stages are apart, members of a stage are not.
  const proto::Cluster cluster = Machines(proto::Device::CPU);
  std::vector<ActorTime> of = times(cluster, {});
  CHECK(of[1].link == 0);
  CHECK(of[1].worker == Approx(1e-6 + 2048e-9));
  // Entered, asked for, sent, done; nothing is left to copy, and the sender's worker has no part.
  CHECK(of[3].link == Approx(4e-5 + 512 / 1e7));
  CHECK(of[3].worker == Approx(1e-6));
  CHECK(of[9].link == of[3].link);
  CHECK(of[9].worker == Approx(1e-6));
  CHECK((*Seconds(plan, cluster))[3] == Approx(of[3].both()));

  // What was counted, of processes of one device.
  proto::Cluster apart = cluster;
  apart.mutable_level(0)->set_size(1);
  std::vector<FarTraffic> far(plan.program(0).actor_size());
  far[1] = {.bytes = 512, .packets = 4, .most_pulls = 16, .placed = 512};
  far[2] = {.bytes = 1024, .packets = 4, .most_pulls = 2, .placed = 0};
  of = times(apart, far);
  // The other half is near, and copied.
  CHECK(of[1].link == Approx(4e-5 + 512 / 1e7));
  CHECK(of[1].worker == Approx(1e-6 + 1024e-9));
  // Summed by the worker, all of it.
  CHECK(of[2].worker == Approx(1e-6 + 3072e-9));
  CHECK(of[2].link == Approx(4e-5 + 1024 / 1e7));
  const Link link = {1e-5, 1e7};
  // Two packets at a time.
  CHECK(LinkSeconds({.bytes = 100, .packets = 4, .most_pulls = 2}, link) ==
        Approx(2e-5 + 2 * (2e-5 + 25 / 1e7)));
  CHECK(LinkSeconds({}, link) == Approx(2e-5));  // nothing is sent, all have entered
}

}  // namespace
}  // namespace oneflow

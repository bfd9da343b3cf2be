#include "oneflow_core/cost/host_cost.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

proto::Cluster Gpus() {
  proto::Cluster cluster;
  cluster.mutable_device()->set_kind(proto::Device::CUDA);
  cluster.mutable_device()->set_memory_bandwidth(1e12);
  return cluster;
}

double ToHost(double bytes, const proto::Cluster& cluster) {
  return HostCopySeconds(HostCopy::kToHost, bytes, cluster);
}

double FromHost(double bytes, const proto::Cluster& cluster) {
  return HostCopySeconds(HostCopy::kFromHost, bytes, cluster);
}

TEST_CASE("a copy takes a latency, and its bytes over its part of the link in its direction") {
  proto::Cluster cluster = Gpus();
  proto::HostLink* link = cluster.mutable_host_link();
  link->set_to_host(2e10);
  link->set_from_host(4e10);
  link->set_latency(1e-5);
  CHECK(ToHost(1e9, cluster) == Approx(1e-5 + 0.05).epsilon(1e-12));
  CHECK(FromHost(1e9, cluster) == Approx(1e-5 + 0.025).epsilon(1e-12));
  CHECK(ToHost(0, cluster) == 1e-5);
  link->set_sharing(2);
  CHECK(ToHost(1e9, cluster) == Approx(1e-5 + 0.1).epsilon(1e-12));
  CHECK(FromHost(1e9, cluster) == Approx(1e-5 + 0.05).epsilon(1e-12));
}

TEST_CASE("what is assumed of a link is said") {
  CHECK(AssumedOfHost(Gpus(), false) == "20 GB/s to the host, 20 GB/s from it, 10 us a copy");
  CHECK(AssumedOfHost(Gpus(), true) ==
        "20 GB/s to the host, 20 GB/s from it, 10 us a copy, 10 GB/s of its memory");
  CHECK(AssumedOfHost({}, true) == "5 GB/s to the host, 5 GB/s from it");
  proto::Cluster cluster = Gpus();
  cluster.mutable_host_link()->set_to_host(2e10);
  CHECK(AssumedOfHost(cluster, false) == "20 GB/s from it");
  cluster.mutable_host_link()->set_from_host(2e10);
  CHECK(AssumedOfHost(cluster, false).empty());
}

TEST_CASE("the directions of copies") {
  CHECK(FindHostCopy("copy_out") == HostCopy::kToHost);
  CHECK(FindHostCopy("copy_in") == HostCopy::kFromHost);
  CHECK(FindHostCopy("slice") == std::nullopt);
  CHECK(FindHostCopy("") == std::nullopt);
}

TEST_CASE("what a cluster file does not say of its link") {
  proto::Cluster gpus = Gpus();
  CHECK(ToHost(1e9, gpus) == Approx(1e-5 + 0.05).epsilon(1e-12));
  CHECK(FromHost(1e9, gpus) == Approx(1e-5 + 0.05).epsilon(1e-12));
  // One that says something of it has no latency that it does not name.
  gpus.mutable_host_link()->set_from_host(1e10);
  CHECK(ToHost(1e9, gpus) == Approx(0.05).epsilon(1e-12));
  CHECK(FromHost(1e9, gpus) == Approx(0.1).epsilon(1e-12));

  proto::Cluster cpus;
  CHECK(ToHost(1e9, cpus) == Approx(0.2).epsilon(1e-12));
  cpus.mutable_device()->set_memory_bandwidth(2e10);
  CHECK(ToHost(1e9, cpus) == Approx(0.1).epsilon(1e-12));
  CHECK(FromHost(1e9, cpus) == ToHost(1e9, cpus));
}

TEST_CASE("the host computes as fast as its memory, for a CPU device as fast as the device") {
  const CallWork update{"adamw", DType::kF32, /*flops=*/1e9, /*bytes=*/28e9};
  proto::Cluster gpus = Gpus();
  KernelCost kernels(gpus.device());
  CHECK(HostComputeSeconds(update, gpus, kernels) == Approx(2.8).epsilon(1e-12));
  gpus.mutable_host_link()->set_host_bandwidth(5.6e10);
  CHECK(HostComputeSeconds(update, gpus, kernels) == Approx(0.5).epsilon(1e-12));

  proto::Cluster cpus;
  cpus.mutable_device()->set_memory_bandwidth(2e10);
  cpus.mutable_host_link()->set_host_bandwidth(1);
  kernels = KernelCost(cpus.device());
  CHECK(HostComputeSeconds(update, cpus, kernels) == kernels.Seconds(update));
}

}  // namespace
}  // namespace oneflow

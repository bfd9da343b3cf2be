#include "tools/oneflow/cli/known_clusters.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/base/strings.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/cost/link_cost.h"
#include "oneflow_core/cost/product_cost.h"
#include "oneflow_core/print/band.h"
#include "proto/cluster.pb.h"
#include "tools/oneflow/cli/read_cluster.h"

namespace oneflow {
namespace {

using Catch::Contains;

std::string Error(const std::string& name) {
  const absl::StatusOr<ClusterText> file = ReadClusterText(name);
  return file.ok() ? "" : std::string(ToStd(file.status().message()));
}

proto::Cluster Read(const std::string& name) {
  return ParseCluster(ReadClusterText(name).value()).value();
}

TEST_CASE("known clusters: each is a cluster of GPUs with memory and links") {
  CHECK(KnownClusters() == std::vector<std::string>{"a100", "a100-40g", "b200", "gb200", "h100",
                                                    "h100-96g", "h100-pcie", "h20", "h200", "l40s",
                                                    "mi300x", "rtx-4090", "v100"});
  for (const std::string& name : KnownClusters()) {
    INFO(name);
    const ClusterText file = ReadClusterText(name).value();
    CHECK(file.where == "cluster " + name);
    const proto::Cluster cluster = ParseCluster(file).value();
    CHECK(cluster.base().empty());
    CHECK(cluster.device().kind() == proto::Device::CUDA);
    CHECK(cluster.device().reserve_bytes() > 0);
    CHECK(UsableBytes(cluster.device()) > cluster.device().memory_bytes() / 2);
    CHECK(cluster.level_size() > 0);
    CHECK(!cluster.has_spread());  // no published share of slow nodes is of these
  }
}

proto::Cluster Parse(const std::string& text) {
  const absl::StatusOr<proto::Cluster> cluster = ParseCluster({"mine", text});
  INFO(cluster.status().message());
  REQUIRE(cluster.ok());
  return *cluster;
}

std::string ParseError(const std::string& text) {
  return std::string(ToStd(ParseCluster({"mine", text}).status().message()));
}

TEST_CASE("clusters with a base: what a file says counts in place of the base's") {
  const proto::Cluster base = Read("a100");
  REQUIRE(base.system_size() > 0);
  const proto::Cluster cluster = Parse(
      "base: 'a100' name: 'mine' device { memory_bytes: 5000000000 products { processors: 9 } } "
      "level { name: 'cluster' bandwidth: 1e9 ports: 2 }");
  proto::Cluster expected = base;
  expected.set_name("mine");
  expected.clear_system();
  expected.clear_between_systems();
  expected.mutable_device()->set_memory_bytes(5000000000);
  expected.mutable_device()->mutable_products()->set_processors(9);
  expected.mutable_level(1)->set_bandwidth(1e9);
  expected.mutable_level(1)->set_ports(2);
  CHECK(cluster.SerializeAsString() == expected.SerializeAsString());
  // A list takes the place of the base's, and rates of attention follow the peak.
  const double peak = base.device().peak_flops_bf16();
  const proto::Device twice =
      Parse("base: 'a100' name: 'twice' device { peak_flops_bf16: " + std::to_string(2 * peak) +
            " }")
          .device();
  CHECK(twice.attention(0).forward(0) == Approx(2 * base.device().attention(0).forward(0)));
  CHECK(twice.attention(1).backward(2) == Approx(2 * base.device().attention(1).backward(2)));
  const proto::Device own =
      Parse(
          "base: 'a100' name: 'mine' device { peak_flops_bf16: 1e15 attention_library: 'mine' "
          "attention { "
          "library: 'mine' head_size: 64 keys: 512 forward: 1e12 backward: 2e12 } }")
          .device();
  REQUIRE(own.attention_size() == 1);
  CHECK(own.attention(0).backward(0) == 2e12);
  // A number 0 counts as not given, except reserve_bytes.
  const proto::Device none =
      Parse("base: 'a100' name: 'mine' device { reserve_bytes: 0 kernel_seconds: 0 }").device();
  CHECK(UsableBytes(none) == none.memory_bytes());
  CHECK(none.kernel_seconds() == base.device().kernel_seconds());
}

TEST_CASE("clusters with a base: mistakes") {
  CHECK_THAT(ParseError("base: 'h10'"),
             Contains("mine: base is \"h10\", which is no known cluster; did you mean h100?"));
  CHECK(
      ParseError("base: 'h100' device { memory_bytes: 5000000000 }") ==
      "mine: has the base h100 and no name; add one: systems compared on h100 were not compared on "
      "it");
  CHECK(
      ParseError("base: 'h100' name: 'm' level { name: 'node' size: 4 } level { name: 'node' }") ==
      "mine: level \"node\" is given twice; say all that differs from the base's level of this "
      "name in one");
  CHECK_THAT(ParseError("base: 'h100' name: 'mine' level { name: 'rack' }"),
             Contains("mine: level \"rack\" is none of the base h100, which has node, cluster"));
  CHECK_THAT(ParseError("base: 'h100' name: 'mine' device { reserve_bytes: 90000000000 }"),
             Contains("mine: device.reserve_bytes is 90000000000 of memory_bytes"));
  CHECK_THAT(ParseError("device { memory_bytes: 1000 kept_bytes: 2000 }"),
             Contains("mine: device.kept_bytes is 2000 of memory_bytes 1000"));
  CHECK_THAT(ParseError(""), Contains("mine: is empty"));
}

TEST_CASE("known clusters: runs that a region contains, and one that none does") {
  proto::Cluster cluster = Read("h100");
  cluster.set_as_system("megatron");
  for (const int64_t sequence : {2048, 4096, 8192}) {
    for (const int64_t devices : {8, 64, 1024}) {
      const Band band = FindBand(cluster, {.sequence = sequence,
                                           .parameters = 22'000'000'000,
                                           .devices = devices,
                                           .device_tokens = 4e6 / static_cast<double>(devices)});
      INFO(sequence << " tokens on " << devices << ": " << band.outside);
      CHECK(band.outside.empty());
      CHECK(band.what == "Megatron-LM, Megatron-Core and NeMo on H100s");
      CHECK(band.models > 1);
      CHECK((band.sigma > .01 && band.sigma < .2));
    }
  }
  CHECK(
      FindBand(
          cluster,
          {.sequence = 131072, .parameters = 22'000'000'000, .devices = 64, .device_tokens = 65536})
          .outside == "131,072 tokens of a sequence");
}

TEST_CASE("known clusters: of another name the error lists them") {
  CHECK(Error("h10") ==
        "--cluster=h10: is neither a known cluster nor a file; did you mean h100? known are a100, "
        "a100-40g, b200, gb200, h100, h100-96g, h100-pcie, h20, h200, l40s, mi300x, rtx-4090, "
        "v100; or write the path of a textproto");
  CHECK_THAT(Error("H100"), Contains("did you mean h100?"));
  CHECK_THAT(Error("xyzzy"), Contains("known are a100") && !Contains("did you mean"));
  CHECK_THAT(Error("absent.textproto"), Contains("absent.textproto") && Contains("No such file") &&
                                            Contains("a100, a100-40g"));
}

// Simulated over measured time, minus 1.
double ExchangeError(const std::string& name, int devices, const char* primitive, double mib,
                     double microseconds) {
  const Mesh mesh = *ParseMesh("data=" + std::to_string(devices));
  const double received = ReceivedBytes(primitive, mib * (1 << 20), devices);
  const GroupLinks links = LinksOfGroup(Read(name), mesh, {0});
  return ExchangeSeconds(primitive, received, links) / (microseconds * 1e-6) - 1;
}

// OpenXLA's default_collective_perf_table.txtpb, of f32; each time includes the launch of a
// program.
TEST_CASE("known clusters: collectives of one node take what OpenXLA measured") {
  const auto check = [](const std::string& name, int devices, const char* primitive, double most,
                        std::vector<std::pair<double, double>> measured) {
    for (const auto& [mib, microseconds] : measured) {
      INFO(name << " " << devices << " " << primitive << " " << mib << " MiB");
      CHECK(std::abs(ExchangeError(name, devices, primitive, mib, microseconds)) < most);
    }
  };
  using Measured = std::vector<std::pair<double, double>>;
  const Measured h100_gather = {{32, 129.4}, {64, 213.6}, {256, 729.3}, {1024, 2730.3}},
                 h100_scatter = {{32, 133.5}, {64, 218.6}, {256, 771.1}, {1024, 2920.9}},
                 h100_reduce = {{32, 225.9}, {64, 379.8}, {256, 1262.2}, {1024, 4720.9}},
                 b200_gather = {{32, 84.0}, {64, 162.4}, {256, 433.2}, {1024, 1590.3}},
                 b200_scatter = {{32, 92.2}, {64, 171.7}, {256, 441.2}, {1024, 1544.4}},
                 b200_reduce = {{32, 196.6}, {64, 314.3}, {256, 842.9}, {1024, 3115.0}},
                 gb200_gather = {{72, 225.5}, {288, 593.4}, {1152, 1868.3}, {9216, 14648.4}},
                 gb200_scatter = {{72, 224.2}, {288, 581.7}, {1152, 1781.5}, {9216, 14219.4}};
  check("h100", 8, "all_gather", .09, h100_gather);
  check("h100", 8, "reduce_scatter", .12, h100_scatter);
  check("h100", 8, "all_reduce", .19, h100_reduce);  // switches that sum are not in the model
  check("b200", 8, "all_gather", .23, b200_gather);
  check("b200", 8, "reduce_scatter", .27, b200_scatter);
  check("b200", 8, "all_reduce", .3, b200_reduce);
  check("gb200", 72, "all_gather", .21, gb200_gather);
  check("gb200", 72, "reduce_scatter", .22, gb200_scatter);
}

// OpenXLA's default_matmul_perf_table.txtpb; of the V100, DeepBench's DeepBench_NV_V100.xlsx.
TEST_CASE("known clusters: products take what was measured") {
  struct Measured {
    const char* cluster;
    ProductSpec product;
    double microseconds;
  };
  const auto spec = [](int64_t m, int64_t n, int64_t k, int64_t batch) {
    ProductSpec product;
    product.m = m;
    product.n = n;
    product.k = k;
    product.batch = batch;
    return product;
  };
  for (const Measured& measured : {Measured{"h100", spec(4096, 4096, 4096, 1), 176.2},
                                   {"h100", spec(4096, 4096, 1024, 1), 50.1},
                                   {"h100", spec(4096, 1024, 2048, 4), 95.9},
                                   {"b200", spec(4096, 4096, 4096, 1), 97.0},
                                   {"b200", spec(4096, 4096, 1024, 1), 31.9},
                                   {"b200", spec(4096, 1024, 2048, 4), 54.3},
                                   {"mi300x", spec(4096, 4096, 4096, 1), 235.7},
                                   {"mi300x", spec(4096, 4096, 1024, 1), 69.4},
                                   {"mi300x", spec(4096, 1024, 2048, 4), 135.1},
                                   {"v100", spec(1760, 7000, 1760, 1), 473},
                                   {"v100", spec(4096, 7000, 4096, 1), 2120},
                                   {"v100", spec(8448, 48000, 2816, 1), 21719}}) {
    const proto::Device device = Read(measured.cluster).device();
    const double seconds =
        ProductSeconds(device.products(), device.peak_flops_bf16(), measured.product, DType::kBF16);
    INFO(measured.cluster << " " << measured.microseconds << " us");
    CHECK(std::abs(seconds / (measured.microseconds * 1e-6) - 1) < .09);
  }
}

}  // namespace
}  // namespace oneflow

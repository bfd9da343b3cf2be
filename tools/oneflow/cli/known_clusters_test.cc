#include "tools/oneflow/cli/known_clusters.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/cost/link_cost.h"
#include "oneflow_core/cost/product_cost.h"
#include "proto/cluster.pb.h"
#include "tools/oneflow/cli/check_cluster.h"

namespace oneflow {
namespace {

using Catch::Contains;

std::string Error(const std::string& name) {
  const absl::StatusOr<ClusterText> file = ReadClusterText(name);
  return file.ok() ? "" : std::string(ToStd(file.status().message()));
}

TEST_CASE("known clusters: each is a cluster of GPUs with memory and links") {
  CHECK(KnownClusters() ==
        std::vector<std::string>{"a100", "b200", "gb200", "h100", "h200", "mi300x", "v100"});
  for (const std::string& name : KnownClusters()) {
    const ClusterText file = ReadClusterText(name).value();
    CHECK(file.where == "cluster " + name);
    proto::Cluster cluster;
    REQUIRE(ParseText(file.text, file.where, "cluster", &cluster).ok());
    CHECK(CheckCluster(cluster, file.where).ok());
    CHECK(cluster.device().kind() == proto::Device::CUDA);
    CHECK(cluster.device().memory_bytes() > 0);
    CHECK(cluster.level_size() > 0);
  }
}

TEST_CASE("known clusters: of another name the error lists them") {
  CHECK(Error("h10") ==
        "--cluster=h10: is neither a known cluster nor a file; did you mean h100? known are a100, "
        "b200, gb200, h100, h200, mi300x, v100; or write the path of a textproto");
  CHECK_THAT(Error("H100"), Contains("did you mean h100?"));
  CHECK_THAT(Error("xyzzy"), Contains("known are a100") && !Contains("did you mean"));
  CHECK_THAT(Error("absent.textproto"),
             Contains("absent.textproto") && Contains("No such file") && Contains("a100, b200"));
}

proto::Cluster Read(const std::string& name) {
  const ClusterText file = ReadClusterText(name).value();
  proto::Cluster cluster;
  REQUIRE(ParseText(file.text, file.where, "cluster", &cluster).ok());
  return cluster;
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

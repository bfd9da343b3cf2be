#include "tools/oneflow/known_clusters.h"

#include <catch2/catch.hpp>

#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/strings.h"
#include "proto/cluster.pb.h"

namespace oneflow {
namespace {

using Catch::Contains;

std::string Error(const std::string& name) {
  const absl::StatusOr<ClusterText> file = ReadClusterText(name);
  return file.ok() ? "" : std::string(ToStd(file.status().message()));
}

TEST_CASE("known clusters: each is a cluster of GPUs with memory and links") {
  CHECK(KnownClusters() == std::vector<std::string>{"a100", "h100", "h200"});
  for (const std::string& name : KnownClusters()) {
    const absl::StatusOr<ClusterText> file = ReadClusterText(name);
    REQUIRE(file.ok());
    CHECK(file->where == "cluster " + name);
    proto::Cluster cluster;
    REQUIRE(ParseText(file->text, file->where, "cluster", &cluster).ok());
    CHECK(cluster.device().kind() == proto::Device::CUDA);
    CHECK(cluster.device().memory_bytes() > 0);
    CHECK(cluster.level_size() > 0);
  }
}

TEST_CASE("known clusters: of another name the error lists them") {
  CHECK(Error("h10") ==
        "--cluster=h10: is neither a known cluster nor a file; did you mean h100? known are a100, "
        "h100, h200; or write the path of a textproto");
  CHECK_THAT(Error("H100"), Contains("did you mean h100?"));
  CHECK_THAT(Error("xyzzy"), Contains("known are a100") && !Contains("did you mean"));
  CHECK_THAT(Error("absent.textproto"),
             Contains("absent.textproto") && Contains("No such file") && Contains("a100, h100"));
}

}  // namespace
}  // namespace oneflow

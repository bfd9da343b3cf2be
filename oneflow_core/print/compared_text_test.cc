#include "oneflow_core/print/compared_text.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

proto::Cluster Compared(int runs, double mean, double sigma, const char* what) {
  proto::Cluster cluster;
  cluster.mutable_compared()->set_runs(runs);
  cluster.mutable_compared()->set_mean(mean);
  cluster.mutable_compared()->set_sigma(sigma);
  cluster.mutable_compared()->set_what(what);
  return cluster;
}

TEST_CASE("a band is one sigma, and names the runs that it is of") {
  const auto compared = FindCompared(Compared(13, 0.06, 0.084, "published runs on H100s"));
  CHECK(ComparedText(compared) == " ± 8 % (1 σ of 13 published runs on H100s)");
  CHECK(ComparedJson(compared).dump() ==
        R"({"runs":13,"mean":0.06,"sigma":0.084,"what":"published runs on H100s"})");
  CHECK(ComparedText(FindCompared(Compared(2, 0, 0.004, "runs"))) == " ± 0.4 % (1 σ of 2 runs)");
}

TEST_CASE("without compared runs there is no band, and that is said") {
  CHECK_FALSE(FindCompared({}).has_value());
  CHECK(ComparedText(std::nullopt) == " (no run of this kind was compared)");
  CHECK(ComparedJson(std::nullopt).is_null());
}

}  // namespace
}  // namespace oneflow

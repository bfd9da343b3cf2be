#include "training/trainer/processes/cores_of_host.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

using Cores = std::vector<int>;

TEST_CASE("processes that may use the same cores of a host divide them") {
  CHECK(ShareCores({{"a", {0, 1, 2, 3}}, {"b", {0, 1}}, {"a", {0, 1, 2, 3}}}) ==
        std::vector<CoreShare>{{{0, 1}, 1, 2}, {{0, 1}, 1, 2}, {{2, 3}, 1, 2}});
  // All are taken, though they do not divide.
  CHECK(ShareCores({{"a", {0, 2, 4}}, {"a", {0, 2, 4}}}) ==
        std::vector<CoreShare>{{{0}, 1}, {{2, 4}, 1, 2}});
}

TEST_CASE("processes keep exclusive cores") {
  CHECK(ShareCores({{"a", {0}}, {"a", {1}}}) == std::vector<CoreShare>{{{0}, 1}, {{1}, 1}});
}

TEST_CASE("more processes than cores share all of them") {
  const std::vector<CoreShare> shares = ShareCores({{"a", {0, 1}}, {"a", {0, 1}}, {"a", {0, 1}}});
  CHECK(shares == std::vector<CoreShare>(3, {{0, 1}, 3}));
}

TEST_CASE("cores that overlap are shared with those who overlap") {
  CHECK(ShareCores({{"a", {0, 1}}, {"a", {1, 2}}, {"a", {2}}, {"a", {5}}}) ==
        std::vector<CoreShare>{{{0, 1}, 2}, {{1, 2}, 3}, {{2}, 2}, {{5}, 1}});
}

TEST_CASE("a quota of processor time bounds the threads of a host's processes together") {
  const std::vector<int> cores = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto threads = [&](int quota, int processes) {
    std::vector<ProcessCores> all(processes, {"a", cores, quota});
    all.push_back({"b", cores, quota});
    const std::vector<CoreShare> shares = ShareCores(all);
    CHECK(shares.back().threads == (quota > 0 ? quota : 8));
    return shares.front().threads;
  };
  CHECK(threads(0, 1) == 8);
  CHECK(threads(0, 2) == 4);
  CHECK(threads(3, 1) == 3);
  CHECK(threads(3, 2) == 1);
  CHECK(threads(4, 2) == 2);
  CHECK(threads(1, 4) == 1);
}

TEST_CASE("shares of cores are consecutive, disjoint and all of them") {
  for (int n = 1; n <= 9; ++n) {
    Cores cores;
    for (int c = 0; c < n; ++c) cores.push_back(2 * c);
    for (int shares = 1; shares <= n; ++shares) {
      Cores all;
      for (int i = 0; i < shares; ++i) {
        const Cores share = ShareOfCores(cores, i, shares);
        CHECK_FALSE(share.empty());
        all.insert(all.end(), share.begin(), share.end());
      }
      CHECK(all == cores);
    }
    CHECK(ShareOfCores(cores, n, n + 1) == cores);
  }
}

TEST_CASE("cores as text") {
  const ProcessCores cores{"host-1", {0, 3, 64}, 5};
  const ProcessCores back = DecodeProcessCores(Encode(cores)).value();
  CHECK(back == cores);
  const CoreShare share{{1, 2}, 3, 2};
  const CoreShare same = DecodeCoreShare(Encode(share)).value();
  CHECK(same == share);
  for (const char* text :
       {"", "3", "2 1", "x 1 1,2", "0 1 1", "2 1 1,x", "-1 1 1", "2 0 1", "2 x 1"}) {
    INFO(text);
    CHECK_FALSE(DecodeCoreShare(text).ok());
  }
  CHECK_FALSE(DecodeProcessCores("host").ok());
  CHECK_FALSE(DecodeProcessCores("host 0 1;2").ok());
}

}  // namespace
}  // namespace oneflow

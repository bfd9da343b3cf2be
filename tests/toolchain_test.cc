// The toolchain works: C++20, and every system library compiles, links and runs.
#include <xxhash.h>

#include <concepts>
#include <coroutine>
#include <dnnl.hpp>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "glog/logging.h"

#include <catch2/catch.hpp>

namespace {

template <std::integral T>
T Sum(std::span<const T> values) {
  T sum = 0;
  for (const T value : values) sum += value;
  return sum;
}

TEST_CASE("C++20 concepts, spans and threads") {
  const std::vector<int> values = {1, 2, 3};
  int sum = 0;
  std::jthread([&] { sum = Sum<int>(values); }).join();
  REQUIRE(sum == 6);
}

TEST_CASE("Abseil and glog") {
  absl::flat_hash_map<std::string, int> map;
  map[absl::StrCat("a", 1)] = 7;
  const absl::StatusOr<int> found = map.at("a1");
  REQUIRE(found.ok());
  REQUIRE(absl::StrFormat("%d", *found) == "7");
  LOG_IF(FATAL, *found != 7) << "unreachable";
}

TEST_CASE("JSON and xxHash") {
  REQUIRE(nlohmann::json::parse(R"({"loss": 2.5})").at("loss") == 2.5);
  REQUIRE(XXH3_64bits("oneflow", 7) == XXH3_64bits("oneflow", 7));
}

TEST_CASE("oneDNN has a CPU engine") {
  REQUIRE(dnnl::engine::get_count(dnnl::engine::kind::cpu) == 1);
}

}  // namespace

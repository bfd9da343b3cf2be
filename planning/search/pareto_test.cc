#include "planning/search/pareto.h"

#include <catch2/catch.hpp>
#include <random>

#include "oneflow_core/base/status.h"
#include "planning/search/pareto_page.h"
#include "planning/search/pareto_text.h"

namespace oneflow {
namespace {

using Catch::Contains;

FoundPlan Plan(const char* mesh, double seconds, int64_t bytes) {
  FoundPlan plan{.step_seconds = seconds, .bytes = bytes, .tokens_a_second = 1000 / seconds};
  plan.candidate = MakeCandidate(MakeRecipe(std::string("--mesh=") + mesh));
  return plan;
}

// A search in which less memory takes more time, and twice the devices 0.6 of it; 1 GiB is needed.
absl::StatusOr<SearchResult> FakeSearch(const SearchSpec& spec, const SearchOptions& options) {
  CHECK(options.budget_seconds > 0);
  const int64_t capacity = spec.given.cluster.device().memory_bytes();
  SearchResult result{.complete = true};
  result.counts.groups = result.counts.too_large = 1;
  if (spec.devices == 6) return InputError("--devices=6", "no mesh");
  const int64_t bytes = capacity == 0 ? int64_t{8} << 30 : capacity;
  if (bytes < 1 << 30) return result;
  const double seconds = 1 + 8.0 * (1 << 30) / static_cast<double>(bytes);
  const double faster = spec.devices == 2 ? 1 : spec.devices == 4 ? 0.6 : 0.36;
  const std::string mesh = "data=" + std::to_string(spec.devices);
  result.found = {Plan(mesh.c_str(), seconds * faster, bytes)};
  result.bound_seconds = result.found[0].step_seconds / 1.01;
  return result;
}

ParetoResult Find(int64_t capacity, std::vector<int64_t> devices, double price = 0) {
  SearchSpec spec;
  spec.given.cluster.mutable_device()->set_memory_bytes(capacity);
  const absl::StatusOr<ParetoResult> result =
      FindPareto(spec, {.devices = std::move(devices), .price = price}, FakeSearch);
  REQUIRE(result.ok());
  return *result;
}

TEST_CASE("pareto: the front is what no other point betters, by comparison of all pairs") {
  std::mt19937 random(3);
  for (int run = 0; run < 100; ++run) {
    std::vector<ParetoPoint> points(1 + random() % 12);
    for (ParetoPoint& point : points) {
      point.plan =
          Plan("1", 1 + static_cast<double>(random() % 5), static_cast<int64_t>(1 + random() % 5));
    }
    MarkFront(ParetoAxis::kBytes, &points);
    for (const ParetoPoint& a : points) {
      bool bettered = false, equal_on_front = false;
      for (const ParetoPoint& b : points) {
        const bool no_worse =
            b.plan.bytes <= a.plan.bytes && b.plan.step_seconds <= a.plan.step_seconds;
        const bool equal =
            b.plan.bytes == a.plan.bytes && b.plan.step_seconds == a.plan.step_seconds;
        bettered = bettered || (no_worse && !equal);
        equal_on_front = equal_on_front || (equal && b.on_front);
      }
      CHECK(equal_on_front == !bettered);
    }
  }
}

TEST_CASE("pareto: a number of devices is searched for five memories, as long as plans fit") {
  const ParetoResult all = Find(int64_t{8} << 30, {4});
  CHECK(all.axis == ParetoAxis::kBytes);
  std::vector<int64_t> gib;
  for (const ParetoSearch& search : all.searches) gib.push_back(search.capacity >> 30);
  CHECK(gib == std::vector<int64_t>{8, 6, 4, 3, 2});
  CHECK(all.points.size() == 5);
  for (const ParetoPoint& point : all.points) CHECK(point.on_front);
  const ParetoResult few = Find(int64_t{2} << 30, {4});
  CHECK(few.searches.size() == 4);  // 3/8 of it is too little
  CHECK_THAT(few.searches.back().none, Contains("no plan fits"));
  CHECK(few.points.size() == 3);
  // Without a limit, parts of what the best plan takes.
  CHECK(Find(0, {4}).searches[2].capacity == int64_t{4} << 30);
}

TEST_CASE("pareto: numbers of devices, and what tokens cost on them") {
  const ParetoResult plain = Find(int64_t{8} << 30, {2, 4, 6, 8});
  CHECK(plain.axis == ParetoAxis::kDevices);
  REQUIRE(plain.points.size() == 3);
  CHECK(plain.points[0].devices == 8);
  CHECK_THAT(plain.searches[2].none, Contains("--devices=6"));
  const ParetoResult priced = Find(int64_t{8} << 30, {2, 4, 8}, 3.6);
  CHECK(priced.axis == ParetoAxis::kCost);
  // 2 devices for 0.001 a second each, 500 tokens a second.
  CHECK(priced.points[2].cost == Approx(2 * 0.001 * 1e9 / 500));
  CHECK(priced.points[0].cost > priced.points[2].cost);
}

TEST_CASE("pareto: where no search finds a plan, the first says why") {
  SearchSpec spec;
  spec.given.cluster.mutable_device()->set_memory_bytes(1000);
  const absl::Status status = FindPareto(spec, {.devices = {4}}, FakeSearch).status();
  CHECK(ExitCode(status) == 2);
  CHECK_THAT(std::string(ToStd(status.message())), Contains("no plan fits"));
}

TEST_CASE("pareto: text, JSON and page show the front") {
  const ResultFrame frame{.model = "a<b", .cluster = "some", .given_flags = "--batch=4"};
  const ParetoResult result = Find(int64_t{8} << 30, {4}, 2);
  const auto [text, json] = DescribeFront(frame, result);
  CHECK_THAT(text, Contains("--batch=4 --memory=8589934592 --mesh=data=4\n") &&
                       Contains("4 devices, 2.00 GiB: no plan is more than 1.0 % faster\n") &&
                       Contains("cost: of 10^9 tokens"));
  CHECK(json["axis"] == "bytes_a_device");
  CHECK(json["points"].size() == 5);
  CHECK(json["points"][0]["flags"] == "--batch=4 --memory=8589934592 --mesh=data=4");
  CHECK(json["searches"].size() == 5);
  const std::string page = ParetoPage(frame, result, {{"1.html", "a<c"}, {}, {}, {}, {}});
  CHECK_THAT(page, Contains("no plan is written: a&lt;c</td>") &&
                       Contains("<h1>a&lt;b on some</h1>") &&
                       Contains("<a href=\"1.html\"><circle") && Contains("</svg>") &&
                       Contains("</html>"));
}

TEST_CASE("notes beside a table are of all its plans, or name their rows") {
  FoundPlan a{.mfu = 0.4}, b{.mfu = 0.5, .mfu_counts = "t² pairs"};
  a.band.outside = b.band.outside = "8 devices";
  a.band.devices = b.band.devices = "H100s";
  std::vector<PlanRow> rows = {{{"8"}, &a}, {{"16"}, &b}, {{"none"}, nullptr}};
  CHECK(BandLines(rows) ==
        "predicted: times of a step (no run like this (8 devices on H100s) was compared)\n");
  CHECK(MfuLines(rows) == "MFU (16): t² pairs\n");
  b.band.outside = "";
  a.mfu_counts = b.mfu_counts;
  CHECK(BandLines(rows) ==
        "predicted: times of a step (8) (no run like this (8 devices on H100s) was compared)\n"
        "predicted: times of a step (16) (no run of this kind was compared)\n");
  CHECK(MfuLines(rows) == "MFU: t² pairs\n");
  b.mfu.reset();
  CHECK(MfuLines(rows) == "MFU (8): t² pairs\n");
}

}  // namespace
}  // namespace oneflow

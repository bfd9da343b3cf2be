#include "training/trainer/metrics_log.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "oneflow_core/base/temporary_directory.h"
#include "training/trainer/weight_check.h"

namespace oneflow {
namespace {

// The lines of `steps` steps whose records follow each other at once.
std::vector<nlohmann::json> LogLines(int64_t steps, double flops_a_step, double machine_flops) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/metrics.jsonl";
  MetricsOptions options;
  options.path = path;
  options.last_step = steps;
  options.tokens_a_step = 1;
  options.flops_a_step = flops_a_step;
  options.machine_flops = machine_flops;
  MetricsLog log(options);
  REQUIRE(log.Open(0).ok());
  log.StartChunk(0, steps, std::vector<double>(steps, 1e-3));
  for (int64_t step = 0; step < steps; ++step)
    log.Record(step, std::vector<double>{2.5, 1.0, kNotCounted});
  REQUIRE(log.FinishChunk(std::nullopt, steps).ok());
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  REQUIRE(lines.size() == static_cast<size_t>(steps));
  return lines;
}

TEST_CASE("MFU is at most 1, however low the machine's rate was measured") {
  double most = 0;
  for (const nlohmann::json& line : LogLines(40, /*flops_a_step=*/1e12, /*machine_flops=*/1)) {
    CHECK(line["mfu"].get<double>() > 0);
    CHECK(line["mfu"].get<double>() <= 1);
    most = std::max(most, line["mfu"].get<double>());
  }
  CHECK(most == 1);  // of the fastest few steps
}

TEST_CASE("MFU is the rate of the last few steps over the machine's") {
  const double flops = 1e3, machine = 1e30;  // no run reaches it
  const std::vector<nlohmann::json> lines = LogLines(20, flops, machine);
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t first = i < 8 ? 0 : i - 7;
    double seconds = 0;
    for (size_t j = first; j <= i; ++j) seconds += lines[j]["step_seconds"].get<double>();
    const double rate = static_cast<double>(i + 1 - first) * flops / seconds;
    CHECK(lines[i]["mfu"].get<double>() == Approx(rate / machine).epsilon(1e-9));
  }
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("a new run moves the metrics of an earlier one aside, through a link, too") {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/m.jsonl", link = dir.path() + "/link";
  std::filesystem::create_symlink("m.jsonl", link);
  const auto open = [](const std::string& name, int64_t step) {
    MetricsOptions options;
    options.path = name;
    return MetricsLog(options).Open(step);
  };
  REQUIRE(open(path, 0).ok());
  CHECK_FALSE(std::filesystem::exists(path + ".old-1"));
  REQUIRE(open(path, 0).ok());  // nothing is lost with an empty file
  CHECK_FALSE(std::filesystem::exists(path + ".old-1"));
  for (const std::string& name : {path, link}) {
    std::ofstream(path) << "{\"step\": 0, \"run\": \"" + name + "\"}\n";
    REQUIRE(open(name, 1).ok());
    CHECK_THAT(ReadAll(path), Catch::Contains(name));
    REQUIRE(open(name, 0).ok());
    CHECK(ReadAll(path).empty());
  }
  CHECK_THAT(ReadAll(path + ".old-1"), Catch::Contains(path));
  CHECK_THAT(ReadAll(path + ".old-2"), Catch::Contains(link));
  CHECK(std::filesystem::is_symlink(link));
  REQUIRE(open("/dev/null", 0).ok());
}

TEST_CASE("a loss of no labels is null, which is said once") {
  const TemporaryDirectory dir;
  MetricsOptions options;
  options.path = dir.path() + "/m.jsonl";
  options.last_step = 3;
  options.why_no_labels = "the reason";
  std::vector<std::string> notices;
  options.notice = [&](const std::string& sentence) { notices.push_back(sentence); };
  MetricsLog log(options);
  REQUIRE(log.Open(0).ok());
  log.StartChunk(0, 3, std::vector<double>(3, 1e-3));
  log.Record(0, std::vector<double>{2.5, 1, 7});
  log.Record(1, std::vector<double>{0, 0, 0});
  log.Record(2, std::vector<double>{0, 0, 0});
  REQUIRE(log.FinishChunk(MeanLoss(), 3).ok());
  const std::string text = ReadAll(options.path);
  CHECK_THAT(text, Catch::Contains("\"loss\": 2.5") && Catch::Contains("\"labels\": 7"));
  CHECK_THAT(text, Catch::Contains("{\"step\": 2, \"loss\": null,"));
  CHECK_THAT(text, Catch::EndsWith("\"labels\": 0, \"eval_loss\": null}\n"));
  CHECK(notices == std::vector<std::string>{
                       "warning: no label of step 2 counts, so it has no loss: the reason"});
  CHECK(log.losses().without_labels == 2);
  CHECK(log.losses().last == 2.5);
}

TEST_CASE("a mean of losses weighs each as much as it has labels") {
  MeanLoss mean;
  CHECK(mean.value() == std::nullopt);
  mean.Add(std::vector<double>{4, 0, 3});
  mean.Add(std::vector<double>{0, 0, 0});  // of a micro-batch without labels
  mean.Add(std::vector<double>{2, 0, 1});
  CHECK(mean.value() == 3.5);
  MeanLoss not_counted;
  for (const double loss : {4., 2.}) not_counted.Add(std::vector<double>{loss, 0, kNotCounted});
  CHECK(not_counted.value() == 3);
}

TEST_CASE("the time that is left has the validations and checkpoints to come") {
  MetricsOptions options;
  options.last_step = 10;
  options.pauses[kValidation] = {.is_made = true, .every = 4};  // after 4, 8, 10
  options.pauses[kCheckpoint] = {.is_made = true};              // after 10
  std::vector<double> left;
  options.on_step = [&](const TrainedStep& step) { left.push_back(step.left_seconds); };
  MetricsLog log(options);
  log.Paused(kValidation, 1e6);
  log.Paused(kCheckpoint, 1e7);
  log.StartChunk(0, 10, std::vector<double>(10, 1e-3));
  for (int64_t step = 0; step < 10; ++step) {
    log.Record(step, std::vector<double>{2.5, 1, kNotCounted});
  }
  REQUIRE(log.FinishChunk(std::nullopt, 10).ok());
  REQUIRE(left.size() == 10);
  const double expected[] = {13, 13, 13, 12, 12, 12, 12, 11, 11, 0};  // in 1e6 s
  for (size_t i = 0; i < left.size(); ++i) CHECK(left[i] == Approx(1e6 * expected[i]).margin(1e5));
}

TEST_CASE("variables whose values are not finite are named") {
  WeightCheck check;
  const auto look = [&](const std::string& name, float value) {
    const Slice slice = {{0}, {2}};
    float values[] = {1, value};
    check.Look({.name = &name, .slice = &slice, .data = reinterpret_cast<std::byte*>(values)});
  };
  look("a", 2);
  CHECK(check.Found().empty());
  look("b", std::numeric_limits<float>::infinity());
  CHECK(check.Found() == "b has values that are not finite, NaN or infinity");
  look("c", std::numeric_limits<float>::quiet_NaN());
  look("b", -std::numeric_limits<float>::infinity());
  CHECK(check.Found() == "b and another variable have values that are not finite, NaN or infinity");
}

TEST_CASE("a number that is none has no sign") {
  CHECK(ExactDouble(-std::numeric_limits<double>::quiet_NaN()) == "nan");
}

TEST_CASE("without a rate of the machine there is no MFU") {
  for (const nlohmann::json& line : LogLines(3, 1e3, 0)) CHECK(!line.contains("mfu"));
}

}  // namespace
}  // namespace oneflow

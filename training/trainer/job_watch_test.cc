#include "training/trainer/job_watch.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <string>

#include "oneflow_core/base/file.h"
#include "oneflow_core/base/temporary_directory.h"
#include "training/trainer/wait_meter.h"

namespace oneflow {
namespace {

nlohmann::json StatusIn(const std::string& dir) {
  return nlohmann::json::parse(ReadFile(dir + "/status.json").value());
}

std::string MakeWaits(int rank, const std::string& group, double milliseconds) {
  proto::ProcessWaits waits;
  proto::ProcessWaits::Wait* wait = waits.add_wait();
  wait->set_rank(rank);
  wait->set_group(group);
  wait->set_milliseconds(milliseconds);
  return waits.SerializeAsString();
}

TEST_CASE("the status has what each rank waits for each group, and why the job stands still") {
  const TemporaryDirectory dir;
  JobReport report(dir.path(), 3);
  std::string printed;
  JobWatch watch(2, 2, &report, [&](const std::string& line) { printed += line + "\n"; });
  watch.Note(0, JobWatch::kWaits, MakeWaits(0, "gradients, ranks 0 and 1", 12.3456));
  watch.Note(1, JobWatch::kWaits, MakeWaits(1, "gradients, ranks 0 and 1", 0.5));
  watch.Note(1, JobWatch::kWaits, "no message");
  watch.Note(1, "of another name", "");
  watch.Look();
  report.Trained(7, 1.5, 100, "");
  nlohmann::json status = StatusIn(dir.path());
  CHECK(status["attempt"] == 3);
  CHECK(status["step"] == 7);
  CHECK(status["wait_ms"] == nlohmann::json::parse(R"({
          "rank 0": {"gradients, ranks 0 and 1": 12.346},
          "rank 1": {"gradients, ranks 0 and 1": 0.5}})"));
  CHECK_FALSE(status.contains("standstill"));

  for (int p = 0; p < 2; ++p) {
    proto::ProcessStall stall;
    stall.set_process(1 - p);  // the sender counts, not this field
    stall.set_host("h");
    stall.set_stands_still(true);
    proto::WorkerStall* worker = stall.add_worker();
    worker->set_rank(p);
    if (p == 0) {
      worker->set_inside("h.0.fc");
    } else {
      worker->add_waits_for(0);
    }
    watch.Note(p, JobWatch::kStall, stall.SerializeAsString());
  }
  watch.Look();
  watch.Look();
  const std::string why =
      "rank 0 on host h is inside the kernel of h.0.fc since [0-9]+ s; 1 rank waits for it";
  CHECK_THAT(printed, Catch::Matches("the job stands still: " + why + "\n"));
  status = StatusIn(dir.path());
  CHECK(status["step"] == 7);
  CHECK_THAT(status["standstill"].get<std::string>(), Catch::Matches(why));
  for (int p = 0; p < 2; ++p) watch.Note(p, JobWatch::kStall, "");
  watch.Look();
  CHECK_FALSE(StatusIn(dir.path()).contains("standstill"));
}

TEST_CASE("waits are reported for a step, over the steps since the last report, once a second") {
  WaitMeter meter(1);
  RankWaits waits{"train", 5, 0, {{2, "g", 0}, {2, "s", 0}}};
  CHECK_FALSE(meter.Look(10, waits).has_value());
  waits.steps = 4;
  waits.wait[0].nanoseconds = 8'000'000;
  waits.wait[1].nanoseconds = 1'000'000;
  const proto::ProcessWaits first = meter.Look(10.1, waits).value();
  REQUIRE(first.wait_size() == 2);
  CHECK(first.wait(0).rank() == 2);
  CHECK(first.wait(0).group() == "g");
  CHECK(first.wait(0).milliseconds() == Approx(2));
  CHECK(first.wait(1).milliseconds() == Approx(0.25));
  waits.steps = 5;
  waits.wait[0].nanoseconds = 9'000'000;
  CHECK_FALSE(meter.Look(11, waits).has_value());
  CHECK(meter.Look(11.1, waits).value().wait(0).milliseconds() == Approx(1));
  CHECK_FALSE(meter.Look(20, waits).has_value());  // no further step
  CHECK_FALSE(meter.Look(20, {"eval", 6, 3, {}}).has_value());
  CHECK_FALSE(meter.Look(20, {}).has_value());
  // Another run begins from nothing.
  const RankWaits next{"train", 7, 2, {{2, "g", 4'000'000}, {2, "s", 0}}};
  CHECK(meter.Look(30, next).value().wait(0).milliseconds() == Approx(2));
}

}  // namespace
}  // namespace oneflow

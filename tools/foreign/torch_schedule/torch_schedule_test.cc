#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/schedule/order_file.h"
#include "compiler/schedule/play_orders.h"
#include "compiler/schedule/schedule.h"
#include "oneflow_core/base/strings.h"
#include "tools/foreign/torch_schedule/torch_progress.h"
#include "tools/foreign/torch_schedule/torch_schedule.h"

namespace oneflow {
namespace {

using Catch::Matchers::Contains;

std::string Message(const absl::Status& status) { return std::string(ToStd(status.message())); }

TorchSchedule Parse(std::string_view csv) { return ParseTorchCsv(csv, "order.csv").value(); }

std::string ProofError(std::string_view csv) { return Message(ProveProgress(Parse(csv)).status()); }

std::vector<StageOrder> Orders(const std::string& name, int stages, int64_t micro_batches,
                               int chunks = 0, int64_t extra = 0) {
  Schedule schedule = FindSchedule(name).value();
  if (chunks > 0) schedule.chunks = chunks;
  schedule.extra_in_flight = extra;
  return MakeOrders(schedule, stages, micro_batches);
}

TEST_CASE("csv: a line for each rank, stages counted along the pipe") {
  CHECK(TorchCsv(MakeTorchSchedule(Orders("1f1b", 2, 3))) ==
        "0F0,0F1,0B0,0F2,0B1,0B2\n"
        "1F0,1B0,1F1,1B1,1F2,1B2\n");
  CHECK(TorchCsv(MakeTorchSchedule(Orders("interleaved", 2, 2, 2))) ==
        "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n"
        "1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1\n");
  CHECK(TorchCsv(MakeTorchSchedule(Orders("zero_bubble", 2, 3))) ==
        "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n"
        "1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2\n");
}

TEST_CASE("csv: a chunk without W has a full backward") {
  const Task f{Part::kForward}, b{Part::kBackward}, w{Part::kWeights};
  const std::vector<StageOrder> orders = {{{{f, b}, 1}}, {{{f, b, w}, 1}}};
  CHECK(TorchCsv(MakeTorchSchedule(orders)) == "0F0,0B0\n1F0,1I0,1W0\n");
}

TEST_CASE("csv: what is written is read") {
  for (const char* name : {"1f1b", "gpipe", "interleaved", "zero_bubble"}) {
    const TorchSchedule schedule = MakeTorchSchedule(Orders(name, 4, 9));
    CHECK(Parse(TorchCsv(schedule)) == schedule);
  }
  CHECK(Parse("0F0,,0B0\r\n 1F0, 1B0,,\n\n") == Parse("0F0,0B0\n1F0,1B0"));
}

TEST_CASE("csv: errors name the line and the action") {
  const auto error = [](std::string_view csv) {
    return Message(ParseTorchCsv(csv, "order.csv").status());
  };
  CHECK_THAT(error("0F0\n1G0\n"), Contains("order.csv:2: \"1G0\" is no action; write the stage"));
  for (const char* bad :
       {"F0", "0F", "0F0x", "-1F0", "0f0", "99999999999999999999F0", "0F77777777"}) {
    CHECK_THAT(error(bad), Contains("is no action"));
  }
  CHECK_THAT(error("0F0,0SEND_F0"), Contains("which PyTorch adds itself; leave it out"));
  CHECK_THAT(error(""), Contains("order.csv: has no line"));
}

TEST_CASE("proof: what makes a schedule one of PyTorch's") {
  CHECK(ProveProgress(Parse("0F0,0B0\n1F0,1I0,1W0\n")).ok());
  CHECK_THAT(ProofError("0F0,0B0\n2F0,2B0\n"), Contains("stage 1: has 0 forwards"));
  CHECK_THAT(ProofError("0F0,9B0\n"), Contains("rank 0, 9B0: is of a stage without stages"));
  CHECK_THAT(ProofError("0F0,0F1,0B0,0B1\n1F0,1B0\n"),
             Contains("stage 1: has 1 forwards, stage 0 has 2"));
  CHECK_THAT(ProofError("0F0,0B0,1F0\n1B0\n"), Contains("rank 1, 1B0: is of a stage of rank 0"));
  CHECK_THAT(ProofError("0F1,0B1\n1F1,1B1\n"), Contains("beyond the 1 of a step"));
  CHECK_THAT(ProofError("0F0,0F0,0B0,0B1\n1F0,1F1,1B0,1B1\n"), Contains("0F0: comes twice"));
  CHECK_THAT(ProofError("0B0,0F0\n1F0,1B0\n"), Contains("0B0: comes before its forward"));
  CHECK_THAT(ProofError("0F0,0B0,0I0\n1F0,1B0\n"), Contains("0I0: comes after another backward"));
  CHECK_THAT(ProofError("0F0,0W0\n1F0,1B0\n"), Contains("0W0: comes without an I"));
  CHECK_THAT(ProofError("0F0,0I0,0W0,0W0\n1F0,1B0\n"), Contains("0W0: comes twice"));
  CHECK_THAT(ProofError("0F0,0I0\n1F0,1B0\n"), Contains("stage 0: has no W of micro-batch 0"));
  CHECK_THAT(ProofError("0F0\n1F0,1B0\n"), Contains("stage 0: has no backward of micro-batch 0"));
  CHECK_THAT(ProofError("0F0,0F1,0B0,0B1\n1F1,1B1,1F0,1B0\n"),
             Contains("rank 1, 1F1: is not the next forward of the last stage"));
}

TEST_CASE("proof: the ranks that wait for each other are named") {
  CHECK_THAT(ProofError("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"),
             Contains("the ranks wait for each other: rank 0 stands at 0B0, which waits for 1B0 of "
                      "rank 1; rank 1 stands at 1F1, which waits for 0F1 of rank 0"));
  // A rank may wait for itself, too: both stages of a rank, the second one first.
  CHECK_THAT(ProofError("1F0,0F0,1B0,0B0\n"),
             Contains("rank 0 stands at 1F0, which waits for 0F0 of rank 0"));
}

std::string Lists(const TorchSchedule& schedule) { return TorchCsv(schedule); }

TEST_CASE("proof: sends and receives stand where PyTorch puts them") {
  CHECK(Lists(AddTransfers(Parse("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")).value()) ==
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
        "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
  // Neighbours on one rank need neither.
  CHECK(Lists(AddTransfers(Parse("0F0,1F0,1B0,0B0\n")).value()) == "0F0,1F0,1B0,0B0\n");
}

TEST_CASE("proof: lists of sends and receives that hold each other do not end") {
  using K = TorchKind;
  const TorchSchedule crossed = {
      {{K::kForward, 0, 0}, {K::kSendForward, 0, 0}, {K::kReceiveBackward, 0, 1}},
      {{K::kSendBackward, 1, 1}, {K::kReceiveForward, 1, 0}}};
  CHECK_THAT(
      Message(PlayTransfers(crossed)),
      Contains("rank 0 stands at 0SEND_F0, which waits for 1RECV_F0 of rank 1; rank 1 stands "
               "at 1SEND_B1, which waits for 0RECV_B1 of rank 0"));
  const TorchSchedule lost = {{{K::kForward, 0, 0}, {K::kSendForward, 0, 0}},
                              {{K::kForward, 1, 0}}};
  CHECK_THAT(Message(PlayTransfers(lost)), Contains("computes 1F0 before 1RECV_F0"));
  const TorchSchedule alone = {{{K::kForward, 0, 0}, {K::kSendForward, 0, 0}},
                               {{K::kBackwardWeight, 1, 0}}};
  CHECK_THAT(Message(PlayTransfers(alone)), Contains("rank 1 has ended without it"));
}

// Micro-batches that a stage holds at most between F and its last backward, by the order alone.
int64_t MostHeld(const StageOrder& order) {
  const std::vector<Task> tasks = Unrolled(order);
  const bool splits = std::any_of(tasks.begin(), tasks.end(),
                                  [](const Task& task) { return task.part == Part::kWeights; });
  int64_t held = 0, most = 0;
  for (const Task& task : tasks) {
    if (task.part == Part::kForward) most = std::max(most, ++held);
    if (task.part == (splits ? Part::kWeights : Part::kBackward)) --held;
  }
  return most;
}

void CheckProof(const std::vector<StageOrder>& orders, int chunks, int64_t micro_batches) {
  const TorchSchedule schedule = MakeTorchSchedule(orders);
  const absl::StatusOr<TorchProof> proof = ProveProgress(schedule);
  INFO(TorchCsv(schedule) << Message(proof.status()));
  REQUIRE(proof.ok());
  const auto stages = static_cast<int>(orders.size()) * chunks;
  CHECK(proof->stages == stages);
  CHECK(proof->micro_batches == micro_batches);
  CHECK(proof->transfers == 2 * (stages - 1) * micro_batches);
  for (size_t s = 0; s < orders.size(); ++s) CHECK(proof->most_held[s] == MostHeld(orders[s]));
  CHECK(Parse(TorchCsv(schedule)) == schedule);
}

TEST_CASE("proof: every schedule by name gets to its end, and holds what its order says") {
  for (const int stages : {2, 3, 4, 7, 8}) {
    for (const int64_t m : {1, 2, 3, 5, 8, 17}) {
      for (const int64_t extra : {0, 1, 3}) {
        INFO(absl::StrCat(stages, " stages, ", m, " micro-batches, extra ", extra));
        CheckProof(Orders("1f1b", stages, m, 0, extra), 1, m);
        CheckProof(Orders("gpipe", stages, m, 0, extra), 1, m);
        CheckProof(Orders("zero_bubble", stages, m, 0, extra), 1, m);
        for (const int chunks : {2, 3, 5}) {
          CheckProof(Orders("interleaved", stages, m, chunks, extra), chunks, m);
        }
      }
    }
  }
}

// F and B (and W) of a stage in any order in which each F precedes its B, each B its W.
StageOrder DrawOrder(int chunks, int64_t micro_batches, bool splits, std::mt19937* random) {
  std::vector<Task> tasks;
  std::vector<std::vector<int64_t>> taken(3, std::vector<int64_t>(chunks, 0));
  const int parts = splits ? 3 : 2;
  while (static_cast<int64_t>(tasks.size()) < parts * chunks * micro_batches) {
    const int part = static_cast<int>((*random)() % parts);
    const int chunk = static_cast<int>((*random)() % chunks);
    int64_t& mine = taken[part][chunk];
    if (mine == (part == 0 ? micro_batches : taken[part - 1][chunk])) continue;
    ++mine;
    static constexpr Part kParts[] = {Part::kForward, Part::kBackward, Part::kWeights};
    tasks.push_back({kParts[part], chunk});
  }
  return Compressed(tasks);
}

TEST_CASE("proof: of drawn orders its verdict is that of the orders' own game") {
  std::mt19937 random(49);
  int live = 0, dead = 0;
  for (int i = 0; i < 3000; ++i) {
    const int stages = 2 + static_cast<int>(random() % 3);
    const int chunks = 1 + static_cast<int>(random() % 2);
    const int64_t m = 1 + static_cast<int64_t>(random() % 3);
    std::vector<StageOrder> orders;
    const bool splits = random() % 2 == 0;
    for (int s = 0; s < stages; ++s) orders.push_back(DrawOrder(chunks, m, splits, &random));
    const bool is_live = PlayOrders(orders, chunks, Alike(stages, {})).ok();
    if (is_live) {
      CheckProof(orders, chunks, m);
    } else {
      CHECK(absl::IsFailedPrecondition(ProveProgress(MakeTorchSchedule(orders)).status()));
    }
    ++(is_live ? live : dead);
  }
  CHECK(live > 200);
  CHECK(dead > 200);
}

}  // namespace
}  // namespace oneflow

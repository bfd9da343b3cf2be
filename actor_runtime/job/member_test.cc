// Members of one process each, here all in this one, over real gRPC on loopback.
#include "actor_runtime/job/member.h"

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

using Joined = absl::StatusOr<std::unique_ptr<Member>>;

// What the callbacks of one member have said.
class Heard {
 public:
  explicit Heard(StepPosition position = {}) : position_(position) {}

  MemberCallbacks Callbacks() {
    return {.on_end = [this](const absl::Status& why) { Set([&] { ends_.push_back(why); }); },
            .freeze = [this] { return position_; },
            .stop_at = [this](const StepPosition& end) { Set([&] { stops_.push_back(end); }); },
            .on_report =
                [this](uint64_t run, int64_t step, std::span<const double> values) {
                  Set([&] {
                    reports_.push_back(
                        absl::StrCat(run, "/", step, ":", values.size(), ":", values[0]));
                  });
                }};
  }

  absl::Status End() {
    Wait([&] { return !ends_.empty(); });
    return ends_.at(0);
  }
  size_t ends() {
    std::lock_guard lock(mutex_);
    return ends_.size();
  }
  StepPosition Stop() {
    Wait([&] { return !stops_.empty(); });
    return stops_.at(0);
  }
  std::vector<std::string> Reports(size_t count) {
    Wait([&] { return reports_.size() >= count; });
    return reports_;
  }

 private:
  template <typename Change>
  void Set(Change change) {
    std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <typename Condition>
  void Wait(Condition condition) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, condition);
  }

  const StepPosition position_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<absl::Status> ends_;
  std::vector<StepPosition> stops_;
  std::vector<std::string> reports_;
};

MemberOptions Options(int port, int process, int processes) {
  return {.coordinator = absl::StrCat("127.0.0.1:", port),
          .process = process,
          .processes = processes,
          .token = "secret",
          .facts = {{"plan", "41ad"}, {"build", "7"}},
          .host = process % 2 == 0 ? "a" : "b",
          .join_seconds = 20};
}

// All join at once, each with options that `change` has changed.
template <typename Change>
std::vector<Joined> JoinAll(std::vector<std::unique_ptr<Heard>>& heard, Change change) {
  std::promise<int> listening;
  const std::shared_future<int> port = listening.get_future().share();
  std::vector<std::future<Joined>> joining;
  for (int p = 0; p < static_cast<int>(heard.size()); ++p) {
    MemberOptions options = Options(p == 0 ? 0 : port.get(), p, heard.size());
    change(options);
    MemberCallbacks callbacks = heard[p]->Callbacks();
    if (p == 0) callbacks.on_listen = [&](int at) { listening.set_value(at); };
    joining.push_back(
        std::async(std::launch::async, [=] { return Member::Join(options, callbacks); }));
  }
  std::vector<Joined> joined;
  for (auto& one : joining) joined.push_back(one.get());
  return joined;
}
std::vector<Joined> JoinAll(std::vector<std::unique_ptr<Heard>>& heard) {
  return JoinAll(heard, [](MemberOptions&) {});
}

std::vector<std::unique_ptr<Heard>> HeardOf(int processes) {
  std::vector<std::unique_ptr<Heard>> heard;
  for (int p = 0; p < processes; ++p) {
    heard.push_back(std::make_unique<Heard>(StepPosition{1, p == 1 ? 7 : 5}));
  }
  return heard;
}

TEST_CASE("Four processes join, exchange values, agree on a round and leave") {
  auto heard = HeardOf(4);
  auto members = JoinAll(heard);
  for (const Joined& member : members) REQUIRE(member.ok());
  std::vector<std::future<void>> running;
  for (int p = 0; p < 4; ++p) {
    running.push_back(std::async(std::launch::async, [&members, p] {
      Member& member = **members[p];
      CHECK(member.processes_on_host() == 2);
      CHECK(member.index_on_host() == p / 2);
      CHECK(member.MayWrite());
      member.Begins(0, "train", 0, 20);
      member.Post(absl::StrCat("address ", p), absl::StrCat("at ", p));
      const auto peer = member.Fetch(absl::StrCat("address ", (p + 1) % 4));
      CHECK(peer.value() == absl::StrCat("at ", (p + 1) % 4));
      for (int round = 0; round < 3; ++round) {
        const auto answer =
            member.Round(absl::StrCat("round ", round), absl::StrCat(p * 10 + round),
                         [](std::span<const std::string> parts) -> absl::StatusOr<std::string> {
                           std::string all;
                           for (const std::string& part : parts) absl::StrAppend(&all, part, " ");
                           return all;
                         });
        CHECK(answer.value() ==
              absl::StrCat(round, " ", 10 + round, " ", 20 + round, " ", 30 + round, " "));
      }
      const auto refused =
          member.Round("bad", "", [](std::span<const std::string>) -> absl::StatusOr<std::string> {
            return absl::DataLossError("no space");
          });
      CHECK(refused.status() == absl::DataLossError("no space"));
      CHECK(member.Leave().ok());
      CHECK(member.status().ok());
    }));
  }
  for (auto& one : running) one.get();
  members.clear();
  for (auto& one : heard) CHECK(one->ends() == 0);
}

TEST_CASE("A difference in a fact is refused on both sides, by name") {
  auto heard = HeardOf(3);
  auto members = JoinAll(heard, [](MemberOptions& options) {
    if (options.process == 1) options.facts[0].value = "c082";
  });
  for (const Joined& member : members) {
    REQUIRE_FALSE(member.ok());
    CHECK(member.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(member.status().message()) ==
          "host b (process 1): plan c082, process 0 on host a has 41ad; start all processes with "
          "the same build, files and flags");
  }
}

TEST_CASE("A signal at one process stops all after the same step") {
  auto heard = HeardOf(3);
  auto members = JoinAll(heard);
  for (const Joined& member : members) REQUIRE(member.ok());
  (*members[2])->AskStop();
  for (auto& one : heard) CHECK(one->Stop() == StepPosition{1, 7});
}

TEST_CASE("One process fails: all end, once, with its words") {
  auto heard = HeardOf(3);
  auto members = JoinAll(heard);
  for (const Joined& member : members) REQUIRE(member.ok());
  (*members[1])->Fail(absl::InternalError("kernel of h.3.fc: no memory"));
  for (int p = 0; p < 3; ++p) {
    CHECK(heard[p]->End() ==
          absl::InternalError("host b (process 1): kernel of h.3.fc: no memory"));
    CHECK_FALSE((*members[p])->MayWrite());
    CHECK((*members[p])->Fetch("nothing").status() == heard[p]->End());
  }
  members.clear();
  for (auto& one : heard) CHECK(one->ends() == 1);
}

TEST_CASE("A process that goes without a word ends the others") {
  for (const int goes : {0, 2}) {
    auto heard = HeardOf(3);
    auto members = JoinAll(heard);
    for (const Joined& member : members) REQUIRE(member.ok());
    members[goes] = absl::CancelledError();
    for (int p = 0; p < 3; ++p) {
      if (p == goes) continue;
      CHECK(absl::StrContains(heard[p]->End().message(),
                              absl::StrCat("host a (process ", goes, "): its connection broke")));
    }
  }
}

}  // namespace
}  // namespace oneflow

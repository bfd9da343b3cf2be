// Members of one process each, here all in this one, over real gRPC on loopback.
#include "training/job/member.h"

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/cause.h"
#include "oneflow_core/base/status.h"
#include "training/job/job_listener.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

using Joined = absl::StatusOr<std::unique_ptr<Member>>;

// Records the callbacks of one member.
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
                },
            .on_note =
                [this](int process, const std::string& name, const std::string& value) {
                  Set([&] { notes_.push_back(absl::StrCat(process, " ", name, "=", value)); });
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
  std::vector<std::string> Notes(size_t count) {
    Wait([&] { return notes_.size() >= count; });
    return notes_;
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
  std::vector<std::string> reports_, notes_;
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
std::vector<Joined> JoinAll(std::vector<std::unique_ptr<Heard>>& heard,
                            const std::function<void(MemberOptions&)>& change) {
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
std::vector<std::unique_ptr<Heard>> MakeHeard(int processes) {
  std::vector<std::unique_ptr<Heard>> heard;
  for (int p = 0; p < processes; ++p) {
    heard.push_back(std::make_unique<Heard>(StepPosition{1, p == 1 ? 7 : 5}));
  }
  return heard;
}

// The members of a job, which have joined.
struct Job {
  explicit Job(
      int processes, const std::function<void(MemberOptions&)>& change = [](auto&) {})
      : heard(MakeHeard(processes)), members(JoinAll(heard, change)) {
    for (const Joined& member : members) REQUIRE(member.ok());
  }
  Member& operator[](int process) { return **members[process]; }

  std::vector<std::unique_ptr<Heard>> heard;
  std::vector<Joined> members;
};

TEST_CASE("Four processes join, exchange values, agree on a round and leave") {
  Job job(4);
  struct Seen {
    int on_host = 0, index = -1;
    bool may_write = false;
    absl::StatusOr<std::string> peer, refused;
    std::vector<absl::StatusOr<std::string>> rounds;
    absl::Status left, status;
  };
  std::vector<std::future<Seen>> running;  // assertions are made on one thread
  for (int p = 0; p < 4; ++p) {
    running.push_back(std::async(std::launch::async, [&job, p] {
      Member& member = job[p];
      Seen seen;
      seen.on_host = member.processes_on_host();
      seen.index = member.index_on_host();
      seen.may_write = member.MayWrite();
      member.Begins(0, "train", 0, 20);
      member.Post(absl::StrCat("address ", p), absl::StrCat("at ", p));
      seen.peer = member.Fetch(absl::StrCat("address ", (p + 1) % 4));
      for (int round = 0; round < 3; ++round) {
        seen.rounds.push_back(
            member.Round(absl::StrCat("round ", round), absl::StrCat(p * 10 + round),
                         [](std::span<const std::string> parts) -> absl::StatusOr<std::string> {
                           std::string all;
                           for (const std::string& part : parts) absl::StrAppend(&all, part, " ");
                           return all;
                         }));
      }
      seen.refused =
          member.Round("bad", "", [](std::span<const std::string>) -> absl::StatusOr<std::string> {
            return absl::DataLossError("no space");
          });
      seen.left = member.Leave();
      seen.status = member.status();
      return seen;
    }));
  }
  for (int p = 0; p < 4; ++p) {
    const Seen seen = running[p].get();
    CHECK(seen.on_host == 2);
    CHECK(seen.index == p / 2);
    CHECK(seen.may_write);
    CHECK(seen.peer.value() == absl::StrCat("at ", (p + 1) % 4));
    for (int round = 0; round < 3; ++round) {
      CHECK(seen.rounds[round].value() ==
            absl::StrCat(round, " ", 10 + round, " ", 20 + round, " ", 30 + round, " "));
    }
    CHECK(seen.refused.status().code() == absl::StatusCode::kDataLoss);
    CHECK(std::string(seen.refused.status().message()) == "no space");
    CHECK(seen.left.ok());
    CHECK(seen.status.ok());
  }
  job.members.clear();
  for (auto& one : job.heard) CHECK(one->ends() == 0);
}

TEST_CASE("A signal at one process stops all after the same step") {
  Job job(3);
  job[2].AskStop();
  for (auto& one : job.heard) CHECK(one->Stop() == StepPosition{1, 7});
}

TEST_CASE("One process fails: all end, once, with its words") {
  Job job(3);
  job[1].Fail(absl::InternalError("kernel of h.3.fc: no memory"));
  for (int p = 0; p < 3; ++p) {
    CHECK(job.heard[p]->End().code() == absl::StatusCode::kInternal);
    CHECK(std::string(job.heard[p]->End().message()) ==
          "host b (process 1): kernel of h.3.fc: no memory");
    CHECK(FindCause(job.heard[p]->End()).process == 1);
    CHECK(FindCause(job.heard[p]->End()).is_decided);
    CHECK_FALSE(job[p].MayWrite());
    CHECK(job[p].Fetch("nothing").status() == job.heard[p]->End());
  }
  job.members.clear();
  for (auto& one : job.heard) CHECK(one->ends() == 1);
}

TEST_CASE("A process that goes without a word ends the others") {
  for (const int goes : {0, 2}) {
    Job job(3);
    job.members[goes] = absl::CancelledError();
    for (int p = 0; p < 3; ++p) {
      if (p == goes) continue;
      CHECK(absl::StrContains(job.heard[p]->End().message(),
                              absl::StrCat("host a (process ", goes, "): its connection broke")));
    }
  }
}

TEST_CASE("A process that comes to a running job changes nothing") {
  Job job(2, [](MemberOptions& options) { options.attempt = 1; });
  MemberOptions good = Options(job[0].port(), 1, 2);
  good.attempt = 1;
  const auto refusal = [](const MemberOptions& options) {
    const Joined joined = Member::Join(options, {});
    REQUIRE_FALSE(joined.ok());
    return std::string(joined.status().message());
  };
  MemberOptions other = good;
  other.token = "guess";
  CHECK(refusal(other) == absl::StrCat("host b (process 1): the coordinator at ", good.coordinator,
                                       " refuses it; give all processes of the job the same "
                                       "token"));
  other = good;
  other.attempt = 0;
  CHECK(refusal(other) == "host b (process 1) is of attempt 0; attempt 1 is under way");
  CHECK(absl::StrContains(refusal(good), "there is a process 1 already"));
  other = good;
  other.facts[1].value = "8";
  CHECK(absl::StrContains(refusal(other), "build 8, process 0 on host a has 7"));
  other = Options(job[0].port(), 0, 2);
  other.join_seconds = 0.1;
  CHECK(absl::StrContains(refusal(other), "cannot listen at"));
  std::vector<std::future<absl::Status>> leaving;
  for (Joined& member : job.members) {
    leaving.push_back(std::async(std::launch::async, [&] { return (*member)->Leave(); }));
  }
  for (auto& one : leaving) CHECK(one.get().ok());
}

TEST_CASE("A newer attempt ends the one that is there, and takes its port") {
  Job job(2);
  const int port = job[0].port();
  std::vector<std::future<Joined>> joining;
  for (int p = 0; p < 2; ++p) {
    MemberOptions options = Options(port, p, 2);
    options.attempt = 1;
    joining.push_back(
        std::async(std::launch::async, [options] { return Member::Join(options, {}); }));
  }
  for (int p = 0; p < 2; ++p) {
    CHECK(job.heard[p]->End().code() == absl::StatusCode::kAborted);
    CHECK(std::string(job.heard[p]->End().message()) ==
          "attempt 0 is over: host b (process 1) is of attempt 1");
  }
  job.members.clear();  // The old process 0 exits; its port is free.
  for (auto& one : joining) job.members.push_back(one.get());
  for (const Joined& member : job.members) CHECK(member.status() == absl::OkStatus());
}

TEST_CASE("A job whose first port is another job's meets at the next one, and harms nobody") {
  Job job(2);
  const int taken = job[0].port();
  const int free = JobListener::Open("127.0.0.1:0", 1).value()->port();  // it is closed at once
  std::vector<std::future<Joined>> joining;
  for (int p = 0; p < 2; ++p) {
    MemberOptions options = Options(taken, p, 2);
    options.other_ports = {free};
    options.attempt = 1;
    options.facts.push_back({"colour", "blue"});
    joining.push_back(
        std::async(std::launch::async, [options] { return Member::Join(options, {}); }));
  }
  std::vector<Joined> others;
  for (auto& one : joining) others.push_back(one.get());
  for (const Joined& member : others) {
    REQUIRE(member.status() == absl::OkStatus());
    CHECK((*member)->port() == free);
  }
  for (const auto* members : {&job.members, &others}) {
    std::future<absl::Status> left =
        std::async(std::launch::async, [&] { return (*members)[1].value()->Leave(); });
    CHECK((*members)[0].value()->Leave().ok());
    CHECK(left.get().ok());
  }
}

TEST_CASE("Options that cannot be are refused before anything is sent") {
  MemberOptions no_secret = Options(0, 0, 1);
  no_secret.token.clear();
  CHECK(Member::Join(no_secret, {}).status() ==
        InputError("ONEFLOW_JOB_TOKEN", "is empty", "give all processes of the job the same one"));
  const auto refusal = [](const MemberOptions& options) {
    const Joined joined = Member::Join(options, {});
    REQUIRE_FALSE(joined.ok());
    CHECK(joined.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(joined.status().message());
  };
  CHECK(refusal({.coordinator = "127.0.0.1:1", .processes = 0}).rfind("--processes", 0) == 0);
  CHECK(refusal({.coordinator = "127.0.0.1:1", .process = 2, .processes = 2})
            .rfind("--process_index", 0) == 0);
  for (const char* address : {"", ":1", "h", "h:", "h:x", "127.0.0.1:70000", "127.0.0.1:0"}) {
    CAPTURE(address);
    CHECK(
        refusal({.coordinator = address, .process = 1, .processes = 2}).rfind("--coordinator", 0) ==
        0);
  }
  for (const char* address : {"10.0.0.1:4000", "node7:4000", "[fd00::1]:4000", "127.evil.org:4"}) {
    CAPTURE(address);
    CHECK(absl::StrContains(refusal({.coordinator = address, .process = 1, .processes = 2}),
                            "is not on loopback, and there are no keys of the job; make keys with "
                            "--make_job_keys=DIR/keys, and give --job_dir=DIR to all processes"));
  }
  CHECK(absl::StrContains(
      refusal({.coordinator = "127.0.0.1:0", .processes = 2, .silence_seconds = -1}),
      "silence_seconds"));
}

TEST_CASE("Notes arrive at process 0 in the order of each process; too large ones are not sent") {
  Job job(2);
  job[1].Note("waits", std::string(kJobPieceBytes, 'x'));
  job[1].Note("waits", "1");
  job[1].Note("waits", "2");
  CHECK(job.heard[0]->Notes(2) == std::vector<std::string>{"1 waits=1", "1 waits=2"});
  job[0].Note("stall", "none");
  CHECK(job.heard[0]->Notes(3).back() == "0 stall=none");
  std::future<absl::Status> left = std::async(std::launch::async, [&] { return job[1].Leave(); });
  CHECK(job[0].Leave().ok());
  CHECK(left.get().ok());
}

TEST_CASE("Reports arrive in order; large parts and answers pass") {
  Job job(2);
  std::vector<std::string> expected;
  for (int step = 0; step < 200; ++step) {
    const double loss = step * 0.5;
    job[1].Report(3, step, {&loss, 1});
    expected.push_back(absl::StrCat("3/", step, ":1:", loss));
  }
  CHECK(job.heard[0]->Reports(200) == expected);
  constexpr size_t kLarge = 24 << 20;
  const std::string plan(kLarge / 4 + 1, 'p');
  job[0].Post("plan", plan);
  CHECK(job[1].Fetch("plan").value() == plan);
  std::vector<std::future<absl::StatusOr<std::string>>> rounds;
  for (int p = 0; p < 2; ++p) {
    rounds.push_back(std::async(std::launch::async, [&, p] {
      return job[p].Round("manifest", std::string(kLarge, static_cast<char>('a' + p)),
                          [](std::span<const std::string> parts) {
                            return absl::StatusOr<std::string>(parts[0] + parts[1]);
                          });
    }));
  }
  for (auto& one : rounds) {
    const auto answer = one.get();
    REQUIRE(answer.status() == absl::OkStatus());
    CHECK(answer->size() == 2 * kLarge);
    CHECK(answer->front() == 'a');
    CHECK(answer->back() == 'b');
  }
}

}  // namespace
}  // namespace oneflow

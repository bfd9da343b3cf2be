// Processes that die, stop and wake up while a checkpoint is written, and disks that fail: it is
// complete or absent, and an attempt that is over commits nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "oneflow_core/base/temporary_directory.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/checkpoint_for_test.h"
#include "training/checkpoint/system_calls_for_test.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

constexpr int kDied = 42;

// Runs `act` in a process that dies just before its n-th system call. Returns true if the process
// made fewer calls and survived.
bool Survives(int n, const std::function<bool()>& act) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int calls = 0;
    OnSystemCall([&](const SystemCall&) {
      if (calls++ == n) _exit(kDied);
      return 0;
    });
    const bool good = act();
    _exit(good ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE((WEXITSTATUS(status) == kDied || WEXITSTATUS(status) == 0));
  return WEXITSTATUS(status) == 0;
}

// The checkpoint that a run would go on from, and its manifest.
std::pair<std::string, std::string> Latest(const std::string& dir) {
  const std::string folder = LatestCheckpoint(dir).value();
  const auto reader = CheckpointReader::Open(folder).value();
  REQUIRE(reader->Verify().ok());
  CheckLoads(*reader, PlacementNumber(0));
  return {folder, ReadFile(folder + "/manifest.json")};
}

std::set<std::string> NamesIn(const std::string& dir) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) names.insert(entry.path().filename());
  return names;
}

TEST_CASE("Checkpoint faults: if any process dies before any system call, one is complete") {
  const Placement placement = PlacementNumber(3);
  const TemporaryDirectory given;
  const std::string older = Save(given.path() + "/older", 1, PlacementNumber(1));
  for (const int64_t step : {1, 2}) {  // over an older one of that step, and beside it
    const std::string newer =
        *TrySave(given.path() + "/newer", step, placement, 1, {}, TestModelFiles());
    int deaths = 0, before = 0;
    for (bool done = false; !done; ++deaths) {
      const TemporaryDirectory dir;
      fs::copy(older, dir.path() + "/step-00000001");
      done = Survives(deaths, [&] {
        return TrySave(dir.path(), step, placement, 3, {.attempt = 1}, TestModelFiles()).ok();
      });
      INFO("died before call " << deaths);
      const auto [folder, manifest] = Latest(dir.path());
      const bool is_newer = manifest == ReadFile(newer + "/manifest.json");
      REQUIRE((is_newer || manifest == ReadFile(older + "/manifest.json")));
      REQUIRE((is_newer || !done));
      before += !is_newer;
      // The next attempt is not disturbed and leaves nothing behind.
      REQUIRE(BeginAttempt(dir.path(), 2).ok());
      EndAttempt(dir.path(), 2);
      std::set<std::string> names = {"step-00000001"};
      if (is_newer) names.insert(fs::path(folder).filename());
      REQUIRE(NamesIn(dir.path()) == names);
    }
    // It was the older one up to one call, the renaming, and the newer one from then on.
    CHECK(before > 20);
    CHECK(deaths - before > 1);
  }
}

TEST_CASE(
    "Checkpoint faults: nothing is renamed that is not on the disk, the manifest comes last") {
  const TemporaryDirectory dir;
  const std::string top = fs::canonical(dir.path());
  Save(top, 1, PlacementNumber(1));
  std::set<std::string> unsynced;
  int manifests = 0, renamed = 0;
  OnSystemCall([&](const SystemCall& call) {
    const std::string parent = fs::path(call.path).parent_path();
    if (call.path.ends_with("/manifest.json") && call.name == "open") {
      ++manifests;
      CHECK(unsynced == std::set<std::string>{parent});
    }
    if (call.name == "open") unsynced.insert({call.path, parent});
    if (call.name == "pwrite") unsynced.insert(call.path);
    if (call.name == "fsync") unsynced.erase(call.path);
    if (call.name == "rename") {
      ++renamed;
      CHECK(unsynced.empty());
      unsynced.insert(fs::path(call.to).parent_path());
    }
    return 0;
  });
  const auto folder = TrySave(top, 1, PlacementNumber(2), 3, {.attempt = 1}, TestModelFiles());
  OnSystemCall(nullptr);
  CHECK(folder.ok());
  CHECK(manifests == 1);
  CHECK(renamed == 1);
  CHECK(unsynced.empty());
}

TEST_CASE("Checkpoint faults: a disk that fails is reported, and older checkpoints stay") {
  const TemporaryDirectory full;
  const std::string expected = ReadFile(
      *TrySave(full.path(), 1, PlacementNumber(2), 1, {}, TestModelFiles()) + "/manifest.json");
  for (int n = 0, calls = 1; n < calls; ++n) {
    const TemporaryDirectory dir;
    const std::string older = ReadFile(Save(dir.path(), 1, PlacementNumber(1)) + "/manifest.json");
    calls = 0;
    std::string failed;
    OnSystemCall([&](const SystemCall& call) {
      if (calls++ != n) return 0;
      failed = call.name;
      return ENOSPC;
    });
    const auto folder =
        TrySave(dir.path(), 1, PlacementNumber(2), 2, {.attempt = 1}, TestModelFiles());
    OnSystemCall(nullptr);
    INFO(n << ": " << failed << ": " << folder.status());
    const std::string manifest = Latest(dir.path()).second;
    if (folder.ok()) {
      REQUIRE((failed == "unlink" || failed == "pread"));  // removals need not happen at once
      REQUIRE(manifest == expected);
    } else {
      REQUIRE_THAT(Message(folder.status()), Catch::Contains("No space left on device"));
      REQUIRE((manifest == older || (failed == "fsync" && manifest == expected)));
    }
  }
}

TEST_CASE("Checkpoint faults: a part that is missing") {
  const TemporaryDirectory dir;
  REQUIRE(BeginAttempt(dir.path(), 0).ok());
  auto parts = *WriteParts(dir.path(), 1, PlacementNumber(2), 3);
  const std::string last = parts.back();
  parts.pop_back();
  const CheckpointInfo info = {.step = 1, .seed = kSeed};
  const absl::Status missing = CommitParts(dir.path(), TestPlan(), info, {}, parts).status();
  CHECK(missing.code() == absl::StatusCode::kInternal);
  CHECK_THAT(Message(missing), Catch::Contains("w: has 30 of 105 elements"));
  CHECK_FALSE(LatestCheckpoint(dir.path()).ok());
  parts.push_back(last);
  CHECK(CommitParts(dir.path(), TestPlan(), info, {}, parts).ok());
}

TEST_CASE("Checkpoint faults: a writer that gives up leaves the others theirs") {
  const TemporaryDirectory dir;
  const Placement placement = PlacementNumber(1);
  REQUIRE(BeginAttempt(dir.path(), 0).ok());
  const auto writer = [&] {
    return *CheckpointWriter::Create(dir.path(), TestPlan(), {.step = 1}, {});
  };
  auto other = writer();
  for (const bool has_files : {false, true}) {
    auto failed = writer();
    if (has_files) REQUIRE(WriteRank(*failed, placement, 1).ok());
  }
  CHECK(WriteRank(*other, placement, 0) == absl::OkStatus());
  CHECK(NamesIn(dir.path() + "/attempt-0.tmp/step-00000001") ==
        std::set<std::string>{"rank-00000.bin"});
  other.reset();
  EndAttempt(dir.path(), 0);
  CHECK(NamesIn(dir.path()).empty());
}

TEST_CASE("Checkpoint faults: files that are not as their writer says") {
  const TemporaryDirectory dir;
  REQUIRE(BeginAttempt(dir.path(), 0).ok());
  const auto parts = *WriteParts(dir.path(), 1, PlacementNumber(2), 3);
  const CheckpointInfo info = {.step = 1, .seed = kSeed};
  const std::string file = dir.path() + "/attempt-0.tmp/step-00000001/rank-00001.bin";
  const auto size = fs::file_size(file);
  const auto commit = [&] { return CommitParts(dir.path(), TestPlan(), info, {}, parts).status(); };
  fs::resize_file(file, size - 1);
  CHECK(Message(commit()) == file + ": has " + std::to_string(size - 1) +
                                 " bytes, and its writer says that it has " + std::to_string(size));
  fs::resize_file(file, size + 1);
  CHECK(commit().code() == absl::StatusCode::kInternal);
  fs::rename(file, file + "2");
  CHECK_THAT(Message(commit()), Catch::Contains("no such file"));
  CHECK_FALSE(LatestCheckpoint(dir.path()).ok());
  fs::rename(file + "2", file);
  fs::resize_file(file, size);
  dir.Write("attempt-0.tmp/step-00000001/rank-00009.bin", "of a save that failed");
  CHECK(commit().ok());
  CHECK_FALSE(fs::exists(dir.path() + "/step-00000001/rank-00009.bin"));
}

TEST_CASE("Checkpoint faults: an attempt that is over writes and commits nothing") {
  const TemporaryDirectory dir;
  const Placement placement = PlacementNumber(1);
  const CheckpointInfo info = {.step = 7, .seed = kSeed};
  REQUIRE(BeginAttempt(dir.path(), 1).ok());
  const WriterOptions old = {.attempt = 1};
  auto early = *CheckpointWriter::Create(dir.path(), TestPlan(), {.step = 8}, old);
  auto late = *CheckpointWriter::Create(dir.path(), TestPlan(), {.step = 9}, old);
  REQUIRE(WriteRank(*late, placement, 0).ok());
  const auto parts = *WriteParts(dir.path(), 7, placement, 2, old);

  const std::string folder = *TrySave(dir.path(), 7, PlacementNumber(2), 1, {.attempt = 2});
  const std::string manifest = ReadFile(folder + "/manifest.json");
  const std::string over = dir.path() + ": attempt 1 is over: it writes no checkpoint any more";
  const auto refused = [&](const absl::Status& status) {
    CHECK(status.code() == absl::StatusCode::kAborted);
    CHECK_THAT(Message(status), Catch::StartsWith(over));
  };
  refused(CommitParts(dir.path(), TestPlan(), info, old, parts).status());
  refused(WriteRank(*early, placement, 0));
  refused(late->Finish().status());
  refused(CheckpointWriter::Create(dir.path(), TestPlan(), {.step = 10}, old).status());
  early.reset();
  late.reset();
  CHECK(NamesIn(dir.path()) == std::set<std::string>{"step-00000007"});
  CHECK(Latest(dir.path()) == std::pair(folder, manifest));
}

TEST_CASE("Checkpoint faults: a newer attempt begins and commits before any call of an older one") {
  const Placement placement = PlacementNumber(1), other = PlacementNumber(2);
  for (const bool replaces : {false, true}) {
    int n = 0, aborted = 0;
    for (bool reached = true; reached; ++n) {
      const TemporaryDirectory dir;
      if (replaces) Save(dir.path(), 7, PlacementNumber(0));
      REQUIRE(BeginAttempt(dir.path(), 1).ok());
      reached = false;
      int calls = 0;
      absl::Status newer;
      OnSystemCall([&](const SystemCall&) {
        if (calls++ != n) return 0;
        reached = true;
        newer = TrySave(dir.path(), 7, other, 1, {.attempt = 2}).status();
        return 0;
      });
      const auto parts = WriteParts(dir.path(), 7, placement, 2, {.attempt = 1});
      absl::Status older = parts.status();
      if (parts.ok()) {
        const CheckpointInfo info = {.step = 7, .seed = kSeed, .model_files = TestModelFiles()};
        older = CommitParts(dir.path(), TestPlan(), info, {.attempt = 1}, *parts).status();
      }
      OnSystemCall(nullptr);
      INFO("before call " << n << ": " << older << ", " << newer);
      REQUIRE(newer.ok());
      REQUIRE((older.ok() || older.code() == absl::StatusCode::kAborted));
      aborted += !older.ok();
      if (!reached) REQUIRE(older.ok());
      // The checkpoint is the newer attempt's, whenever that came.
      REQUIRE(fs::exists(Latest(dir.path()).first + "/rank-00002.bin") == reached);
    }
    CHECK(aborted > 20);
    CHECK(n - aborted > 1);  // once the older one has renamed, and without a newer one
  }
}

TEST_CASE("Checkpoint faults: an older attempt commits while a newer one begins, or never") {
  const CheckpointInfo info = {.step = 7, .seed = kSeed, .model_files = TestModelFiles()};
  int n = 0, committed = 0, aborted = 0;
  for (bool reached = true; reached; ++n) {
    const TemporaryDirectory dir;
    REQUIRE(BeginAttempt(dir.path(), 1).ok());
    const auto parts = *WriteParts(dir.path(), 7, PlacementNumber(2), 2, {.attempt = 1});
    const auto commit = [&] {
      return CommitParts(dir.path(), TestPlan(), info, {.attempt = 1}, parts).status();
    };
    reached = false;
    int calls = 0;
    absl::Status older;
    OnSystemCall([&](const SystemCall&) {
      if (calls++ != n) return 0;
      reached = true;
      older = commit();
      return 0;
    });
    const absl::Status begun = BeginAttempt(dir.path(), 2);
    OnSystemCall(nullptr);
    INFO("before call " << n << ": " << older << ", " << begun);
    REQUIRE(begun.ok());
    if (!reached) older = commit();
    // A checkpoint that the newer attempt finds is complete, and no other appears later.
    REQUIRE(LatestCheckpoint(dir.path()).ok() == older.ok());
    if (older.ok()) Latest(dir.path());
    REQUIRE((older.ok() || older.code() == absl::StatusCode::kAborted));
    (older.ok() ? committed : aborted) += 1;
    EndAttempt(dir.path(), 2);
    REQUIRE(NamesIn(dir.path()).size() == static_cast<size_t>(older.ok()));
  }
  CHECK(committed > 0);
  CHECK(aborted > 5);
}

TEST_CASE("Checkpoint faults: who may not write any more is asked before each call, and stops") {
  const std::string stopped =
      "this process was stopped for too long and the job went on without it";
  int64_t allowed = 0;
  for (bool done = false; !done; ++allowed) {
    const TemporaryDirectory dir;
    int64_t asked = 0;
    bool fresh = false;
    const WriterOptions options = {.may_write = [&] {
      fresh = true;
      return asked++ < allowed;
    }};
    REQUIRE(BeginAttempt(dir.path(), 0).ok());
    bool renamed = false;
    OnSystemCall([&](const SystemCall& call) {
      if (call.name == "pread" || (renamed && call.name == "fsync")) return 0;
      // The destructor of a writer takes its own files away.
      if (call.name == "unlink") return 0;
      CHECK(asked <= allowed);
      if (call.name != "open") CHECK(std::exchange(fresh, call.name == "open"));
      renamed = call.name == "rename";
      return 0;
    });
    const auto parts = WriteParts(dir.path(), 1, PlacementNumber(1), 2, options);
    absl::Status status = parts.status();
    if (parts.ok()) {
      status =
          CommitParts(dir.path(), TestPlan(), {.step = 1, .seed = kSeed}, options, *parts).status();
    }
    OnSystemCall(nullptr);
    done = status.ok();
    REQUIRE(LatestCheckpoint(dir.path()).ok() == done);
    if (done) continue;
    REQUIRE(status.code() == absl::StatusCode::kAborted);
    REQUIRE(Message(status) == stopped);
  }
  CHECK(allowed > 20);
}

TEST_CASE("Checkpoint faults: reading from a disk that fails, and a file that shrinks meanwhile") {
  const TemporaryDirectory dir;
  const std::string folder = Save(dir.path(), 1, PlacementNumber(1));
  const std::string file = folder + "/rank-00001.bin";
  const auto reader = *CheckpointReader::Open(folder);
  OnSystemCall([&](const SystemCall& call) {
    return call.name == "pread" && call.path.ends_with("rank-00001.bin") ? EIO : 0;
  });
  const absl::Status broken = LoadRank(*reader, PlacementNumber(1), 1);
  CHECK(LoadRank(*reader, PlacementNumber(1), 0).ok());
  OnSystemCall(nullptr);
  CHECK(broken.code() == absl::StatusCode::kDataLoss);
  CHECK(Message(broken) == file + ": cannot be read: Input/output error; use another checkpoint");

  // Between its opening and its reading.
  OnSystemCall([&](const SystemCall& call) {
    if (call.name == "pread" && call.path.ends_with("rank-00001.bin")) fs::resize_file(file, 10);
    return 0;
  });
  const absl::Status shrunk = reader->Verify();
  OnSystemCall(nullptr);
  CHECK(shrunk.code() == absl::StatusCode::kDataLoss);
  CHECK(Message(shrunk) == file +
                               ": is truncated: it has 10 bytes, and had 212 when it was "
                               "written; use another checkpoint");
}

TEST_CASE("VerifyPieces reads the blocks that the ranks load, each once, and no others") {
  const TemporaryDirectory dir;
  for (const auto& [from, to] :
       {std::pair(1, 2), std::pair(2, 3), std::pair(3, 1), std::pair(2, 2)}) {
    const std::string folder = Save(dir.path(), from, PlacementNumber(from));
    const auto reader = *CheckpointReader::Open(folder);
    const Placement placement = PlacementNumber(to);
    const proto::Plan plan = PlacedPlan(placement);
    for (int rank = 0; rank < placement.mesh.devices(); ++rank) {
      std::multiset<std::string> read;
      OnSystemCall([&](const SystemCall& call) {
        if (call.name == "pread") read.insert(call.path);
        return 0;
      });
      REQUIRE(reader->VerifyPieces(plan, {rank, rank + 1}).ok());
      const auto verified = std::exchange(read, {});
      REQUIRE(LoadRank(*reader, placement, rank).ok());
      const auto loaded = std::exchange(read, {});
      OnSystemCall(nullptr);
      CHECK(verified == loaded);
      CHECK_FALSE(verified.empty());
    }
    std::map<std::string, int> reads;
    OnSystemCall([&](const SystemCall& call) {
      reads[call.path] += call.name == "pread";
      return 0;
    });
    REQUIRE(reader->VerifyPieces(plan, {}).ok());
    const auto pieces = std::exchange(reads, {});
    REQUIRE(reader->Verify().ok());
    OnSystemCall(nullptr);
    CHECK(pieces == reads);  // all ranks together: all there is, once
  }
}

}  // namespace
}  // namespace oneflow

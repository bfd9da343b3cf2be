// Checkpoints of compiled plans, saved by many processes: each file has the bytes that one process
// writes, and VerifyPieces of some ranks finds just the damage that loading them would.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "actor_runtime/exec/runtime.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/temporary_directory.h"
#include "tests/e2e/small_run.h"
#include "training/checkpoint/checkpoint.h"

namespace oneflow {
namespace {

namespace fs = std::filesystem;

std::vector<SmallRun> Runs() {
  std::vector<SmallRun> runs;
  for (const std::string mesh : {"data=2,tensor=2", "pipe=4", "pipe=2,data=2"}) {
    for (const std::string shard : {"none", "states"}) {
      if (shard != "none" && mesh == "pipe=4") continue;
      SmallRun run;
      run.Set("mesh", mesh);
      run.Set("shard", shard);
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

std::string Bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::map<std::string, std::string> ReadFiles(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename()] = Bytes(entry.path());
  }
  return files;
}

// Saves what the runtime holds as if each of `processes` had an equal share of its ranks.
absl::StatusOr<std::string> Save(Runtime& runtime, const std::string& dir, int processes) {
  const proto::Plan& plan = runtime.plan();
  RETURN_IF_ERROR(BeginAttempt(dir, 0));
  std::vector<std::unique_ptr<CheckpointWriter>> writers;
  const int share = runtime.ranks() / processes;
  for (int process = 0; process < processes; ++process) {
    const RankRange ranks = {process * share, (process + 1) * share};
    ASSIGN_OR_RETURN(writers.emplace_back(),
                     CheckpointWriter::Create(dir, plan, {}, {.process = process, .ranks = ranks}));
  }
  RunContext context;
  context.save = [&](const Piece& piece) { return writers[piece.rank / share]->Write(piece); };
  RETURN_IF_ERROR(runtime.Run("save", context, 1));
  std::vector<std::string> parts;
  for (const auto& writer : writers) {
    ASSIGN_OR_RETURN(parts.emplace_back(), writer->Finish());
  }
  return CommitParts(dir, plan, {}, {}, parts);
}

// The ranks for which loading fails.
std::set<int> RanksThatFail(Runtime& runtime, const CheckpointReader& reader) {
  std::mutex mutex;
  std::set<int> failed;
  RunContext context;
  context.load = [&](const Piece& piece) {
    if (!reader.Load(piece).ok()) {
      const std::lock_guard lock(mutex);
      failed.insert(piece.rank);
    }
    return absl::OkStatus();
  };
  REQUIRE(runtime.Run("load", context, 1).ok());
  return failed;
}

TEST_CASE("Checkpoints of plans: any number of processes writes the same bytes") {
  for (const SmallRun& run : Runs()) {
    const proto::Plan plan = CompileSmall(run);
    const auto runtime = *Runtime::Create(plan, {.threads = 1});
    RunContext init;
    REQUIRE(runtime->Run("init", init, 1).ok());
    const TemporaryDirectory dir;
    const auto alone = ReadFiles(*Save(*runtime, dir.path() + "/1", 1));
    CHECK(alone.size() > 4);
    for (const int processes : {2, 4}) {
      const std::string folder =
          *Save(*runtime, dir.path() + "/" + std::to_string(processes), processes);
      INFO(run.Get("mesh") << ", " << processes << " processes");
      CHECK(ReadFiles(folder) == alone);
    }
  }
}

TEST_CASE("Checkpoints of plans: VerifyPieces finds what loading would, on each rank") {
  int found = 0, not_found = 0;
  for (const SmallRun& run : Runs()) {
    const proto::Plan plan = CompileSmall(run);
    const auto runtime = *Runtime::Create(plan, {.threads = 1});
    RunContext init;
    REQUIRE(runtime->Run("init", init, 1).ok());
    const TemporaryDirectory dir;
    const std::string folder = *Save(*runtime, dir.path(), 2);
    const auto intact = *CheckpointReader::Open(folder);
    CHECK(intact->VerifyPieces(plan, {}).ok());
    CHECK(RanksThatFail(*runtime, *intact).empty());
    for (const auto& [name, bytes] : ReadFiles(folder)) {
      if (!name.starts_with("rank-")) continue;
      const fs::path path = fs::path(folder) / name;
      std::string damaged = bytes;
      damaged[bytes.size() / 3] ^= 4;
      std::ofstream(path, std::ios::binary) << damaged;
      const auto reader = *CheckpointReader::Open(folder);
      const std::set<int> failed = RanksThatFail(*runtime, *reader);
      CHECK_FALSE(failed.empty());
      for (int rank = 0; rank < runtime->ranks(); ++rank) {
        const absl::Status status = reader->VerifyPieces(plan, {rank, rank + 1});
        INFO(run.Get("mesh") << ", " << name << ", rank " << rank << ": " << status);
        CHECK(status.ok() == !failed.contains(rank));
        (status.ok() ? not_found : found) += 1;
      }
      std::ofstream(path, std::ios::binary) << bytes;
    }
  }
  CHECK(found > 10);
  CHECK(not_found > 10);
}

}  // namespace
}  // namespace oneflow

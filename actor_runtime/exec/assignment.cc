#include "actor_runtime/exec/assignment.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

// The most streams of a rank that have a worker of their own, over all programs.
int CountAlone(const std::vector<LoadedProgram>& programs, int32_t rank) {
  int64_t most = 0;
  for (const LoadedProgram& program : programs) {
    const std::vector<StreamOrder>& streams = program.net.streams;
    most = std::max<int64_t>(
        most, std::count_if(streams.begin(), streams.end(), [&](const StreamOrder& s) {
          return s.alone && static_cast<int32_t>(s.rank) == rank;
        }));
  }
  return static_cast<int>(most);
}

// A worker that has no stream in a program is named after its stream in the last one that has.
void NameWorkers(const std::vector<LoadedProgram>& programs, WorkerTeam* team) {
  std::vector<std::string> last;
  for (const int32_t rank : team->ranks) {
    last.push_back(rank == WorkerTeam::kHost ? "host" : absl::StrCat("rank ", rank));
  }
  const auto name = [&](size_t program, std::vector<std::string>* names) {
    const std::vector<StreamOrder>& streams = programs[program].net.streams;
    for (size_t s = 0; s < streams.size(); ++s) {
      if (!streams[s].alone) continue;
      (*names)[team->programs[program].worker_of[s]] =
          absl::StrCat("rank ", streams[s].rank, ", ", streams[s].name);
    }
  };
  for (size_t p = 0; p < programs.size(); ++p) name(p, &last);
  for (size_t p = 0; p < programs.size(); ++p) {
    team->programs[p].names = last;
    name(p, &team->programs[p].names);
  }
}

}  // namespace

WorkerTeam AssignWorkers(const std::vector<LoadedProgram>& programs, RankRange own) {
  WorkerTeam team;
  team.own = own;
  for (int32_t rank = own.begin; rank < own.end; ++rank) team.ranks.push_back(rank);
  team.ranks.push_back(WorkerTeam::kHost);
  std::vector<int32_t> first_alone;  // by own rank
  for (int32_t rank = own.begin; rank < own.end; ++rank) {
    first_alone.push_back(team.size());
    team.ranks.insert(team.ranks.end(), CountAlone(programs, rank), rank);
  }
  team.computes.assign(team.size(), false);
  std::fill_n(team.computes.begin(), own.size(), true);
  for (const LoadedProgram& program : programs) {
    Assignment& assignment = team.programs.emplace_back();
    assignment.streams_of.resize(team.size());
    std::vector<int32_t> next_alone = first_alone;
    for (size_t s = 0; s < program.net.streams.size(); ++s) {
      const StreamOrder& stream = program.net.streams[s];
      const auto rank = static_cast<int32_t>(stream.rank);
      int32_t worker = stream.host ? own.size() : team.FindWorker(rank);
      if (stream.alone) {
        worker = next_alone[rank - own.begin]++;
        if (stream.kind == proto::Stream::HOST_COMPUTE) team.computes[worker] = true;
      }
      assignment.streams_of[worker].push_back(static_cast<int32_t>(s));
      assignment.worker_of.push_back(worker);
    }
  }
  NameWorkers(programs, &team);
  return team;
}

}  // namespace oneflow

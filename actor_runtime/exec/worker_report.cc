#include "actor_runtime/exec/worker_report.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/describe_wait.h"

namespace oneflow {
namespace {

std::string Sentence(const ActorNet& net, const Snapshot::Stream& at) {
  const StreamOrder& stream = net.streams[at.stream];
  const std::string head = stream.name + ": ";
  if (at.over) return head + "has done all its steps";
  return head + DescribeWait(net, stream, at.place, at.states);
}

std::vector<std::string> Sentences(const ActorNet& net, const Worker& worker,
                                   const std::optional<Snapshot>& snapshot) {
  if (worker.over()) return {"has done all its steps"};
  if (!snapshot) {
    const int32_t actor = worker.last_actor();
    return {actor < 0 ? "has not begun" : absl::StrCat("inside the kernel of ", net.NameOf(actor))};
  }
  std::vector<std::string> sentences;
  for (const Snapshot::Stream& stream : snapshot->streams) {
    sentences.push_back(Sentence(net, stream));
  }
  return sentences;
}

}  // namespace

std::vector<WorkerReport> AskWorkers(const ActorNet& net,
                                     const std::vector<std::unique_ptr<Worker>>& workers, Bus* bus,
                                     std::chrono::nanoseconds patience) {
  for (const std::unique_ptr<Worker>& worker : workers) worker->desk().Ask();
  bus->WakeAll();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::vector<WorkerReport> reports;
  for (size_t w = 0; w < workers.size(); ++w) {
    Worker& worker = *workers[w];
    const std::optional<Snapshot> snapshot =
        worker.over() ? std::nullopt : worker.desk().Collect(deadline);
    const bool host = w == static_cast<size_t>(net.ranks);
    reports.push_back({host ? "host" : absl::StrCat("rank ", w), worker.firings(),
                       Sentences(net, worker, snapshot)});
  }
  return reports;
}

}  // namespace oneflow

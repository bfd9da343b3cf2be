#include "actor_runtime/exec/worker_report.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "actor_runtime/exec/describe_wait.h"

namespace oneflow {
namespace {

// "actor h.0.fc.all_reduce at rank 0 has entered its exchange, waits for actor ... at rank 1".
std::string EnteredText(const ProgramRun& run, int32_t actor) {
  const ActorNet& net = run.program->net;
  const ExchangeMember& member = net.member_of[actor];
  const NetExchange& exchange = net.exchanges[member.exchange];
  const Communicator& communicator =
      *run.communicators[run.program->communicator_of[exchange.group]];
  std::string text = absl::StrCat(net.NameOf(actor), " has entered its exchange");
  absl::string_view separator = ", waits for ";
  for (int other = 0; other < net.members(exchange); ++other) {
    if (communicator.HasEntered(other, member.index)) continue;
    absl::StrAppend(&text, separator, net.NameOf(exchange, other), ", which has not");
    separator = " and ";
  }
  return text;
}

std::string Sentence(const ProgramRun& run, const Snapshot::Stream& at) {
  const ActorNet& net = run.program->net;
  const StreamOrder& stream = net.streams[at.stream];
  const std::string head = stream.name + ": ";
  if (at.over) return head + "has done all its steps";
  if (at.given >= 0) {
    return absl::StrCat(head, net.NameOf(stream.actors[at.given]), ", firing ",
                        at.states.counts[at.given].completed, ", runs on the device");
  }
  if (at.entered) return head + EnteredText(run, stream.actors[at.place]);
  return head + DescribeWait(net, stream, at.place, at.states);
}

std::vector<std::string> Sentences(const ProgramRun& run, const Worker& worker,
                                   const std::optional<Snapshot>& snapshot) {
  if (worker.over()) return {"has done all its steps"};
  if (!snapshot) {
    const int32_t actor = worker.last_actor();
    return {actor < 0 ? "has not begun"
                      : absl::StrCat("inside the kernel of ", run.program->net.NameOf(actor))};
  }
  std::vector<std::string> sentences;
  for (const Snapshot::Stream& stream : snapshot->streams) {
    sentences.push_back(Sentence(run, stream));
  }
  return sentences;
}

}  // namespace

std::vector<WorkerReport> AskWorkers(const ProgramRun& run,
                                     const std::vector<std::unique_ptr<Worker>>& workers,
                                     absl::FunctionRef<void()> wake,
                                     std::chrono::nanoseconds patience) {
  for (const std::unique_ptr<Worker>& worker : workers) worker->desk().Ask();
  wake();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::vector<WorkerReport> reports;
  for (size_t w = 0; w < workers.size(); ++w) {
    Worker& worker = *workers[w];
    const std::optional<Snapshot> snapshot =
        worker.over() ? std::nullopt : worker.desk().Collect(deadline);
    const RankRange& own = run.program->net.own;
    const bool host = w == static_cast<size_t>(own.size());
    reports.push_back({host ? "host" : absl::StrCat("rank ", own.begin + w), worker.firings(),
                       Sentences(run, worker, snapshot),
                       host && !worker.over() && !snapshot && worker.last_actor() >= 0});
  }
  return reports;
}

}  // namespace oneflow

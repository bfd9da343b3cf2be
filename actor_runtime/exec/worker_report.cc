#include "actor_runtime/exec/worker_report.h"

#include <algorithm>
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
  std::string text = absl::StrCat(net.ActorName(actor), " has entered its exchange");
  absl::string_view separator = ", waits for ";
  for (int other = 0; other < net.members(exchange); ++other) {
    if (communicator.HasEntered(other, member.index)) continue;
    absl::StrAppend(&text, separator, net.ActorName(exchange, other), ", which has not");
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
    return absl::StrCat(head, net.ActorName(stream.actors[at.given]), ", firing ",
                        at.states.counts[at.given].completed, ", runs on the device");
  }
  if (at.entered) return head + EnteredText(run, stream.actors[at.index]);
  return head + DescribeWait(net, stream, at.index, at.states);
}

// Adds the workers that the stream waits for, by their ranks: another worker of the same rank, too.
void AddWaits(const ProgramRun& run, const Snapshot::Stream& at, WorkerReport* report) {
  const ActorNet& net = run.program->net;
  const StreamOrder& stream = net.streams[at.stream];
  const auto add = [report](int32_t rank) {
    std::vector<int32_t>& ranks = report->waits_for;
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
  };
  if (at.over) return;
  if (at.given >= 0) {
    report->inside = net.names[net.specs[stream.actors[at.given]].actor];
    return;
  }
  if (at.entered) {
    const ExchangeMember& member = net.member_of[stream.actors[at.index]];
    const NetExchange& exchange = net.exchanges[member.exchange];
    const std::vector<int32_t>& ranks = net.groups[exchange.group].ranks;
    const Communicator& communicator =
        *run.communicators[run.program->communicator_of[exchange.group]];
    WorkerReport::Entered& entered = report->entered.emplace_back();
    entered.exchange =
        absl::StrCat(net.ActorName(exchange, 0), ", firing ", at.states.counts[at.index].completed);
    for (int other = 0; other < net.members(exchange); ++other) {
      if (communicator.HasEntered(other, member.index)) continue;
      entered.missing.push_back(ranks[other]);
      add(ranks[other]);
    }
    for (const int32_t rank : ranks) {
      if (!net.own.Contains(rank)) entered.far.push_back(rank);
    }
    if (entered.missing.empty()) {  // Pieces are on their way.
      for (const int32_t rank : entered.far) add(rank);
    }
    return;
  }
  if (CanFire(at.states, at.index)) {
    report->may_go_on = true;
    return;
  }
  for (const FiringWait& wait : FindWaits(stream.table, at.states, at.index)) {
    const ActorPeer& peer = stream.table.far_ends[wait.peer];
    const int32_t actor = net.Find(static_cast<int32_t>(stream.rank), peer.actor);
    const int32_t worker = run.assignment->worker_of[net.stream_of[actor]];
    if (worker != run.assignment->worker_of[at.stream]) add(run.team->ranks[worker]);
  }
}

std::vector<std::string> Sentences(const ProgramRun& run, const Worker& worker,
                                   const std::optional<Snapshot>& snapshot) {
  if (worker.over()) return {"has done all its steps"};
  if (!snapshot) {
    const int32_t actor = worker.last_actor();
    return {actor < 0 ? "has not begun"
                      : absl::StrCat("inside the kernel of ", run.program->net.ActorName(actor))};
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
    WorkerReport& report = reports.emplace_back();
    report.worker = run.assignment->names[w];
    report.rank = run.team->ranks[w];
    report.firings = worker.firings();
    report.streams = Sentences(run, worker, snapshot);
    if (snapshot) {
      for (const Snapshot::Stream& stream : snapshot->streams) AddWaits(run, stream, &report);
    } else if (!worker.over() && worker.last_actor() >= 0) {
      report.inside = run.program->net.names[run.program->net.specs[worker.last_actor()].actor];
      report.in_host_kernel = !run.team->IsOfDevice(static_cast<int>(w));
    }
  }
  return reports;
}

}  // namespace oneflow

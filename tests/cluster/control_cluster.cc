#include "tests/cluster/control_cluster.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace oneflow::cluster {
namespace {

constexpr JobTime kSilence = 5 * kJobSecond;
// From the end of a program to that of its process, whose coordinator goes with it.
constexpr JobTime kExit = kJobSecond / 10;

}  // namespace

ControlCluster::ControlCluster(ControlClusterOptions options)
    : options_(std::move(options)),
      simulation_(options_.seed),
      network_{.simulation = simulation_,
               .links = links_,
               .faults = options_.faults,
               .least = 0,
               .most = options_.most_delay + 1} {}

int ControlCluster::StartAttempt(int64_t attempt) {
  const int first = static_cast<int>(nodes_.size());
  for (int p = 0; p < options_.processes; ++p) {
    StartNode(attempt, p, now() + Draw(options_.start_spread));
  }
  return first;
}

int ControlCluster::StartNode(int64_t attempt, int process, JobTime at) {
  Node& node = nodes_.emplace_back(simulation_, process, attempt);
  node.life.After(at - now(), [this, &node] { Start(node); });
  return static_cast<int>(nodes_.size()) - 1;
}

void ControlCluster::Start(Node& node) {
  MemberStateOptions options;
  options.self = {.process = node.process,
                  .processes = options_.processes,
                  .attempt = node.attempt,
                  .host = absl::StrCat("h", node.process / 2),
                  .token = "secret",
                  .facts = {{"plan", "41ad"}}};
  options.coordinator = "c:1";
  node.control.emplace(
      network_, node.life, options, kSilence,
      ControlMember::Callbacks{
          .on_end = [&node](const absl::Status& why) { node.ends.push_back(why); },
          .freeze =
              [&node] {
                node.frozen = true;
                return node.position;
              },
          .stop_at =
              [this, &node](const StepPosition& end) {
                node.end = end;
                node.until = std::min(node.until, end.steps);
                StepIn(node, 0);
              },
          .on_report = [&node](uint64_t, int64_t, std::span<const double>) { ++node.reports; },
          .changed = [this, &node] { node.life.After(0, [this, &node] { Look(node); }); }});
  node.control->Start();
}

// What the program does when something has changed.
void ControlCluster::Look(Node& node) {
  ControlMember& control = *node.control;
  if (control.joined() && !std::exchange(node.began, true)) {
    node.until = options_.steps;
    control.Begins(0, "train", 0, options_.steps);
    StepIn(node, Draw(options_.step));
  }
  if (control.TakeParts()) control.AnswerRound("done");
  if (control.TakeAnswer()) control.Leave();
  if (!control.over() || node.ended >= 0) return;
  node.ended = now();
  node.left = control.status().ok();
  if (!control.joined()) node.ends.push_back(control.status());
  node.life.After(kExit, [this, &node] {
    node.life.Die();
    node.control->Disappear();
  });
}

void ControlCluster::StepIn(Node& node, JobTime delay) {
  node.life.After(delay, [this, &node] { Step(node); });
}

// A step begins unless it is frozen; after the last comes a round, then the program leaves.
void ControlCluster::Step(Node& node) {
  if (node.control->over() || node.in_round) return;
  if (node.control->MayWrite()) node.wrote = now();
  if (node.frozen && !node.end) return;  // stop_at goes on
  if (node.position.steps >= node.until) {
    node.in_round = true;
    return node.control->StartRound("outcome", absl::StrCat(node.position.steps));
  }
  ++node.position.steps;
  if (options_.all_report || node.process == 0) {
    const double loss = 1.0 / static_cast<double>(node.position.steps);
    node.control->Report(0, node.position.steps, {&loss, 1});
  }
  StepIn(node, options_.step / 2 + Draw(options_.step));
}

void ControlCluster::At(JobTime time, std::function<void()> what) {
  simulation_.After(time - now(), std::move(what));
}

void ControlCluster::RunUntil(JobTime time) {
  RunUntilDone(time, [] { return false; });
}

bool ControlCluster::RunUntilDone(JobTime limit, const std::function<bool()>& done) {
  const auto over = std::make_shared<bool>(false);
  At(limit, [over] { *over = true; });
  while (!done()) {
    if (*over) return false;
    simulation_.RunNext();
    ++events_;
  }
  return true;
}

void ControlCluster::Kill(int index) {
  Node& node = nodes_[index];
  if (!node.life.alive()) return;
  node.life.Die();
  if (node.control) node.control->Disappear();
}

void ControlCluster::Disconnect(int index) {
  const int host = nodes_[index].process;
  for (int other = 0; other < options_.processes; ++other) {
    if (other != host) links_.Cut(host, other);
  }
}

void ControlCluster::Reconnect(int index) {
  const int host = nodes_[index].process;
  for (int other = 0; other < options_.processes; ++other) links_.Restore(host, other);
}

}  // namespace oneflow::cluster

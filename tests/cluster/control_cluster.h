// ControlCluster: a simulated cluster of which only the control plane is played: ControlMembers on
// hosts of their own, and in each process a small program that takes steps, reports, writes and
// stops. Processes are killed, stopped and continued, and links are disconnected. The same seed
// gives the same run.
//
//   ControlCluster cluster({.processes = 4, .seed = 7});
//   cluster.StartAttempt(0);
//   cluster.At(3 * kJobSecond, [&] { cluster.Kill(2); });
//   cluster.RunUntil(20 * kJobSecond);
//   for (const ControlCluster::Node& node : cluster.nodes()) ...
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/cluster/control.h"

namespace oneflow::cluster {

struct ControlClusterOptions {
  int processes = 4;
  uint64_t seed = 0;
  JobTime most_delay = kJobSecond / 100;  // of a message
  JobTime start_spread = kJobSecond;      // between the first process and the last
  JobTime step = kJobSecond / 10;
  int64_t steps = 100;
  bool all_report = false;  // each step of each process; else process 0's alone
  Faults faults;
};

class ControlCluster {
 public:
  // A process of one attempt. Nodes are never removed.
  struct Node {
    Node(Simulation& simulation, int process, int64_t attempt)
        : process(process), attempt(attempt), life(simulation, process) {}

    int process;
    int64_t attempt;
    Life life;
    std::optional<ControlMember> control;  // since its start
    // The knowledge and the progress of its program.
    bool began = false, left = false, frozen = false, in_round = false;
    StepPosition position;
    int64_t until = 0;                // steps of the run in progress
    std::optional<StepPosition> end;  // agreed
    std::vector<absl::Status> ends;
    JobTime ended = -1, wrote = -1;  // the last write
    int64_t reports = 0;             // process 0: heard
  };

  explicit ControlCluster(ControlClusterOptions options);

  // Starts the processes of an attempt, within start_spread. Returns the index of its first node.
  int StartAttempt(int64_t attempt);
  // Starts another process, perhaps of another attempt.
  int StartNode(int64_t attempt, int process, JobTime at);
  void At(JobTime time, std::function<void()> what);
  void RunUntil(JobTime time);
  // Runs until `done`, or until `limit`. Returns true if done.
  bool RunUntilDone(JobTime limit, const std::function<bool()>& done);

  void Kill(int node);
  void Stop(int node) { nodes_[node].life.Stop(); }
  void Continue(int node) { nodes_[node].life.Continue(); }
  void Disconnect(int node);  // its host from all others: messages wait
  void Reconnect(int node);
  void AskStop(int node) { nodes_[node].control->AskStop(); }
  void Fail(int node, const absl::Status& why) { nodes_[node].control->Fail(why); }

  JobTime now() const { return simulation_.now(); }
  const std::string& violation() const { return simulation_.violation(); }
  Node& node(int index) { return nodes_[index]; }
  std::deque<Node>& nodes() { return nodes_; }
  JobTime Draw(JobTime most) { return static_cast<JobTime>(simulation_.Below(most + 1)); }
  int64_t events() const { return events_; }

 private:
  void Start(Node& node);
  void Look(Node& node);
  void Step(Node& node);
  void StepIn(Node& node, JobTime delay);

  const ControlClusterOptions options_;
  Simulation simulation_;
  Links links_;
  ControlNetwork network_;
  std::deque<Node> nodes_;
  int64_t events_ = 0;
};

}  // namespace oneflow::cluster

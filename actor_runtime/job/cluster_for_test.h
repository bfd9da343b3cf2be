// JobCluster: a simulated cluster without hosts and without real time: the state machines of the
// coordinator and of all processes, joined by streams whose messages take drawn times, and a small
// program in each process that takes steps, reports, writes and stops. Processes are killed,
// stopped and continued, and links are disconnected. The same seed gives the same run.
//
//   JobCluster cluster({.processes = 4, .seed = 7});
//   cluster.StartAttempt(0);
//   cluster.At(3 * kJobSecond, [&] { cluster.Kill(2); });
//   cluster.RunUntil(20 * kJobSecond);
//   for (const JobCluster::Node& node : cluster.nodes()) ...
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "actor_runtime/job/coordinator.h"
#include "actor_runtime/job/member_state.h"

namespace oneflow {

struct JobClusterOptions {
  int processes = 4;
  uint64_t seed = 0;
  JobTime most_delay = kJobSecond / 100;  // of a message
  JobTime start_spread = kJobSecond;      // between the first process and the last
  JobTime step = kJobSecond / 10;
  int64_t steps = 100;
  JobTime silence = 5 * kJobSecond, join = 60 * kJobSecond;
  bool all_report = false;  // each step of each process; else process 0's alone
  JobPolicy policy;
};

class JobCluster {
 public:
  // A process of one attempt. Nodes are never removed.
  struct Node {
    int process = 0;
    int64_t attempt = 0;
    std::unique_ptr<MemberState> member;
    std::unique_ptr<Coordinator> coordinator;  // process 0
    bool alive = true, stopped = false, disconnected = false;
    JobTime clock = 0;  // its clock minus the cluster's
    // The knowledge and the progress of its program.
    bool joined = false, left = false, frozen = false;
    StepPosition position;
    int64_t until = 0;                // steps of the run in progress
    std::optional<StepPosition> end;  // agreed
    std::vector<absl::Status> ends;
    JobTime ended = -1, wrote = -1;  // the last write
    int64_t reports = 0;             // process 0: heard
    int actions_after_end = 0;
  };

  explicit JobCluster(JobClusterOptions options);

  // Starts the processes of an attempt, within start_spread; its process 0 listens from now on.
  // Returns the index of its first node.
  int StartAttempt(int64_t attempt);
  // Starts another process, perhaps of another attempt.
  int StartNode(int64_t attempt, int process, JobTime at);
  void At(JobTime time, std::function<void()> what);
  void RunUntil(JobTime time);
  // Runs until `done`, or until no event is left, or until `limit`. Returns true if done.
  bool RunUntilDone(JobTime limit, const std::function<bool()>& done);

  void Kill(int node);
  void Stop(int node);
  void Continue(int node);
  void Disconnect(int node);  // its link to other hosts: its messages wait
  void Reconnect(int node);
  void AskStop(int node);
  void Fail(int node, const absl::Status& why);

  JobTime now() const { return now_; }
  Node& node(int index) { return nodes_[index]; }
  std::deque<Node>& nodes() { return nodes_; }
  JobTime Draw(JobTime most) { return static_cast<JobTime>(random_() % (most + 1)); }
  int64_t events() const { return events_; }

 private:
  struct Stream {
    int member = 0, coordinator = 0;  // nodes
    uint64_t number = 0;              // the member's
    JobTime last_up = 0, last_down = 0;
    std::deque<uint32_t> held;  // events that wait for a disconnected link
  };
  enum class Kind { kStart, kTick, kStep, kUp, kDown, kBreakUp, kBreakDown, kCall };
  struct Event {
    JobTime time = 0;
    Kind kind = Kind::kCall;
    int node = -1;    // at which it happens
    int stream = -1;  // -1 with kUp, kDown: within process 0
    proto::JobFromMember up;
    proto::JobToMember down;
    std::function<void()> call;
  };
  void Push(Event event);
  void Enqueue(uint32_t slot, JobTime time);
  void Happen(Event& event);
  JobTime Arrival(JobTime* last);
  void Do(int node, const MemberAction& action);
  void DoCoordinator(int node, CoordinatorAction action);
  auto MakeEmit(int node) {
    return [this, node](MemberAction action) { Do(node, action); };
  }
  auto EmitCoordinator(int node) {
    return [this, node](CoordinatorAction action) { DoCoordinator(node, std::move(action)); };
  }
  JobTime Clock(const Node& node) const { return now_ + node.clock; }
  void Connect(int node, uint64_t number);
  void Step(int node);
  void ScheduleStep(int node, JobTime in);

  const JobClusterOptions options_;
  std::mt19937_64 random_;
  JobTime now_ = 0;
  int64_t events_ = 0;
  uint64_t sequence_ = 0;
  std::deque<Node> nodes_;
  std::deque<std::deque<uint32_t>> deferred_;  // by node: events that wait while it is stopped
  std::vector<Stream> streams_;                // a connection's number is its index, plus one
  std::vector<int> stream_of_;                 // by node: the newest; -1
  std::deque<std::vector<int>> streams_at_;    // by node, for both ends
  int listening_ = -1;
  std::vector<Event> slots_;
  std::vector<uint32_t> free_;
  struct Entry {
    JobTime time;
    uint64_t sequence;
    uint32_t slot;
    bool operator>(const Entry& other) const {
      return time != other.time ? time > other.time : sequence > other.sequence;
    }
  };
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace oneflow

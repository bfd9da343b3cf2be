// The simulated control network: streams between members and the coordinator, in order in each
// direction, and what gRPC's adapters do with the machines (training/job/member.h), for one
// process: ControlMember.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/cluster/faults.h"
#include "tests/cluster/host.h"
#include "training/job/coordinator.h"
#include "training/job/member_state.h"

namespace oneflow::cluster {

class ControlMember;

// Shared by all processes: the process at the coordinator's address, and the delays of messages.
struct ControlNetwork {
  Simulation& simulation;
  const Links& links;
  Faults faults = {};
  JobTime least = 100 * kMicrosecond, most = 5 * kMillisecond;
  JobTime slower = 0;  // takes so much longer
  ControlMember* listening = nullptr;

  JobTime DrawDelay() { return slower + simulation.Between(least, most); }
};

// One stream: what is sent at one end arrives at the other in order, while that one lives.
class ControlStream : public std::enable_shared_from_this<ControlStream> {
 public:
  ControlStream(ControlNetwork& network, Life& member, Life& coordinator)
      : network_(network), ends_{{&member, &coordinator}, {&coordinator, &member}} {}
  enum Direction { kUp, kDown };  // to the coordinator, to the member
  void Send(Direction direction, std::function<void()> arrive);

 private:
  struct Way {
    Life* from;
    Life* to;
    JobTime last = 0;
    std::deque<std::function<void()>> queue = {};
  };
  void Pump(Direction direction);

  ControlNetwork& network_;
  Way ends_[2];
};

// A process of a job, and in process 0 the coordinator, too: what Member and JobServer are in
// programs, with the same callbacks.
class ControlMember {
 public:
  struct Callbacks {
    std::function<void(const absl::Status& why)> on_end;
    std::function<StepPosition()> freeze;
    std::function<void(const StepPosition& end)> stop_at;
    std::function<void(uint64_t run, int64_t step, std::span<const double> values)> on_report;
    std::function<void()> changed;  // something that the process may wait for
  };
  ControlMember(ControlNetwork& network, Life& life, MemberStateOptions options, JobTime silence,
                Callbacks callbacks);
  ~ControlMember();

  void Start();
  // The process is gone: its streams break.
  void Disappear();

  bool joined() const { return joined_; }
  bool over() const { return over_; }
  const absl::Status& status() const { return state_.status(); }
  bool MayWrite() const;

  void Begins(uint64_t run, std::string_view program, int64_t first_step, int64_t steps);
  void AskStop();
  void Report(uint64_t run, int64_t step, std::span<const double> values);
  void Fail(const absl::Status& why);
  void Leave();
  void StartRound(const std::string& name, std::string part);
  // The results of the round that was started: parts to merge (process 0), or the answer; none: not
  // yet.
  std::optional<std::vector<std::string>> TakeParts();
  std::optional<absl::StatusOr<std::string>> TakeAnswer();
  void AnswerRound(const absl::StatusOr<std::string>& answer);

 private:
  JobTime Now() const { return life_.simulation().now() + clock_; }
  JobTime DrawDelay();
  template <typename Event>
  void Do(Event event);
  template <typename Event>
  void DoAtCoordinator(Event event);
  void Perform(MemberAction action);
  void Perform(CoordinatorAction action);
  void Connect(uint64_t number);
  void Later(std::function<void()> callback);
  void Tick();
  struct Connection {
    std::shared_ptr<ControlStream> stream;
    ControlMember* member = nullptr;
    uint64_t number = 0;    // of the member's streams
    bool reported = false;  // to the coordinator: that it is closed
  };
  void CloseAt(uint64_t connection);

  ControlNetwork& network_;
  Life& life_;
  const int process_;
  const int64_t attempt_;
  const JobTime silence_;
  const Callbacks callbacks_;
  const JobTime clock_;  // minus that of the simulation
  MemberState state_;
  std::deque<MemberAction> actions_;
  bool performing_ = false, joined_ = false, over_ = false, gone_ = false;
  std::optional<absl::StatusOr<std::string>> answer_;
  std::optional<std::vector<std::string>> parts_;
  uint64_t round_ = 0;

  // The last stream: at whose coordinator, and its number there.
  std::shared_ptr<ControlStream> stream_;
  ControlMember* server_ = nullptr;
  uint64_t connection_ = 0;
  JobTime callback_at_ = 0;

  std::optional<Coordinator> coordinator_;
  std::deque<CoordinatorAction> coordinator_actions_;
  bool coordinating_ = false;
  std::vector<Connection> connections_;  // by number; 0 is process 0's own
};

}  // namespace oneflow::cluster

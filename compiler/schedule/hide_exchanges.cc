#include "compiler/schedule/hide_exchanges.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/schedule/delay_sums.h"

namespace oneflow {
namespace {

// A kernel is put off until so many others that came after it have been.
constexpr int kPutOff = 3;
// A kernel that is shorter than this part of an exchange, on average, is not worth its bytes.
constexpr double kWorth = 0.25;

// The backward of one chunk of a stage: its compute, and the exchanges that compute waits for, each
// stream in its order.
class Backward {
 public:
  // `awaited`: by actor, whether the backward, of any stage, reads what it writes.
  Backward(const std::vector<double>& seconds, const proto::Program& program,
           const std::vector<bool>& awaited, const proto::Segment& compute,
           const proto::Segment& exchanges)
      : seconds_(seconds),
        program_(program),
        exchanges_(exchanges),
        compute_(compute.actor().begin(), compute.actor().end()) {
    double exchanging = 0;
    for (const int actor : exchanges.actor()) {
      AddOutputs(actor);
      exchanging += seconds_[actor];
    }
    const double least = kWorth * exchanging / std::max(1, exchanges.actor_size());
    for (const int actor : compute_) {
      AddOutputs(actor);
      if (!awaited[actor] && seconds_[actor] >= least) free_.insert(actor);
    }
  }

  // The order of compute. Only a play shows if a delayed kernel hides an exchange; those that
  // do not stay where they were, and then others may not hide any, either.
  std::vector<int> Order() {
    std::vector<int> order = Play();
    while (hiding_ != free_) {
      free_ = hiding_;
      order = Play();
    }
    return order;
  }

 private:
  void AddOutputs(int actor) {
    for (const int output : program_.actor(actor).output()) writer_[output] = actor;
  }

  // Compute in its order by the clock, the free ones put off until it would wait.
  std::vector<int> Play() {
    order_.clear(), ends_.clear(), hiding_.clear(), put_off_.clear();
    now_ = 0, link_ = 0, next_exchange_ = 0;
    int number = 0;
    for (const int actor : compute_) {
      if (free_.contains(actor)) {
        put_off_.push_back({actor, ++number});
        if (put_off_.front().number + kPutOff < number) RunPutOff(put_off_.begin());
        continue;
      }
      for (auto filler = TakeFiller(ReadyAt(actor)); filler != put_off_.end();
           filler = TakeFiller(ReadyAt(actor))) {
        hiding_.insert(filler->actor);
        RunPutOff(filler);
      }
      Run(actor);
    }
    while (!put_off_.empty()) RunPutOff(put_off_.begin());
    return order_;
  }

  struct Kernel {
    int actor = 0, number = 0;
  };
  using PutOff = std::vector<Kernel>::iterator;

  // The kernel that best fills the time until then: the longest that can run now, and of which at
  // least half would hide something. Among equals it is the last: it has been delayed for the
  // shortest.
  PutOff TakeFiller(double until) {
    PutOff best = put_off_.end();
    for (PutOff it = put_off_.begin(); it != put_off_.end(); ++it) {
      const double seconds = seconds_[it->actor];
      if (ReadyAt(it->actor) > now_ || seconds > 2 * (until - now_)) continue;
      if (best == put_off_.end() || seconds >= seconds_[best->actor]) best = it;
    }
    return best;
  }

  void RunPutOff(PutOff it) {
    const int actor = it->actor;
    put_off_.erase(it);
    Run(actor);
  }

  void Run(int actor) {
    now_ = std::max(now_, ReadyAt(actor)) + seconds_[actor];
    ends_[actor] = now_;
    order_.push_back(actor);
    for (; next_exchange_ < exchanges_.actor_size(); ++next_exchange_) {
      const int exchange = exchanges_.actor(next_exchange_);
      if (!HasInputs(exchange)) break;
      link_ = std::max(link_, ReadyAt(exchange)) + seconds_[exchange];
      ends_[exchange] = link_;
    }
  }

  bool HasInputs(int actor) const {
    return std::all_of(program_.actor(actor).input().begin(), program_.actor(actor).input().end(),
                       [&](const proto::Input& input) {
                         const auto writer = writer_.find(input.register_());
                         return writer == writer_.end() || ends_.contains(writer->second);
                       });
  }

  // When what it reads of this backward is there.
  double ReadyAt(int actor) const {
    double ready = 0;
    for (const proto::Input& input : program_.actor(actor).input()) {
      const auto writer = writer_.find(input.register_());
      if (writer == writer_.end()) continue;
      const auto end = ends_.find(writer->second);
      if (end != ends_.end()) ready = std::max(ready, end->second);
    }
    return ready;
  }

  const std::vector<double>& seconds_;
  const proto::Program& program_;
  const proto::Segment& exchanges_;
  const std::vector<int> compute_;
  std::map<int, int> writer_;  // by register: actor of this backward
  std::set<int> free_, hiding_;

  // State of a play.
  std::vector<Kernel> put_off_;
  std::vector<int> order_;
  std::map<int, double> ends_;  // by actor
  double now_ = 0, link_ = 0;
  int next_exchange_ = 0;
};

// The segment of compute, or of the exchanges that it waits for, of each backward.
using StageChunk = std::pair<int, int>;  // stage, chunk
std::map<StageChunk, int> BackwardsOn(Lane lane, const Lowered& lowered) {
  std::map<StageChunk, int> found;
  for (const proto::Segment& segment : lowered.program.segment()) {
    const SegmentInfo& info = lowered.segments[segment.id()];
    if (info.lane != lane || info.task.part != Part::kBackward) continue;
    found[{segment.stage(), info.task.chunk}] = segment.id();
  }
  return found;
}

// By actor: whether anyone reads what it writes before the update. A reduction of gradients does
// not count: nothing but a sum waits for it.
std::vector<bool> Awaited(const Lowered& lowered) {
  const proto::Program& program = lowered.program;
  std::vector<bool> late(program.actor_size(), false);
  for (const proto::Segment& segment : program.segment()) {
    const SegmentInfo& info = lowered.segments[segment.id()];
    if (info.task.part != Part::kUpdate && info.lane != Lane::kReduction) continue;
    for (const int actor : segment.actor()) late[actor] = true;
  }
  std::set<int> read;  // registers
  for (const proto::Actor& actor : program.actor()) {
    if (late[actor.id()]) continue;
    for (const proto::Input& input : actor.input()) read.insert(input.register_());
  }
  const std::vector<int> gradients = FindReducedGradients(lowered);
  std::vector<bool> awaited;
  for (const proto::Actor& actor : program.actor()) {
    // Sums of what is reduced keep the order of the reductions.
    awaited.push_back(gradients[actor.id()] >= 0 ||
                      std::any_of(actor.output().begin(), actor.output().end(),
                                  [&](int output) { return read.contains(output); }));
  }
  return awaited;
}

}  // namespace

void HideExchanges(const std::vector<double>& seconds, Lowered* lowered) {
  proto::Program& program = lowered->program;
  const std::vector<bool> awaited = Awaited(*lowered);
  const std::map<StageChunk, int> exchanges = BackwardsOn(Lane::kCollective, *lowered);
  for (const auto& [stage_chunk, id] : BackwardsOn(Lane::kCompute, *lowered)) {
    const auto found = exchanges.find(stage_chunk);
    if (found == exchanges.end()) continue;
    proto::Segment* compute = program.mutable_segment(id);
    const std::vector<int> order =
        Backward(seconds, program, awaited, *compute, program.segment(found->second)).Order();
    compute->clear_actor();
    for (const int actor : order) compute->add_actor(actor);
  }
}

}  // namespace oneflow

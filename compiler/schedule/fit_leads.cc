#include "compiler/schedule/fit_leads.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "glog/logging.h"

namespace oneflow {
namespace {

constexpr int64_t kMostTasks = int64_t{1} << 24;  // played by one search
constexpr double kShorter = 1 - 1e-6;             // by so much, at least
constexpr int kMostQuarters = 20;                 // of a W for each place down the pipe

TaskSeconds Mean(const PipeSeconds& seconds) {
  TaskSeconds mean{0, 0, 0};
  for (const TaskSeconds& stage : seconds.stages) {
    mean.forward += stage.forward;
    mean.backward += stage.backward;
    mean.weights += stage.weights;
  }
  const auto stages = static_cast<double>(seconds.stages.size());
  return {mean.forward / stages, mean.backward / stages, mean.weights / stages};
}

class Search {
 public:
  Search(const Pipe& pipe, int64_t extra)
      : all_(pipe),
        few_(pipe),
        stages_(static_cast<int>(pipe.seconds.stages.size())),
        extra_(extra) {
    few_.micro_batches = std::min(pipe.micro_batches, 3 * (stages_ + extra));
    fewer_ = few_;
    fewer_.micro_batches -= std::min<int64_t>(stages_, few_.micro_batches - 1);
  }

  std::vector<Lead> Run() {
    // Of those that take as long, the first: the one that holds least.
    const int64_t useful = std::min<int64_t>(extra_, stages_ - 1);
    for (const int64_t e : {int64_t{0}, useful, extra_, useful / 2, useful / 4}) {
      Try(EqualLeads(few_, e));
    }
    TryAlike();
    Descend();
    // What was played was fewer micro-batches.
    const std::vector<Lead> equal = EqualLeads(all_, extra_);
    return StepSeconds(all_, best_) <= StepSeconds(all_, equal) ? best_ : equal;
  }

 private:
  // A stage s places down the pipe ends so much earlier than the first that it has time for s times
  // some W; as many forwards go first as fit into the way down and up.
  void TryAlike() {
    const auto [forward, backward, weights] = Mean(few_.seconds);
    double link = 0;
    for (const double one : few_.seconds.links) link = std::max(link, one);
    const double a_stage = forward > 0 ? (backward + 2 * link) / forward : 0;
    for (int quarters = 0; quarters <= kMostQuarters; ++quarters) {
      std::vector<Lead> leads;
      for (int s = 0; s < stages_; ++s) {
        const int way = stages_ - 1 - s;
        const auto ahead = static_cast<int64_t>(std::ceil(std::min(way * a_stage, 1e9) - 1e-9));
        leads.push_back(Allowed({way + 1 + std::min(extra_, ahead), (quarters * s + 2) / 4}, s));
      }
      Try(leads);
    }
  }

  void Descend() {
    constexpr Lead kMoves[] = {{0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, -1}, {-1, 1}, {0, 2}, {0, -2}};
    for (bool found = true; found && tasks_ <= kMostTasks;) {
      found = false;
      for (int s = 0; s < stages_; ++s) {
        for (const Lead& move : kMoves) {
          const Lead lead{best_[s].forwards + move.forwards, best_[s].backwards + move.backwards};
          if (lead.forwards < 1 || lead.backwards < 0 || !(Allowed(lead, s) == lead)) continue;
          if (tasks_ > kMostTasks) return;
          std::vector<Lead> leads = best_;
          leads[s] = lead;
          found = Try(leads) || found;
        }
      }
    }
  }

  // As much of a lead as the stage's bytes and the micro-batches allow.
  Lead Allowed(const Lead& lead, int s) const {
    const double kept = few_.kept_for_weights.empty() ? 1 : few_.kept_for_weights[s];
    const int64_t most = std::min(few_.micro_batches, stages_ + extra_);
    const int64_t forwards = std::min(lead.forwards, most);
    const auto room = static_cast<double>(stages_ + extra_ - forwards) / kept;
    return {forwards, std::min({lead.backwards, few_.micro_batches - forwards,
                                static_cast<int64_t>(std::min(room + 1e-9, 1e9))})};
  }

  // Whether these are the best so far.
  bool Try(const std::vector<Lead>& leads) {
    double taken = Play(few_, leads);
    if (const int64_t more = all_.micro_batches - few_.micro_batches; more > 0) {
      const auto between = static_cast<double>(few_.micro_batches - fewer_.micro_batches);
      taken += (taken - Play(fewer_, leads)) / between * static_cast<double>(more);
    }
    if (!best_.empty() && !(taken < shortest_ * kShorter)) return false;
    shortest_ = taken;
    best_ = leads;
    return true;
  }

  double Play(const Pipe& pipe, const std::vector<Lead>& leads) {
    tasks_ += 3 * pipe.micro_batches * stages_;
    return StepSeconds(pipe, leads);
  }

  // Invariant: few_ and fewer_ are all_ with as many micro-batches as show how a step grows.
  const Pipe& all_;
  Pipe few_, fewer_;
  const int stages_;
  const int64_t extra_;
  int64_t tasks_ = 0;
  double shortest_ = std::numeric_limits<double>::infinity();
  std::vector<Lead> best_;
};

}  // namespace

std::vector<Lead> EqualLeads(const Pipe& pipe, int64_t extra) {
  const int stages = static_cast<int>(pipe.seconds.stages.size());
  std::vector<Lead> leads;
  leads.reserve(stages);
  for (int s = 0; s < stages; ++s) {
    leads.push_back(EqualLead({stages, s, pipe.micro_batches, 1, extra}));
  }
  return leads;
}

double StepSeconds(const Pipe& pipe, const std::vector<Lead>& leads) {
  const int stages = static_cast<int>(leads.size());
  std::vector<StageOrder> orders;
  for (int s = 0; s < stages; ++s) {
    PipelineShape shape{stages, s, pipe.micro_batches};
    shape.lead = leads[s];
    orders.push_back(ZeroBubbleOrder(shape));
  }
  const auto played = PlayOrders(orders, /*chunks=*/1, pipe.seconds);
  if (!played.ok()) return std::numeric_limits<double>::infinity();
  double longest = 0;
  for (const PlayedStep& stage : played->front()) {
    longest = std::max(longest, stage.end - (pipe.overlap ? stage.begin : 0));
  }
  return longest;
}

std::vector<Lead> FitLeads(const Pipe& pipe, int64_t extra) {
  CHECK(!pipe.seconds.stages.empty());
  return Search(pipe, extra).Run();
}

}  // namespace oneflow

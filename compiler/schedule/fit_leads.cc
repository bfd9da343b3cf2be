#include "compiler/schedule/fit_leads.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "glog/logging.h"

namespace oneflow {
namespace {

constexpr int64_t kMostTasks = int64_t{1} << 25;  // played by one search
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
      : pipe_(pipe), stages_(static_cast<int>(pipe.seconds.stages.size())), extra_(extra) {
    pipe_.micro_batches = std::min(pipe.micro_batches, 3 * (stages_ + extra));
  }

  std::vector<Lead> Run() {
    for (int64_t e = 0; e <= std::min<int64_t>(extra_, stages_ - 1); ++e) Try(EqualLeads(pipe_, e));
    TryAlike();
    Descend();
    return best_;
  }

 private:
  // A stage s places down the pipe ends so much earlier than the first that it has time for s times
  // some W; as many forwards go first as fit into the way down and up.
  void TryAlike() {
    const auto [forward, backward, weights] = Mean(pipe_.seconds);
    const double a_stage = forward > 0 ? (backward + 2 * pipe_.seconds.transfer) / forward : 0;
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
    for (bool found = true; found;) {
      found = false;
      for (int s = 0; s < stages_; ++s) {
        for (const Lead& move : kMoves) {
          const Lead lead{best_[s].forwards + move.forwards, best_[s].backwards + move.backwards};
          if (lead.forwards < 1 || lead.backwards < 0 || !(Allowed(lead, s) == lead)) continue;
          std::vector<Lead> leads = best_;
          leads[s] = lead;
          found = Try(leads) || found;
        }
      }
    }
  }

  // As much of a lead as the stage's bytes and the micro-batches allow.
  Lead Allowed(const Lead& lead, int s) const {
    const double kept = pipe_.kept_for_weights.empty() ? 1 : pipe_.kept_for_weights[s];
    const int64_t most = std::min(pipe_.micro_batches, stages_ + extra_);
    const int64_t forwards = std::min(lead.forwards, most);
    const auto room = static_cast<double>(stages_ + extra_ - forwards) / kept;
    return {forwards, std::min({lead.backwards, pipe_.micro_batches - forwards,
                                static_cast<int64_t>(std::min(room + 1e-9, 1e9))})};
  }

  // Whether these are the best so far.
  bool Try(const std::vector<Lead>& leads) {
    if (tasks_ > kMostTasks) return false;
    tasks_ += 3 * pipe_.micro_batches * stages_;
    const double taken = StepSeconds(pipe_, leads);
    if (!best_.empty() && taken >= shortest_ * kShorter) return false;
    shortest_ = taken;
    best_ = leads;
    return true;
  }

  Pipe pipe_;
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

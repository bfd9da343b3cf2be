#include "compiler/passes/sbp_search.h"

#include <deque>
#include <optional>
#include <set>
#include <utility>

namespace oneflow {
namespace {

constexpr double kGain = 1e-6;  // of the price of a unit, at least: rounding is no reason to move
constexpr int kSweeps = 50;     // until stable; a bound against our own mistakes
constexpr int kRounds = 4;
constexpr int kTrialUnits = 48;  // how far a joint move may spread

class Search {
 public:
  explicit Search(const SbpProblem& problem) : problem_(problem), label_(problem.units(), -1) {}

  // Units in op order, each as is best for what has been chosen. Sources follow their first reader.
  void Greedy() {
    for (int u = 0; u < problem_.units(); ++u) {
      if (problem_.IsSource(u) && problem_.labels(u) > 1) continue;
      if (label_[u] < 0) Respond(u);
      for (int v : problem_.NeighboursOf(u)) {
        if (v < u && problem_.IsSource(v) && label_[v] < 0) Respond(v);
      }
    }
    for (int u = 0; u < problem_.units(); ++u) {
      if (label_[u] < 0) Respond(u);
    }
  }

  void Fill(bool first) {
    for (int u = 0; u < problem_.units(); ++u) label_[u] = first ? 0 : problem_.labels(u) - 1;
  }

  // Single moves, back and forth, until none helps.
  void Sweep() {
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      double gain = 0;
      for (int u = 0; u < problem_.units(); ++u) gain += Respond(u);
      for (int u = problem_.units() - 1; u >= 0; --u) gain += Respond(u);
      if (gain <= 0) return;
    }
  }

  // Joint moves where single ones are stuck, then single ones again.
  void Refine() {
    for (int round = 0; round < kRounds && JointMoves(); ++round) Sweep();
  }

  const std::vector<int>& label() const { return label_; }

 private:
  double LocalPrice(int u) const {
    double price = problem_.UnitPrice(u, label_[u]);
    for (TensorId t : problem_.TensorsOf(u)) price += problem_.TensorPrice(t, label_);
    return price;
  }

  // Gives u its best label; returns what that gains (0 if it stays, or had none).
  double Respond(int u) {
    const int old = label_[u];
    if (old >= 0 && problem_.labels(u) == 1) return 0;
    double old_price = 0, best_price = 0;
    if (old >= 0) best_price = old_price = LocalPrice(u);
    int best = old;
    for (int l = 0; l < problem_.labels(u); ++l) {
      if (l == old) continue;
      label_[u] = l;
      const double price = LocalPrice(u);
      if (best >= 0 && price >= best_price - kGain * (1 + best_price)) continue;
      best = l;
      best_price = price;
    }
    label_[u] = best;
    return old < 0 ? 0 : old_price - best_price;
  }

  bool JointMoves() {
    bool any = false;
    for (int u = 0; u < problem_.units(); ++u) {
      for (int l = 0; l < problem_.labels(u); ++l) {
        if (l != label_[u] && JointMove(u, l)) any = true;
      }
    }
    return any;
  }

  // Moves u to `to` although that alone does not help, and lets the units around respond, spreading
  // from those that move. Keeps it all if it gains in the end, else nothing.
  bool JointMove(int u, int to) {
    std::vector<std::pair<int, int>> undo = {{u, label_[u]}};
    const double before = LocalPrice(u);
    label_[u] = to;
    const double after = LocalPrice(u);
    double gain = before - after;
    if (gain < -1e20) {
      label_[u] = undo[0].second;
      return false;
    }
    const double least = kGain * (1 + before);
    std::deque<int> queue(problem_.NeighboursOf(u).begin(), problem_.NeighboursOf(u).end());
    for (int visits = 0; visits < kTrialUnits && !queue.empty(); ++visits) {
      const int v = queue.front();
      queue.pop_front();
      if (v == u) continue;
      const int old = label_[v];
      gain += Respond(v);
      if (label_[v] == old) continue;
      undo.push_back({v, old});
      for (int w : problem_.NeighboursOf(v)) {
        if (w != u) queue.push_back(w);
      }
    }
    if (gain > least) return true;
    for (auto it = undo.rbegin(); it != undo.rend(); ++it) label_[it->first] = it->second;
    return false;
  }

  const SbpProblem& problem_;
  std::vector<int> label_;
};

}  // namespace

double PriceOf(const SbpProblem& problem, const std::vector<int>& label) {
  double price = 0;
  std::set<TensorId> tensors;
  for (int u = 0; u < problem.units(); ++u) {
    price += problem.UnitPrice(u, label[u]);
    tensors.insert(problem.TensorsOf(u).begin(), problem.TensorsOf(u).end());
  }
  for (TensorId t : tensors) price += problem.TensorPrice(t, label);
  return price;
}

std::vector<int> SearchSbp(const SbpProblem& problem) {
  std::optional<Search> best;
  double best_price = 0;
  for (int start = 0; start < 3; ++start) {
    Search search(problem);
    if (start == 0) {
      search.Greedy();
    } else {
      search.Fill(start == 1);
    }
    search.Sweep();
    const double price = PriceOf(problem, search.label());
    if (best && price >= best_price * (1 - kGain)) continue;
    best.emplace(std::move(search));
    best_price = price;
  }
  best->Refine();
  return best->label();
}

}  // namespace oneflow

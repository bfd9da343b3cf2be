#include "compiler/sbp/choice_descent.h"

#include <deque>
#include <set>
#include <utility>

namespace oneflow {
namespace {

constexpr int kSweeps = 50;      // until stable; a bound against our own mistakes
constexpr int kRounds = 4;       // of joint moves
constexpr int kTrialMoves = 48;  // how far a joint move may spread

class Descent {
 public:
  Descent(const ChoiceNetwork& network, std::vector<int> label)
      : network_(network), label_(std::move(label)), terms_of_(network.variables()) {
    for (int t = 0; t < static_cast<int>(network.terms().size()); ++t) {
      for (const int v : network.terms()[t].variables) terms_of_[v].push_back(t);
    }
  }

  std::vector<int> Run() {
    Sweep();
    for (int round = 0; round < kRounds && JointMoves(); ++round) Sweep();
    return label_;
  }

 private:
  Cost LocalCost(int v) const {
    Cost cost = 0;
    for (const int t : terms_of_[v]) {
      cost = AddCosts(cost, network_.CostOf(network_.terms()[t], label_));
    }
    return cost;
  }

  // Gives v its best label; returns what that gains.
  Cost Respond(int v) {
    const Cost before = LocalCost(v);
    Cost least = before;
    int best = label_[v];
    for (int l = 0; l < network_.labels(v); ++l) {
      label_[v] = l;
      const Cost cost = LocalCost(v);
      if (cost >= least) continue;
      best = l;
      least = cost;
    }
    label_[v] = best;
    return before - least;
  }

  void Sweep() {
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      Cost gain = 0;
      for (int v = 0; v < network_.variables(); ++v) gain += Respond(v);
      for (int v = network_.variables() - 1; v >= 0; --v) gain += Respond(v);
      if (gain == 0) return;
    }
  }

  bool JointMoves() {
    bool any = false;
    for (int v = 0; v < network_.variables(); ++v) {
      for (int l = 0; l < network_.labels(v); ++l) {
        if (l != label_[v] && JointMove(v, l)) any = true;
      }
    }
    return any;
  }

  std::set<int> NeighboursOf(int v) const {
    std::set<int> neighbours;
    for (const int t : terms_of_[v]) {
      const std::vector<int>& variables = network_.terms()[t].variables;
      neighbours.insert(variables.begin(), variables.end());
    }
    neighbours.erase(v);
    return neighbours;
  }

  // Moves v although that alone does not help, and lets those around respond, spreading from those
  // that move. Keeps it all if it gains in the end, else nothing.
  bool JointMove(int v, int to) {
    std::vector<std::pair<int, int>> undo = {{v, label_[v]}};
    const Cost before = LocalCost(v);
    label_[v] = to;
    Cost gain = before - LocalCost(v);
    const std::set<int> around = NeighboursOf(v);
    std::deque<int> queue(around.begin(), around.end());
    for (int moves = 0; gain > -kNever / 2 && moves < kTrialMoves && !queue.empty(); ++moves) {
      const int u = queue.front();
      queue.pop_front();
      const int old = label_[u];
      gain += Respond(u);
      if (label_[u] == old) continue;
      undo.push_back({u, old});
      for (const int w : NeighboursOf(u)) {
        if (w != v) queue.push_back(w);
      }
    }
    if (gain > 0) return true;
    for (auto it = undo.rbegin(); it != undo.rend(); ++it) label_[it->first] = it->second;
    return false;
  }

  const ChoiceNetwork& network_;
  std::vector<int> label_;
  std::vector<std::vector<int>> terms_of_;
};

}  // namespace

void Descend(const ChoiceNetwork& network, std::vector<std::vector<int>> starts, Choices* choices) {
  for (std::vector<int>& start : starts) {
    std::vector<int> label = Descent(network, std::move(start)).Run();
    const Cost cost = network.CostOf(label);
    if (cost >= choices->cost) continue;
    choices->label = std::move(label);
    choices->cost = cost;
  }
}

}  // namespace oneflow

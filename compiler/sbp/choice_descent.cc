#include "compiler/sbp/choice_descent.h"

#include <deque>
#include <set>
#include <utility>

namespace oneflow {
namespace {

constexpr int kSweeps = 50;      // at most; a sweep without gain ends the search sooner
constexpr int kRounds = 4;       // of joint moves
constexpr int kTrialMoves = 48;  // how far a joint move may spread

class Descent {
 public:
  Descent(const ChoiceNetwork& network, std::vector<int> assignment)
      : network_(network), assignment_(std::move(assignment)), terms_of_(network.variables()) {
    for (int t = 0; t < static_cast<int>(network.terms().size()); ++t) {
      for (const int v : network.terms()[t].variables) terms_of_[v].push_back(t);
    }
  }

  std::vector<int> Run() {
    Sweep();
    for (int round = 0; round < kRounds && JointMoves(); ++round) Sweep();
    return assignment_;
  }

 private:
  Cost LocalCost(int v) const {
    Cost cost = 0;
    for (const int t : terms_of_[v]) {
      cost = AddCosts(cost, network_.Evaluate(network_.terms()[t], assignment_));
    }
    return cost;
  }

  // Gives v its best value; returns the gain.
  Cost Respond(int v) {
    const Cost before = LocalCost(v);
    Cost least = before;
    int best = assignment_[v];
    for (int l = 0; l < network_.domain_size(v); ++l) {
      assignment_[v] = l;
      const Cost cost = LocalCost(v);
      if (cost >= least) continue;
      best = l;
      least = cost;
    }
    assignment_[v] = best;
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
      for (int l = 0; l < network_.domain_size(v); ++l) {
        if (l != assignment_[v] && JointMove(v, l)) any = true;
      }
    }
    return any;
  }

  std::set<int> Neighbours(int v) const {
    std::set<int> neighbours;
    for (const int t : terms_of_[v]) {
      const std::vector<int>& variables = network_.terms()[t].variables;
      neighbours.insert(variables.begin(), variables.end());
    }
    neighbours.erase(v);
    return neighbours;
  }

  // Moves v although the move alone does not help, then lets its neighbours respond, and the
  // neighbours of those that move. Keeps all moves if together they gain, else undoes all.
  bool JointMove(int v, int to) {
    std::vector<std::pair<int, int>> undo = {{v, assignment_[v]}};
    const Cost before = LocalCost(v);
    assignment_[v] = to;
    Cost gain = before - LocalCost(v);
    const std::set<int> around = Neighbours(v);
    std::deque<int> queue(around.begin(), around.end());
    for (int moves = 0; gain > -kForbidden / 2 && moves < kTrialMoves && !queue.empty(); ++moves) {
      const int u = queue.front();
      queue.pop_front();
      const int old = assignment_[u];
      gain += Respond(u);
      if (assignment_[u] == old) continue;
      undo.push_back({u, old});
      for (const int w : Neighbours(u)) {
        if (w != v) queue.push_back(w);
      }
    }
    if (gain > 0) return true;
    for (auto it = undo.rbegin(); it != undo.rend(); ++it) assignment_[it->first] = it->second;
    return false;
  }

  const ChoiceNetwork& network_;
  std::vector<int> assignment_;
  std::vector<std::vector<int>> terms_of_;
};

}  // namespace

void Descend(const ChoiceNetwork& network, std::vector<std::vector<int>> starts, Choices* choices) {
  for (std::vector<int>& start : starts) {
    std::vector<int> assignment = Descent(network, std::move(start)).Run();
    const Cost cost = network.Evaluate(assignment);
    if (cost >= choices->cost) continue;
    choices->assignment = std::move(assignment);
    choices->cost = cost;
  }
}

}  // namespace oneflow

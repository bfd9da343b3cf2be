#include "compiler/sbp/choice_descent.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace oneflow {
namespace {

constexpr int kSweeps = 50;      // at most; a sweep without gain ends the search sooner
constexpr int kRounds = 4;       // of joint moves
constexpr int kTrialMoves = 48;  // how far a joint move may spread

class Descent {
 public:
  Descent(const ChoiceNetwork& network, std::vector<int> assignment)
      : network_(network),
        assignment_(std::move(assignment)),
        ports_of_(network.variables()),
        neighbours_(network.variables()) {
    for (const ChoiceNetwork::Term& term : network.terms()) {
      int stride = 1;
      for (size_t i = term.variables.size(); i-- > 0;) {
        ports_of_[term.variables[i]].push_back({&term, term.table->costs.data(), stride});
        stride *= term.table->sizes[i];
      }
    }
  }

  std::vector<int> Run() {
    Sweep();
    for (int round = 0; round < kRounds && JointMoves(); ++round) Sweep();
    return assignment_;
  }

 private:
  // A term of a variable.
  struct Port {
    const ChoiceNetwork::Term* term;
    const Cost* costs;
    int stride;  // of the variable in the term's table
  };

  int64_t Index(const ChoiceNetwork::Term& term) const {
    int64_t at = 0;
    for (size_t i = 0; i < term.variables.size(); ++i) {
      at = at * term.table->sizes[i] + assignment_[term.variables[i]];
    }
    return at;
  }

  Cost LocalCost(int v) const {
    Cost cost = 0;
    for (const Port& port : ports_of_[v]) cost = AddCosts(cost, port.costs[Index(*port.term)]);
    return cost;
  }

  // Gives v its best value; returns the gain.
  Cost Respond(int v) {
    local_.assign(network_.domain_size(v), 0);
    for (const Port& port : ports_of_[v]) {
      const Cost* at = port.costs + Index(*port.term) - int64_t{assignment_[v]} * port.stride;
      for (Cost& cost : local_) {
        cost = AddCosts(cost, *at);
        at += port.stride;
      }
    }
    const Cost before = local_[assignment_[v]];
    Cost least = before;
    for (int l = 0; l < network_.domain_size(v); ++l) {
      if (local_[l] >= least) continue;
      assignment_[v] = l;
      least = local_[l];
    }
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

  // Ascending.
  const std::vector<int>& Neighbours(int v) {
    std::vector<int>& neighbours = neighbours_[v];
    if (!neighbours.empty()) return neighbours;
    for (const Port& port : ports_of_[v]) {
      const std::vector<int>& variables = port.term->variables;
      neighbours.insert(neighbours.end(), variables.begin(), variables.end());
    }
    std::sort(neighbours.begin(), neighbours.end());
    neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
    std::erase(neighbours, v);
    return neighbours;
  }

  // Moves v although the move alone does not help, then lets its neighbours respond, and the
  // neighbours of those that move. Keeps all moves if together they gain, else undoes all.
  bool JointMove(int v, int to) {
    std::vector<std::pair<int, int>> undo = {{v, assignment_[v]}};
    const Cost before = LocalCost(v);
    assignment_[v] = to;
    Cost gain = before - LocalCost(v);
    const std::vector<int>& around = Neighbours(v);
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
  std::vector<std::vector<Port>> ports_of_;
  std::vector<std::vector<int>> neighbours_;  // of those that were asked for
  std::vector<Cost> local_;                   // scratch of Respond
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

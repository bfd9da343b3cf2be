#include "compiler/sbp/choice_descent.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace oneflow {
namespace {

constexpr int kSweeps = 50;         // at most; a sweep without gain ends the search sooner
constexpr int kRounds = 4;          // of joint moves
constexpr size_t kTrialMoves = 48;  // how far a joint move may spread

class Descent {
 public:
  Descent(const ChoiceNetwork& network, std::vector<int> assignment)
      : network_(network),
        assignment_(std::move(assignment)),
        ports_of_(network.variables()),
        neighbours_(network.variables()),
        may_gain_(network.variables(), true) {
    for (const ChoiceNetwork::Term& term : network.terms()) AddPorts(term);
  }

  std::vector<int> Run() {
    Sweep();
    for (int round = 0; round < kRounds && JointMoves(); ++round) Sweep();
    return assignment_;
  }

 private:
  // A variable of a term's table, with the distance to its next value there.
  struct Step {
    int variable, stride;
  };
  // A term of a variable. The other variables of the term: others_[first, end).
  struct Port {
    const Cost* costs;
    int stride;  // of the variable in the term's table
    size_t first, end;
  };

  void AddPorts(const ChoiceNetwork::Term& term) {
    const size_t n = term.variables.size();
    std::vector<Step> steps(n);
    int stride = 1;
    for (size_t i = n; i-- > 0; stride *= term.table->sizes[i]) {
      steps[i] = {term.variables[i], stride};
    }
    for (size_t i = 0; i < n; ++i) {
      const size_t first = others_.size();
      for (size_t j = 0; j < n; ++j) {
        if (j != i) others_.push_back(steps[j]);
      }
      ports_of_[steps[i].variable].push_back(
          {term.table->costs.data(), steps[i].stride, first, others_.size()});
    }
  }

  // The costs of a term by the value of the port's variable, each `stride` after the one before.
  const Cost* CostsAt(const Port& port) const {
    const Cost* at = port.costs;
    for (size_t i = port.first; i < port.end; ++i) {
      at += int64_t{assignment_[others_[i].variable]} * others_[i].stride;
    }
    return at;
  }

  Cost LocalCost(int v) const {
    Cost cost = 0;
    for (const Port& port : ports_of_[v]) {
      cost = AddCosts(cost, CostsAt(port)[int64_t{assignment_[v]} * port.stride]);
    }
    return cost;
  }

  // Gives v its best value; returns the gain.
  Cost Respond(int v) {
    local_.assign(network_.domain_size(v), 0);
    for (const Port& port : ports_of_[v]) {
      const Cost* at = CostsAt(port);
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

  // A variable that has its best value gains nothing until one of its neighbours changes.
  Cost RespondIfItMayGain(int v) {
    if (!may_gain_[v]) return 0;
    const Cost gain = Respond(v);
    if (gain != 0) Changed(v);
    may_gain_[v] = false;
    return gain;
  }

  void Changed(int v) {
    for (const int u : Neighbours(v)) may_gain_[u] = true;
  }

  void Sweep() {
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      Cost gain = 0;
      for (int v = 0; v < network_.variables(); ++v) gain += RespondIfItMayGain(v);
      for (int v = network_.variables() - 1; v >= 0; --v) gain += RespondIfItMayGain(v);
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
      for (size_t i = port.first; i < port.end; ++i) neighbours.push_back(others_[i].variable);
    }
    std::sort(neighbours.begin(), neighbours.end());
    neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
    return neighbours;
  }

  // Moves v although the move alone does not help, then lets its neighbours respond, and the
  // neighbours of those that move. Keeps all moves if together they gain, else undoes all.
  bool JointMove(int v, int to) {
    undo_.assign(1, {v, assignment_[v]});
    const Cost before = LocalCost(v);
    assignment_[v] = to;
    Cost gain = before - LocalCost(v);
    queue_ = Neighbours(v);
    for (size_t move = 0; gain > -kForbidden / 2 && move < kTrialMoves && move < queue_.size();
         ++move) {
      const int u = queue_[move];
      const int old = assignment_[u];
      gain += Respond(u);
      if (assignment_[u] == old) continue;
      undo_.push_back({u, old});
      for (const int w : Neighbours(u)) {
        if (w != v) queue_.push_back(w);
      }
    }
    if (gain > 0) {
      for (const auto& [moved, old] : undo_) may_gain_[moved] = true, Changed(moved);
      return true;
    }
    for (auto it = undo_.rbegin(); it != undo_.rend(); ++it) assignment_[it->first] = it->second;
    return false;
  }

  const ChoiceNetwork& network_;
  std::vector<int> assignment_;
  std::vector<Step> others_;  // of all ports
  std::vector<std::vector<Port>> ports_of_;
  std::vector<std::vector<int>> neighbours_;  // of those that were asked for
  std::vector<bool> may_gain_;                // by variable
  std::vector<Cost> local_;                   // scratch of Respond
  std::vector<std::pair<int, int>> undo_;     // scratch of JointMove, as is queue_
  std::vector<int> queue_;
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

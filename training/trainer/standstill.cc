#include "training/trainer/standstill.h"

#include <algorithm>
#include <cstdint>
#include <deque>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace oneflow {
namespace {

constexpr int kHost = -1;

// Workers and who waits for whom. A node is a rank with all its workers, or the host's worker of a
// process.
class WaitGraph {
 public:
  WaitGraph(std::span<const proto::ProcessStall> stalls, int ranks)
      : stalls_(stalls),
        ranks_(ranks),
        each_(std::max(1, ranks / static_cast<int>(stalls.size()))),
        worker_(ranks + stalls.size()),
        first_(ranks + stalls.size()),
        waits_(ranks + stalls.size()),
        awaited_by_(ranks + stalls.size()) {
    for (size_t p = 0; p < stalls.size(); ++p) {
      for (const proto::WorkerStall& worker : stalls[p].worker()) {
        const int node = FindNode(static_cast<int>(p), worker.rank());
        if (node < 0 || FindProcess(node) != static_cast<int>(p)) continue;
        const proto::WorkerStall* most = worker_[node];
        if (most == nullptr) first_[node] = &worker;
        if (most == nullptr || Activity(worker) > Activity(*most)) worker_[node] = &worker;
      }
      for (const proto::WorkerStall& worker : stalls[p].worker()) {
        const int node = FindNode(static_cast<int>(p), worker.rank());
        if (node < 0 || FindProcess(node) != static_cast<int>(p)) continue;
        if (Activity(*worker_[node]) == 0) AddWaits(static_cast<int>(p), worker, node);
      }
    }
  }

  std::string Describe() const {
    if (const std::string lost = LostMessages(); !lost.empty()) return lost;
    int named = -1, most = 0;
    for (int node = 0; node < std::ssize(worker_); ++node) {
      if (!waits_[node].empty()) continue;
      const int waiting = RanksThatWaitFor(node);
      const bool better =
          waiting > most || (waiting == most && named >= 0 && Weight(node) > Weight(named));
      if ((named < 0 && Weight(node) > 0) || better) {
        named = node;
        most = waiting;
      }
    }
    if (named >= 0) {
      return absl::StrCat(WorkerName(named), " ", DescribeState(named), "; ", most,
                          most == 1 ? " rank waits" : " ranks wait", " for it");
    }
    return Circle();
  }

 private:
  // A rank waits for all that its workers wait for, unless one of them waits for nobody.
  void AddWaits(int process, const proto::WorkerStall& worker, int node) {
    for (const int32_t rank : worker.waits_for()) {
      const int other = FindNode(process, rank);
      std::vector<int>& waits = waits_[node];
      if (other < 0 || other == node) continue;
      if (std::find(waits.begin(), waits.end(), other) != waits.end()) continue;
      waits.push_back(other);
      awaited_by_[other].push_back(node);
    }
  }

  int FindNode(int process, int rank) const {
    if (rank == kHost) return ranks_ + process;
    return rank >= 0 && rank < ranks_ ? rank : -1;
  }
  int FindProcess(int node) const { return node < ranks_ ? node / each_ : node - ranks_; }

  // Ranks a worker that waits for nobody: inside a kernel, or able to go on; else 0.
  static int Activity(const proto::WorkerStall& worker) {
    if (!worker.inside().empty()) return 3;
    return worker.may_go_on() ? 2 : 0;
  }

  // Orders those that as many wait for: inside a kernel, able to go on, silent.
  int Weight(int node) const {
    const proto::WorkerStall* worker = worker_[node];
    if (worker == nullptr) return node < ranks_ ? 1 : 0;
    return Activity(*worker);
  }

  int RanksThatWaitFor(int node) const {
    std::vector<bool> seen(worker_.size(), false);
    seen[node] = true;
    std::deque<int> next = {node};
    int ranks = 0;
    while (!next.empty()) {
      const int at = next.front();
      next.pop_front();
      for (const int other : awaited_by_[at]) {
        if (seen[other]) continue;
        seen[other] = true;
        ranks += other < ranks_ ? 1 : 0;
        next.push_back(other);
      }
    }
    return ranks;
  }

  std::string WorkerName(int node) const {
    const int process = FindProcess(node);
    const std::string& host = stalls_[process].host();
    const std::string where =
        host.empty() ? absl::StrCat(" of process ", process) : absl::StrCat(" on host ", host);
    return node < ranks_ ? absl::StrCat("rank ", node, where)
                         : absl::StrCat("the host's worker of process ", process, where);
  }

  std::string DescribeState(int node) const {
    const proto::WorkerStall* worker = worker_[node];
    if (worker == nullptr) return "has not said what it is at";
    const std::string since = absl::StrFormat("%.0f s", worker->idle_seconds());
    if (!worker->inside().empty()) {
      return absl::StrCat("is inside the kernel of ", worker->inside(), " since ", since);
    }
    if (worker->may_go_on()) {
      return absl::StrCat("could go on, and has not for ", since, " (", worker->at(), ")");
    }
    return absl::StrCat("is at rest (", worker->at(), ")");
  }

  static const proto::WorkerStall::Entered* FindEntered(const proto::WorkerStall* worker,
                                                        const std::string& exchange) {
    if (worker == nullptr) return nullptr;
    for (const proto::WorkerStall::Entered& entered : worker->entered()) {
      if (entered.exchange() == exchange) return &entered;
    }
    return nullptr;
  }

  // The processes of an exchange that have sent what a member there waits for; empty if one of
  // them has not, or if that is not known.
  std::vector<int> FindUnheard(int node, const proto::WorkerStall::Entered& entered) const {
    std::vector<int> unheard;
    // They have entered, and it does not know. A process announces itself when all its members have
    // entered, so a single one that has not explains that nothing is known of its neighbours.
    for (const int32_t rank : entered.missing()) {
      const int other = FindNode(FindProcess(node), rank);
      const bool here = other < 0 || FindProcess(other) == FindProcess(node);
      if (here || FindEntered(first_[other], entered.exchange()) == nullptr) return {};
      unheard.push_back(other);
    }
    if (entered.missing_size() > 0) return unheard;
    // It knows that all have entered; some of them are over with it.
    for (const int32_t rank : entered.far()) {
      const int other = FindNode(FindProcess(node), rank);
      if (other < 0 || worker_[other] == nullptr || !worker_[other]->inside().empty()) continue;
      if (FindEntered(first_[other], entered.exchange()) == nullptr) unheard.push_back(other);
    }
    return unheard;
  }

  std::string LostMessages() const {
    for (int node = 0; node < ranks_; ++node) {
      if (first_[node] == nullptr) continue;
      for (const proto::WorkerStall::Entered& entered : first_[node]->entered()) {
        const std::vector<int> unheard = FindUnheard(node, entered);
        if (unheard.empty()) continue;
        const bool several = unheard.size() > 1;
        return absl::StrCat("messages from ", WorkerName(unheard[0]),
                            several ? absl::StrCat(" and ", unheard.size() - 1, " more") : "",
                            " do not arrive at ", WorkerName(node), ": ", several ? "all" : "both",
                            " have entered the exchange of ", entered.exchange());
      }
    }
    return "";
  }

  // Says that the processes of a circle have entered one exchange, and know it of each other; empty
  // if they have not.
  std::string LostPieces(const std::vector<int>& circle) const {
    for (const proto::WorkerStall::Entered& entered : first_[circle[0]]->entered()) {
      const bool all = std::all_of(circle.begin(), circle.end(), [&](int node) {
        const auto* there = FindEntered(first_[node], entered.exchange());
        return there != nullptr && there->missing().empty();
      });
      if (!all) continue;
      std::string names;
      for (const int node : circle) {
        absl::StrAppend(&names, node == circle[0] ? "" : " and ", WorkerName(node));
      }
      return absl::StrCat(names, " have entered the exchange of ", entered.exchange(),
                          ", and its messages do not arrive");
    }
    return "";
  }

  // There is one where every node waits: followed from any of them.
  std::string Circle() const {
    int node = 0;
    while (node < std::ssize(waits_) && waits_[node].empty()) ++node;
    if (node == std::ssize(waits_)) return "no worker waits for another";
    std::vector<int> path;
    while (std::find(path.begin(), path.end(), node) == path.end()) {
      path.push_back(node);
      node = FindFollowing(node);
      if (node < 0) return absl::StrCat("rank ", path[0], " waits, and for whom is not known");
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), node));
    if (std::string lost = LostPieces(path); !lost.empty()) return lost;
    std::string text = "they wait for each other in a circle: ";
    for (const int at : path) {
      absl::StrAppend(&text, at == path[0] ? "" : ", which waits for ", WorkerName(at), " (",
                      worker_[at]->at(), ")");
    }
    return absl::StrCat(text, ", which waits for the first");
  }

  // One of the workers that it waits for that waits, too.
  int FindFollowing(int node) const {
    for (const int other : waits_[node]) {
      if (!waits_[other].empty()) return other;
    }
    return -1;
  }

  const std::span<const proto::ProcessStall> stalls_;
  const int ranks_, each_;
  // By node: its worker that waits for nobody, else the first; null: nothing is known.
  std::vector<const proto::WorkerStall*> worker_;
  std::vector<const proto::WorkerStall*> first_;      // the device's, which alone enters exchanges
  std::vector<std::vector<int>> waits_, awaited_by_;  // by node
};

}  // namespace

std::string DescribeStandstill(std::span<const proto::ProcessStall> stalls, int ranks) {
  return WaitGraph(stalls, ranks).Describe();
}

void StandstillBoard::Put(double now, const proto::ProcessStall& stall) {
  if (stall.process() < 0 || stall.process() >= std::ssize(stalls_)) return;
  proto::ProcessStall& kept = stalls_[stall.process()];
  standing_ += static_cast<int>(stall.stands_still()) - static_cast<int>(kept.stands_still());
  if (!stall.stands_still()) {
    kept.Clear();
    reported_ = std::min(reported_, standing_);
    return;
  }
  if (standing_ == 1 && !kept.stands_still()) since_ = now;
  kept = stall;
}

std::optional<std::string> StandstillBoard::Look(double now) {
  const bool all = standing_ == std::ssize(stalls_);
  if (standing_ <= reported_ || !(all || (reported_ == 0 && now - since_ >= kPatience))) {
    return std::nullopt;
  }
  reported_ = standing_;
  return DescribeStandstill(stalls_, ranks_);
}

}  // namespace oneflow

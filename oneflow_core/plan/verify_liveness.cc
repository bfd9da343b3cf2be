#include "oneflow_core/plan/verify_liveness.h"

#include <algorithm>
#include <deque>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// Invariants:
//  1. cursor_[s] firings of stream s are done in this step; fired_[a] of them are of actor a.
//  2. A firing happens only when Blocker(a) is none: all or nothing.
//  3. Firing order does not matter, so Run() may take streams in any order.
class TokenGame {
 public:
  explicit TokenGame(const PlanNet& net)
      : net_(net), cursor_(net.streams.size(), 0), fired_(net.actors.size(), 0) {}

  absl::Status Run() {
    // A stream that cannot go on is looked at again only when an actor it may wait for has fired.
    std::vector<std::vector<int>> wakes = Neighbours();
    std::deque<int> ready;
    std::vector<bool> queued(net_.streams.size(), true);
    for (size_t s = 0; s < net_.streams.size(); ++s) ready.push_back(static_cast<int>(s));
    while (!ready.empty()) {
      const int s = ready.front();
      ready.pop_front();
      queued[s] = false;
      if (!Advance(s)) continue;
      for (int other : wakes[s]) {
        if (!queued[other]) ready.push_back(other), queued[other] = true;
      }
    }
    for (size_t s = 0; s < net_.streams.size(); ++s) {
      if (!Done(static_cast<int>(s))) return Stuck();
    }
    return Returned();
  }

 private:
  struct Wait {
    int actor = -1;  // that must fire first; -1: none
    int reg = -1;
    bool for_slot = false;  // else for a fill
  };

  bool Done(int s) const { return cursor_[s] == net_.streams[s].firings.size(); }

  // Fires what stream s can; whether anything fired.
  bool Advance(int s) {
    const size_t before = cursor_[s];
    while (!Done(s)) {
      const int actor = net_.streams[s].firings[cursor_[s]];
      if (Blocker(actor).actor >= 0) break;
      ++fired_[actor];
      ++cursor_[s];
    }
    return cursor_[s] != before;
  }

  // What the next firing of `actor` waits for.
  Wait Blocker(int actor) const {
    const int64_t n = fired_[actor];
    for (const proto::Input& input : net_.actor(actor).input()) {
      const NetRegister& r = net_.registers[input.register_()];
      if (r.writer < 0) continue;  // always full
      const int64_t fills = fired_[r.writer] / r.proto->fires_per_fill();
      if (input.initial_fills() + fills <= n / input.fires_per_read()) {
        return {r.writer, input.register_(), false};
      }
    }
    for (int id : net_.actor(actor).output()) {
      const NetRegister& r = net_.registers[id];
      if (n % r.proto->fires_per_fill() != 0) continue;
      const int64_t oldest = n / r.proto->fires_per_fill() - r.proto->slots();
      for (const NetReader& reader : r.readers) {
        if (oldest < -reader.initial_fills) continue;
        const int64_t returned = fired_[reader.actor] / reader.fires_per_read;
        if (returned < oldest + 1 + reader.initial_fills) return {reader.actor, id, true};
      }
    }
    return {};
  }

  // For each stream, those whose actors share a register with it.
  std::vector<std::vector<int>> Neighbours() const {
    std::vector<std::vector<int>> wakes(net_.streams.size());
    const auto join = [&](int a, int b) {
      if (a != b) wakes[a].push_back(b), wakes[b].push_back(a);
    };
    for (const NetRegister& r : net_.registers) {
      if (r.writer < 0) continue;
      for (const NetReader& reader : r.readers) {
        join(net_.actors[r.writer].stream, net_.actors[reader.actor].stream);
      }
    }
    for (std::vector<int>& w : wakes) {
      std::sort(w.begin(), w.end());
      w.erase(std::unique(w.begin(), w.end()), w.end());
    }
    return wakes;
  }

  // After a step the marking must be the initial one: no fill half written, half read or left over.
  absl::Status Returned() const {
    for (const NetRegister& r : net_.registers) {
      if (r.writer < 0) continue;
      const int64_t fills = fired_[r.writer] / r.proto->fires_per_fill();
      for (const NetReader& reader : r.readers) {
        if (fired_[reader.actor] != fills * reader.fires_per_read) {
          return absl::FailedPreconditionError(
              absl::StrCat("program ", net_.program->name(), ": after a step ", r.proto->name(),
                           " was filled ", fills, " times, and ", net_.actor(reader.actor).name(),
                           " fired ", fired_[reader.actor], " times"));
        }
      }
    }
    return absl::OkStatus();
  }

  // Every stuck stream waits for one actor, so walking from any of them ends in a cycle, or in an
  // actor whose stream has finished its order. The shortest over all starts is printed.
  absl::Status Stuck() const {
    std::vector<int> best;
    for (size_t s = 0; s < net_.streams.size(); ++s) {
      if (Done(static_cast<int>(s))) continue;
      const std::vector<int> walk = WalkFrom(static_cast<int>(s));
      if (best.empty() || walk.size() < best.size()) best = walk;
    }
    return absl::FailedPreconditionError(
        absl::StrCat("program ", net_.program->name(), " can stop for ever: ", Story(best)));
  }

  // The streams of the cycle that the walk from `start` runs into; a finished stream ends it.
  std::vector<int> WalkFrom(int start) const {
    std::vector<int> path;
    int s = start;
    while (!Done(s)) {
      const auto seen = std::find(path.begin(), path.end(), s);
      if (seen != path.end()) return {seen, path.end()};
      path.push_back(s);
      s = net_.actors[Blocker(Next(s)).actor].stream;
    }
    return path;
  }

  int Next(int s) const { return net_.streams[s].firings[cursor_[s]]; }

  // "F of stage 0 in micro-batch 1 waits for a free slot of h, held by B of stage 0, which waits
  // for ..."
  std::string Story(const std::vector<int>& cycle) const {
    const NetStream& stream = net_.streams[cycle[0]];
    std::string text =
        absl::StrCat(net_.NameOf(Next(cycle[0])), " in micro-batch ",
                     stream.entries[stream.entry_of[cursor_[cycle[0]]]].micro_batch, " waits for ");
    for (size_t i = 0; i < cycle.size(); ++i) {
      const Wait wait = Blocker(Next(cycle[i]));
      absl::StrAppend(&text, wait.for_slot ? "a free slot of " : "a fill of ",
                      net_.registers[wait.reg].proto->name(),
                      wait.for_slot ? ", held by " : ", written by ", net_.NameOf(wait.actor));
      const int stream_of_wait = net_.actors[wait.actor].stream;
      if (Done(stream_of_wait)) return text + ", whose step is over";
      const int stands = Next(stream_of_wait);
      if (stands != wait.actor) absl::StrAppend(&text, ", which comes after ", net_.NameOf(stands));
      if (i + 1 < cycle.size()) absl::StrAppend(&text, ", which waits for ");
    }
    return text;
  }

  const PlanNet& net_;
  std::vector<size_t> cursor_;
  std::vector<int64_t> fired_;
};

}  // namespace

absl::Status VerifyLiveness(const PlanNet& net) { return TokenGame(net).Run(); }

}  // namespace oneflow

#include "planning/simulate/critical_path.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "planning/simulate/dependencies.h"

namespace oneflow {
namespace {

using Stored = SimulatedRun::Stored;
using Repeat = SimulatedRun::Repeat;

constexpr double kNever = std::numeric_limits<double>::infinity();

// The firings of a run and the firings that each of them waited for.
class Firings {
 public:
  explicit Firings(const SimulatedRun& run)
      : run_(run),
        dependencies_(FindDependencies(run.net)),
        actor_of_(run.spans.size(), -1),
        by_worker_(run.spans.size(), -1),
        by_stream_(run.spans.size(), -1) {
    skipped_.emplace_back(run.net.specs.size(), 0);
    for (const Repeat& repeat : run.repeats) {
      std::vector<int64_t> skipped = skipped_.back();
      for (size_t a = 0; a < skipped.size(); ++a) skipped[a] += repeat.times * repeat.firings[a];
      skipped_.push_back(std::move(skipped));
    }
    std::vector<int64_t> next(run.first.begin(), run.first.end() - 1);
    const auto workers = std::max_element(run.worker_of.begin(), run.worker_of.end());
    std::vector<int64_t> last(workers == run.worker_of.end() ? 0 : *workers + 1, -1);
    std::vector<int64_t> last_of_stream(run.net.streams.size(), -1);
    for (size_t i = 0; i < run.order.size(); ++i) {
      const int32_t actor = run.order[i], stream = run.net.stream_of[actor];
      const int64_t index = next[actor]++;
      actor_of_[index] = actor;
      by_stream_[index] = std::exchange(last_of_stream[stream], index);
      if (run.occupies[i] != 0) {
        by_worker_[index] = std::exchange(last[run.worker_of[stream]], index);
      }
      indices_.push_back(index);
    }
  }

  // Indices of spans, in the order in which they began.
  const std::vector<int64_t>& indices() const { return indices_; }

  int32_t ActorAt(int64_t index) const { return actor_of_[index]; }

  // The firing's number in the run, for a stored firing.
  CriticalFiring FiringAt(int64_t index) const {
    const int32_t actor = actor_of_[index];
    const int64_t stored = index - run_.first[actor];
    int64_t firing = stored;
    for (const Repeat& repeat : run_.repeats) {
      if (stored >= repeat.stored[actor]) firing += repeat.times * repeat.firings[actor];
    }
    return {actor, firing};
  }

  // How many firings of the actor came before it, by its storage.
  int64_t CountBefore(int32_t actor, const Stored& stored) const {
    const int64_t of_period =
        stored.period == 0 ? 0 : stored.period * run_.repeats[stored.repeats].firings[actor];
    return stored.index - run_.first[actor] + skipped_[stored.repeats][actor] + of_period;
  }

  // SimulatedRun::Find, which is fast if the firing is in the same period as `near`, or stored
  // between the same repeats.
  Stored FindNear(int32_t actor, int64_t firing, const Stored& near) const {
    const size_t r = near.repeats;
    const int64_t index = firing - skipped_[r][actor];  // among those stored
    if (near.period == 0) {
      const int64_t first = r == 0 ? 0 : run_.repeats[r - 1].stored[actor];
      const int64_t end = r < run_.repeats.size() ? run_.repeats[r].stored[actor]
                                                  : run_.first[actor + 1] - run_.first[actor];
      if (index >= first && index < end) return {run_.first[actor] + index, near.repeats, 0};
    } else {
      const int64_t in_period = run_.repeats[r].firings[actor];
      const int64_t counterpart = index - near.period * in_period;
      const int64_t end = run_.repeats[r].stored[actor];
      if (counterpart >= end - in_period && counterpart < end) {
        return {run_.first[actor] + counterpart, near.repeats, near.period};
      }
    }
    return run_.Find(actor, firing);
  }

  // Calls fn(actor, firing, seconds from its end on) for each firing that must be over before this
  // one begins; for an exchange, before any of its members can begin. `stored`: of this one.
  template <typename Fn>
  void ForBefore(int32_t actor, int64_t firing, const Stored& stored, Fn fn) const {
    ForBeforeMember(actor, firing, stored, fn);
    const int32_t x = run_.net.member_of[actor].exchange;
    if (x < 0) return;
    const NetExchange& exchange = run_.net.exchanges[x];
    for (int32_t m = 0; m < run_.net.members(exchange); ++m) {
      const int32_t member = run_.net.FindMember(exchange, m);
      if (member != actor) ForBeforeMember(member, firing, FindNear(member, firing, stored), fn);
    }
  }

 private:
  template <typename Fn>
  void ForBeforeMember(int32_t actor, int64_t firing, const Stored& stored, Fn fn) const {
    for (const auto* before : {&by_worker_, &by_stream_}) {
      const int64_t index = (*before)[stored.index];
      if (index >= 0) fn(actor_of_[index], As(index, stored), 0.0);
    }
    for (const Dependency& d : dependencies_[actor]) {
      const int64_t before = FiringBefore(d, firing);
      if (before >= 0) fn(d.actor, before, Delay(d.actor, actor));
    }
  }

  // The counterpart of a stored firing in the period of `later`: as many periods after it as
  // `later` is after its stored one.
  int64_t As(int64_t index, const Stored& later) const {
    return CountBefore(actor_of_[index], {index, later.repeats, later.period});
  }

  double Delay(int32_t from, int32_t to) const {
    const std::vector<int32_t>& stream = run_.net.stream_of;
    const bool own = run_.worker_of[stream[from]] == run_.worker_of[stream[to]];
    return own ? 0 : run_.options.message_seconds;
  }

  const SimulatedRun& run_;
  const std::vector<std::vector<Dependency>> dependencies_;
  std::vector<int32_t> actor_of_;  // by index
  // By index: the stored firing before it that kept its worker, if it does, and on its stream; -1:
  // none.
  std::vector<int64_t> by_worker_, by_stream_;
  std::vector<std::vector<int64_t>> skipped_;  // in the first n repeats; by n, then by actor
  std::vector<int64_t> indices_;
};

// Finds the path, from its end back.
class PathFinder {
 public:
  PathFinder(const SimulatedRun& run, const Firings& firings, CriticalPath* path)
      : run_(run), firings_(firings), path_(*path) {
    path_.skipped.assign(run.repeats.size(), {std::vector<double>(run.net.specs.size(), 0)});
  }

  void Find() {
    const auto later = [&](int64_t a, int64_t b) { return run_.spans[a].end < run_.spans[b].end; };
    const std::vector<int64_t>& indices = firings_.indices();
    if (indices.empty()) return;
    CriticalFiring at = firings_.FiringAt(*std::max_element(indices.begin(), indices.end(), later));
    while (at.firing >= 0) {
      LeaveOutCycles(&at);
      const CriticalFiring before = Before(&at);
      const Stored stored = run_.Find(at.actor, at.firing);
      if (stored.period == 0) {
        path_.firings.push_back(at);
      } else {
        const SimulatedRun::Span& span = run_.spans[stored.index];
        Add({at.actor, span.end - span.begin, at.waited}, 1);
      }
      at = before;
    }
    std::reverse(path_.firings.begin(), path_.firings.end());
  }

 private:
  struct Piece {
    int32_t actor = 0;
    double seconds = 0, waited = 0;
  };
  // The visit of the path to a stored firing in a skipped period.
  struct Visit {
    int64_t period = 0;
    size_t pieces = 0;  // before it
  };

  void Add(const Piece& piece, int64_t times) {
    const auto n = static_cast<double>(times);
    CriticalPath::Skipped& skipped = path_.skipped[repeat_];
    skipped.seconds[piece.actor] += n * piece.seconds;
    skipped.waited += n * piece.waited;
    if (times == 1) pieces_.push_back(piece);
  }

  // The last firing to end among those that `at` waited for; firing -1: none. Sets at->waited.
  CriticalFiring Before(CriticalFiring* at) const {
    CriticalFiring before{-1, -1};
    double latest = 0, end = 0;
    const Stored stored = run_.Find(at->actor, at->firing);
    const auto take = [&](int32_t actor, int64_t firing, double delay) {
      // Among equals the first counts: the one before it on its worker.
      const double here = run_.FindSpan(actor, firing).end;
      if (before.firing >= 0 && here + delay <= latest) return;
      before = {actor, firing};
      end = here;
      latest = here + delay;
    };
    firings_.ForBefore(at->actor, at->firing, stored, take);
    at->waited = std::max(0.0, run_.FindSpan(at->actor, at->firing).begin - end);
    return before;
  }

  // Skipped periods are all alike, so a path that visits the same firing in two of them repeats
  // itself. This moves `at` back by as many such cycles as there are.
  void LeaveOutCycles(CriticalFiring* at) {
    const Stored stored = run_.Find(at->actor, at->firing);
    if (stored.period == 0 || stored.repeats != repeat_) {
      visits_.clear();
      pieces_.clear();
      period_ = -1;
      repeat_ = stored.period == 0 ? -1 : stored.repeats;
    }
    if (stored.period == 0 || stored.period == period_) return;
    period_ = stored.period;
    const auto [visit, fresh] = visits_.try_emplace(stored.index);
    if (fresh) {
      visit->second = {stored.period, pieces_.size()};
      return;
    }
    const int64_t cycle = visit->second.period - stored.period;
    const int64_t times = (stored.period - 1) / cycle;
    if (times <= 1) return;
    const std::vector<Piece> pieces(pieces_.begin() + static_cast<ptrdiff_t>(visit->second.pieces),
                                    pieces_.end());
    for (const Piece& piece : pieces) Add(piece, times);
    period_ -= times * cycle;
    at->firing -= times * cycle * run_.repeats[repeat_].firings[at->actor];
    visits_.clear();
  }

  const SimulatedRun& run_;
  const Firings& firings_;
  CriticalPath& path_;
  int32_t repeat_ = -1;  // in whose skipped periods the path is
  int64_t period_ = -1;
  std::unordered_map<int64_t, Visit> visits_;  // by index
  std::vector<Piece> pieces_;                  // of the path in these periods
};

// Finds the latest end of each firing, from the last firing back.
class SlackFinder {
 public:
  SlackFinder(const SimulatedRun& run, const Firings& firings)
      : run_(run),
        firings_(firings),
        latest_(run.spans.size(), run.seconds()),
        skipped_(run.repeats.size()),
        index_in_period_(run.repeats.empty() ? 0 : run.spans.size(), -1),
        slack_(run.net.specs.size(), kNever) {
    for (const Repeat& repeat : run.repeats) {
      for (int64_t i = repeat.first; i < repeat.end; ++i) {
        index_in_period_[firings.indices()[i]] = i - repeat.first;
      }
    }
  }

  std::vector<double> Find() {
    auto repeat = static_cast<int32_t>(run_.repeats.size()) - 1;
    const std::vector<int64_t>& indices = firings_.indices();
    for (auto i = static_cast<int64_t>(indices.size()) - 1; i >= 0; --i) {
      if (repeat >= 0 && i + 1 == run_.repeats[repeat].end) VisitSkipped(repeat--);
      LookAt(firings_.ActorAt(indices[i]), {indices[i], repeat + 1, 0}, run_.spans[indices[i]],
             latest_[indices[i]]);
    }
    return std::move(slack_);
  }

 private:
  // The latest ends of the firings of a skipped period, by index in the order of the stored one.
  using Latest = std::vector<double>;

  void LookAt(int32_t looked_at, const Stored& at, const SimulatedRun::Span& span, double latest) {
    slack_[looked_at] = std::min(slack_[looked_at], std::max(0.0, latest - span.end));
    const double latest_begin = latest - (span.end - span.begin);
    const auto take = [&](int32_t actor, int64_t firing, double delay) {
      double& before = FindLatest(firings_.FindNear(actor, firing, at));
      before = std::min(before, latest_begin - delay);
    };
    firings_.ForBefore(looked_at, firings_.CountBefore(looked_at, at), at, take);
  }

  double& FindLatest(const Stored& stored) {
    if (stored.period == 0) return latest_[stored.index];
    if (stored.repeats == repeat_) {
      if (stored.period == looked_at_) return (*of_period_)[index_in_period_[stored.index]];
      deepest_ = std::max(deepest_, looked_at_ - stored.period);
    }
    return FindPeriod(stored.repeats, stored.period)[index_in_period_[stored.index]];
  }

  Latest& FindPeriod(int32_t r, int64_t period) {
    const Repeat& repeat = run_.repeats[r];
    Latest& latest = skipped_[r][period];
    if (latest.empty()) latest.assign(repeat.end - repeat.first, run_.seconds());
    return latest;
  }

  // Goes from the last period back. If several periods in a row leave the same slack, so do all
  // before them, down to those that reach into stored firings.
  void VisitSkipped(int32_t r) {
    const Repeat& repeat = run_.repeats[r];
    std::map<int64_t, Latest>& skipped = skipped_[r];
    Latest later;  // slack of the period after this one
    int64_t alike = 0;
    deepest_ = 0;
    repeat_ = r;
    for (int64_t period = repeat.times; period > 0; --period) {
      looked_at_ = period;
      Latest slack = LookAtPeriod(r, period);
      alike = slack == later ? alike + 1 : 0;
      later = std::move(slack);
      skipped.erase(period);
      const int64_t depth = deepest_ + 1;
      if (alike < depth || period <= 2 * depth) continue;
      // Firings still to be visited are as far from their periods as if these were the first ones.
      const int64_t left_out = period - depth - 1;
      if (!skipped.empty() && skipped.begin()->first <= left_out) continue;
      std::map<int64_t, Latest> moved;
      for (auto& [of, latest] : skipped) {
        for (double& seconds : latest) {
          seconds -= static_cast<double>(left_out) * repeat.seconds;
        }
        moved[of - left_out] = std::move(latest);
      }
      skipped = std::move(moved);
      period -= left_out;
      alike = std::numeric_limits<int64_t>::min() / 2;  // once
    }
    repeat_ = -1;
  }

  Latest LookAtPeriod(int32_t r, int64_t period) {
    const Repeat& repeat = run_.repeats[r];
    const double shift = static_cast<double>(period) * repeat.seconds;
    Latest slack(repeat.end - repeat.first, 0);
    of_period_ = &FindPeriod(r, period);
    for (int64_t i = repeat.end - 1; i >= repeat.first; --i) {
      const int64_t index = firings_.indices()[i];
      const SimulatedRun::Span& stored = run_.spans[index];
      const SimulatedRun::Span span{stored.begin + shift, stored.end + shift};
      const double latest = (*of_period_)[i - repeat.first];
      slack[i - repeat.first] = latest - span.end;
      LookAt(firings_.ActorAt(index), {index, r, period}, span, latest);
    }
    return slack;
  }

  const SimulatedRun& run_;
  const Firings& firings_;
  Latest latest_;                                   // by index: the latest end that delays nothing
  std::vector<std::map<int64_t, Latest>> skipped_;  // by repeat, then by period
  std::vector<int64_t> index_in_period_;            // by index: in its stored period
  int32_t repeat_ = -1;                             // of the periods in progress
  int64_t looked_at_ = 0;                           // period
  Latest* of_period_ = nullptr;                     // its latest ends
  int64_t deepest_ = 0;                             // periods from a firing to what it waits for
  std::vector<double> slack_;
};

}  // namespace

CriticalPath FindCriticalPath(const SimulatedRun& run) {
  const Firings firings(run);
  CriticalPath path;
  PathFinder(run, firings, &path).Find();
  path.slack = SlackFinder(run, firings).Find();
  return path;
}

}  // namespace oneflow

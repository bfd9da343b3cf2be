#include "actor_runtime/simulate/critical_path.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "actor_runtime/simulate/dependencies.h"

namespace oneflow {
namespace {

// The firings of a run and what each of them had to wait for. A firing is known by its place in
// SimulatedRun::spans.
class Firings {
 public:
  explicit Firings(const SimulatedRun& run)
      : run_(run),
        dependencies_(DependenciesOf(run.net)),
        by_worker_(run.spans.size(), -1),
        by_stream_(run.spans.size(), -1) {
    std::vector<int64_t> next(run.first.begin(), run.first.end() - 1);
    const auto workers = std::max_element(run.worker_of.begin(), run.worker_of.end());
    std::vector<int64_t> last(workers == run.worker_of.end() ? 0 : *workers + 1, -1);
    std::vector<int64_t> last_of_stream(run.net.streams.size(), -1);
    for (size_t i = 0; i < run.order.size(); ++i) {
      const int32_t actor = run.order[i], stream = run.net.stream_of[actor];
      const int64_t place = next[actor]++;
      by_stream_[place] = std::exchange(last_of_stream[stream], place);
      if (run.occupies[i] != 0) {
        by_worker_[place] = std::exchange(last[run.worker_of[stream]], place);
      }
      places_.push_back(place);
    }
  }

  // In the order in which they began.
  const std::vector<int64_t>& places() const { return places_; }

  // Calls fn(place, seconds from its end on) for what must be over before `place` of `actor`
  // begins; of an exchange, before any of its members can.
  template <typename Fn>
  void ForBefore(int32_t actor, int64_t place, Fn fn) const {
    ForBeforeMember(actor, place, fn);
    const int32_t x = run_.net.member_of[actor].exchange;
    if (x < 0) return;
    const NetExchange& exchange = run_.net.exchanges[x];
    const int64_t firing = place - run_.first[actor];
    for (int32_t m = 0; m < run_.net.members(exchange); ++m) {
      const int32_t member = run_.net.MemberOf(exchange, m);
      if (member != actor) ForBeforeMember(member, run_.first[member] + firing, fn);
    }
  }

  int32_t ActorOf(int64_t place) const {
    const auto after = std::upper_bound(run_.first.begin(), run_.first.end(), place);
    return static_cast<int32_t>(after - run_.first.begin()) - 1;
  }

 private:
  template <typename Fn>
  void ForBeforeMember(int32_t actor, int64_t place, Fn fn) const {
    if (by_worker_[place] >= 0) fn(by_worker_[place], 0.0);
    if (by_stream_[place] >= 0) fn(by_stream_[place], 0.0);
    for (const Dependency& d : dependencies_[actor]) {
      const int64_t firing = FiringBefore(d, place - run_.first[actor]);
      if (firing >= 0) fn(run_.first[d.actor] + firing, Delay(d.actor, actor));
    }
  }

  double Delay(int32_t from, int32_t to) const {
    const std::vector<int32_t>& stream = run_.net.stream_of;
    const bool own = run_.worker_of[stream[from]] == run_.worker_of[stream[to]];
    return own ? 0 : run_.options.message_seconds;
  }

  const SimulatedRun& run_;
  const std::vector<std::vector<Dependency>> dependencies_;
  // By place: the firing before it that kept its worker, if it does, and on its stream; -1: none.
  std::vector<int64_t> by_worker_, by_stream_;
  std::vector<int64_t> places_;
};

std::vector<CriticalFiring> PathOf(const SimulatedRun& run, const Firings& firings) {
  const auto later = [&](int64_t a, int64_t b) { return run.spans[a].end < run.spans[b].end; };
  const std::vector<int64_t>& places = firings.places();
  std::vector<CriticalFiring> path;
  int64_t at = places.empty() ? -1 : *std::max_element(places.begin(), places.end(), later);
  while (at >= 0) {
    const int32_t actor = firings.ActorOf(at);
    path.push_back({actor, at - run.first[actor]});
    int64_t before = -1;
    double latest = 0;
    firings.ForBefore(actor, at, [&](int64_t place, double delay) {
      // Of equals the first: the one before it on its worker.
      if (before >= 0 && run.spans[place].end + delay <= latest) return;
      before = place;
      latest = run.spans[place].end + delay;
    });
    at = before;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<double> SlackOf(const SimulatedRun& run, const Firings& firings) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const double end = run.seconds();
  std::vector<double> latest(run.spans.size(), end);  // end of each firing that delays nothing
  std::vector<double> slack(run.net.specs.size(), kNever);
  for (auto place = firings.places().rbegin(); place != firings.places().rend(); ++place) {
    const int32_t actor = firings.ActorOf(*place);
    const SimulatedRun::Span& span = run.spans[*place];
    // Sums in another order may be a rounding below 0.
    slack[actor] = std::min(slack[actor], std::max(0.0, latest[*place] - span.end));
    const double latest_begin = latest[*place] - (span.end - span.begin);
    firings.ForBefore(actor, *place, [&](int64_t before, double delay) {
      latest[before] = std::min(latest[before], latest_begin - delay);
    });
  }
  return slack;
}

}  // namespace

CriticalPath CriticalPathOf(const SimulatedRun& run) {
  const Firings firings(run);
  return {PathOf(run, firings), SlackOf(run, firings)};
}

}  // namespace oneflow

#include "planning/simulate/measured_use.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace oneflow {
namespace {

using Part = TraceFacts::Part;
using Spans = std::vector<std::pair<int64_t, int64_t>>;

constexpr char kProgram[] = "train";

// The events of a device.
struct Seen {
  Spans compute, exchange, copy;
  Spans with_stage;  // compute, copies and exchanges within the stage
};

// Nanoseconds of [from, to] that the spans cover together.
int64_t CoveredTime(Spans spans, int64_t from, int64_t to) {
  std::sort(spans.begin(), spans.end());
  int64_t covered = 0, end = from;
  for (const auto& [begin, until] : spans) {
    const int64_t last = std::min(until, to);
    covered += std::max<int64_t>(0, last - std::max(begin, end));
    end = std::max(end, last);
  }
  return covered;
}

Spans Joined(Spans spans, const Spans& others) {
  spans.insert(spans.end(), others.begin(), others.end());
  return spans;
}

class Measurement {
 public:
  Measurement(const proto::ProcessTrace& trace, const TraceFacts& facts)
      : trace_(trace), facts_(facts) {}

  std::optional<MeasuredUse> Measure() {
    int64_t first = std::numeric_limits<int64_t>::max();
    for (const auto& firings : trace_.firings()) {
      if (IsOfDevice(firings)) first = std::min(first, firings.step(0));
    }
    for (const auto& firings : trace_.firings()) {
      if (IsOfDevice(firings) && firings.step(0) == first) Add(firings);
    }
    if (begins_.empty()) return std::nullopt;
    // A step is incomplete if some stream has no room for it.
    while (begins_.rbegin()->first > last_complete_) begins_.erase(std::prev(begins_.end()));
    MeasuredUse use{begins_.begin()->first, std::ssize(begins_)};
    int64_t from = begins_.begin()->second, to = end_;
    if (use.steps >= 3) {
      from = std::next(begins_.begin())->second;
      to = begins_.rbegin()->second;
      use.steps -= 2;
      ++use.first_step;
    }
    if (to <= from) return std::nullopt;
    Sum(from, to, &use);
    return use;
  }

 private:
  bool IsOfDevice(const proto::ProcessTrace::Firings& firings) const {
    return firings.program() == kProgram && firings.step_size() > 0 && firings.track() >= 0 &&
           firings.track() < trace_.track_size() && !trace_.track(firings.track()).host();
  }

  void Add(const proto::ProcessTrace::Firings& of) {
    Seen& seen = seen_[trace_.track(of.track()).rank()];
    last_complete_ = std::min(last_complete_, of.step(of.step_size() - 1));
    for (int i = 0; i < of.step_size(); ++i) {
      const auto [begin, fresh] = begins_.try_emplace(of.step(i), of.begin(i));
      begin->second = std::min(begin->second, of.begin(i));
      end_ = std::max(end_, of.end(i));
      const TraceFacts::Actor* known = facts_.Find(kProgram, trace_.name(of.name(i)));
      if (known != nullptr && known->part == Part::kHost) continue;
      const bool exchanges = known != nullptr && known->part == Part::kExchange;
      const bool copies = known != nullptr && known->part == TraceFacts::Part::kCopy;
      const int64_t ready = exchanges && i < of.ready_size() ? of.ready(i) : of.begin(i);
      (exchanges ? seen.exchange : copies ? seen.copy : seen.compute).push_back({ready, of.end(i)});
      if (!exchanges || !known->between_stages) seen.with_stage.push_back({ready, of.end(i)});
    }
  }

  void Sum(int64_t from, int64_t to, MeasuredUse* use) const {
    const double window = static_cast<double>(to - from);
    const double scale = 1e-9 / static_cast<double>(use->steps) / static_cast<double>(seen_.size());
    double busy = 0;
    for (const auto& [rank, seen] : seen_) {
      const auto compute = static_cast<double>(CoveredTime(seen.compute, from, to));
      const auto exchange = static_cast<double>(CoveredTime(seen.exchange, from, to));
      const auto copy = static_cast<double>(CoveredTime(seen.copy, from, to));
      const Spans carried = Joined(seen.compute, seen.exchange);
      const auto both = static_cast<double>(CoveredTime(carried, from, to));
      const auto all = static_cast<double>(CoveredTime(Joined(carried, seen.copy), from, to));
      use->mean.compute += compute * scale;
      use->mean.exposed += (both - compute) * scale;
      use->mean.hidden += (compute + exchange - both) * scale;
      use->mean.exposed_copy += (all - both) * scale;
      use->mean.hidden_copy += (both + copy - all) * scale;
      use->mean.idle += (window - all) * scale;
      busy += static_cast<double>(CoveredTime(seen.with_stage, from, to));
    }
    use->step_seconds = window * 1e-9 / static_cast<double>(use->steps);
    use->bubble = 1 - busy / window / static_cast<double>(seen_.size());
  }

  const proto::ProcessTrace& trace_;
  const TraceFacts& facts_;
  std::map<int32_t, Seen> seen_;       // by rank
  std::map<int64_t, int64_t> begins_;  // of steps
  int64_t last_complete_ =
      std::numeric_limits<int64_t>::max();  // the last step that all streams have
  int64_t end_ = 0;
};

}  // namespace

std::optional<MeasuredUse> MeasureUse(const proto::ProcessTrace& trace, const TraceFacts& facts) {
  return Measurement(trace, facts).Measure();
}

}  // namespace oneflow

#include "planning/simulate/utilization.h"

#include <algorithm>
#include <string>

namespace oneflow {
namespace {

constexpr double kRounding = 1e-12;

// The length of spans together, what overlaps once. They come in the order of their begins.
class Together {
 public:
  void Add(const SimulatedRun::Span& span) {
    length_ += std::max(0.0, span.end - std::max(span.begin, end_));
    end_ = std::max(end_, span.end);
  }
  // The events added since `period` are added `times` times more, each `seconds` later.
  void Repeat(const Together& period, int64_t times, double seconds) {
    length_ += static_cast<double>(times) * (length_ - period.length_);
    end_ += static_cast<double>(times) * seconds;
  }
  double length() const { return length_; }

 private:
  double end_ = 0, length_ = 0;
};

// The covered time of a device over the full run.
struct Covered {
  Together compute, exchange, copy;
  Together with_stage;     // compute, copies and exchanges within the stage
  Together with_exchange;  // compute and exchanges
  Together with_all;       // these and copies

  void Repeat(const Covered& period, int64_t times, double seconds) {
    compute.Repeat(period.compute, times, seconds);
    exchange.Repeat(period.exchange, times, seconds);
    copy.Repeat(period.copy, times, seconds);
    with_stage.Repeat(period.with_stage, times, seconds);
    with_exchange.Repeat(period.with_exchange, times, seconds);
    with_all.Repeat(period.with_all, times, seconds);
  }
};

std::vector<Covered> FindCovered(const SimulatedRun& run, int64_t first_step) {
  std::vector<Covered> covered(run.net.own.size()), period;
  std::vector<int64_t> fired(run.net.specs.size(), 0);
  size_t next = 0;  // in run.repeats
  for (int64_t i = 0; i < static_cast<int64_t>(run.order.size()); ++i) {
    if (next < run.repeats.size() && i == run.repeats[next].end) {
      const SimulatedRun::Repeat& repeat = run.repeats[next++];
      for (size_t d = 0; d < covered.size(); ++d) {
        covered[d].Repeat(period[d], repeat.times, repeat.seconds);
      }
      for (size_t a = 0; a < fired.size(); ++a) fired[a] += repeat.times * repeat.firings[a];
    }
    if (next < run.repeats.size() && i == run.repeats[next].first) period = covered;
    const int32_t actor = run.order[i];
    const int64_t firing = fired[actor]++;
    const Doing doing = run.doing[actor];
    if (doing == Doing::kHost) continue;
    const SimulatedRun::Span span = run.FindSpan(actor, firing);
    Covered& device = covered[run.net.specs[actor].rank];
    const bool computes = doing == Doing::kComputing, copies = doing == Doing::kCopying;
    if (!computes && firing < first_step * run.net.firings[actor]) continue;
    (computes ? device.compute : copies ? device.copy : device.exchange).Add(span);
    device.with_all.Add(span);
    if (!copies) device.with_exchange.Add(span);
    if (doing != Doing::kExchangingBetweenStages) device.with_stage.Add(span);
  }
  return covered;
}

// Sums in another order may be a rounding apart.
double AtLeastNone(double seconds, double step) { return seconds > kRounding * step ? seconds : 0; }

}  // namespace

Utilization FindUtilization(const SimulatedRun& run) {
  Utilization result;
  const double step = run.StepSeconds(), round = static_cast<double>(run.steps_a_round);
  result.devices.resize(run.net.own.size());
  std::vector<bool> beside(run.net.own.size(), false);  // kernels of a device may run at once
  for (const StreamOrder& stream : run.net.streams) {
    double& busy = result.stream_busy.emplace_back(0);
    const bool exchanges =
        stream.follows && std::any_of(stream.actors.begin(), stream.actors.end(), [&](int32_t a) {
          return run.doing[a] == Doing::kExchangingWithinStage;
        });
    // Every firing of an actor takes the same time.
    for (const int32_t actor : stream.actors) {
      const double seconds =
          static_cast<double>(run.net.firings[actor]) * run.FiringSeconds(actor) / round;
      busy += seconds;
      if (run.doing[actor] != Doing::kComputing) continue;
      result.devices[stream.rank].compute += seconds;
      beside[stream.rank] = beside[stream.rank] || exchanges;
    }
  }
  const int64_t first_step = run.options.steps > 1 ? 1 : 0;
  const double steps = static_cast<double>(run.options.steps - first_step) * round;
  const std::vector<Covered> covered = FindCovered(run, first_step);
  double busy = 0;  // of all devices
  for (int32_t rank = 0; rank < run.net.own.size(); ++rank) {
    const auto& [compute, exchange, copy, with_stage, with_exchange, with_all] = covered[rank];
    DeviceTime& device = result.devices[rank];
    if (beside[rank]) {
      device.compute = compute.length() / (static_cast<double>(run.options.steps) * round);
    }
    // In the last step, work that would overlap the next step overlaps nothing.
    device.exposed = std::min((with_exchange.length() - compute.length()) / steps,
                              AtLeastNone(step - device.compute, step));
    device.hidden = AtLeastNone(exchange.length() / steps - device.exposed, step);
    device.exposed_copy = std::min((with_all.length() - with_exchange.length()) / steps,
                                   AtLeastNone(step - device.compute - device.exposed, step));
    device.hidden_copy = AtLeastNone(copy.length() / steps - device.exposed_copy, step);
    device.idle = AtLeastNone(step - device.compute - device.exposed - device.exposed_copy, step);
    busy += device.compute + std::min((with_stage.length() - compute.length()) / steps,
                                      device.exposed + device.exposed_copy);
  }
  const double mean = busy / run.net.own.size(), waits = AtLeastNone(step - mean, step);
  if (step > 0) result.bubble = waits / step;
  if (mean > 0) result.bubble_over_busy = waits / mean;
  return result;
}

bool MovesToHost(const SimulatedRun& run) {
  for (size_t s = 0; s < run.kind_of.size(); ++s) {
    const std::string& name = run.net.streams[s].name;
    if (run.kind_of[s] == proto::Stream::COPY && name != "copy.in" && name != "copy.out") {
      return true;
    }
  }
  return false;
}

}  // namespace oneflow

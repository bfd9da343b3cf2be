#include "planning/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/actor/actor_state.h"
#include "actor_runtime/exec/describe_wait.h"
#include "actor_runtime/exec/instantiate.h"
#include "oneflow_core/base/status.h"
#include "planning/simulate/clock_state.h"
#include "planning/simulate/period.h"

namespace oneflow {
namespace {

// All axes but that of the stages shrunk to one device.
StageMesh OneDeviceAStage(StageMesh mesh) {
  for (size_t axis = 0; axis < mesh.mesh.axes.size(); ++axis) {
    if (static_cast<int>(axis) != mesh.stage_axis) mesh.mesh.axes[axis].size = 1;
  }
  return mesh;
}

// The events of one run, one after the other.
class Clock {
 public:
  explicit Clock(SimulatedRun* run) : run_(*run), net_(run->net), finder_(run->net, MostAhead()) {
    for (const StreamOrder& stream : net_.streams) {
      at_.actors.push_back(InitialStates(stream.table));
      at_.streams.emplace_back();
    }
    at_.missing.resize(net_.exchanges.size());
    for (size_t x = 0; x < at_.missing.size(); ++x) {
      at_.missing[x] = net_.members(net_.exchanges[x]);
    }
    at_.recorded.resize(net_.specs.size());
    at_.issued.assign(run_.options.issue_seconds > 0 ? net_.own.size() : 0, 0);
    AssignWorkers();
    run_.step_ends.assign(run_.options.steps, 0);
  }

  absl::Status Run() {
    for (Worker& worker : at_.workers) FireNext(&worker);
    while (!at_.events.empty()) {
      if (Begun() > run_.options.most_firings) return TooMany();
      if (at_.events.front().time > at_.now) SkipPeriods();
      at_.now = at_.events.front().time;
      while (!at_.events.empty() && at_.events.front().time == at_.now) {
        const ClockState::Event event = at_.Pop();
        if (event.stream < 0) {
          Hand(at_.TakeMessage(event));
        } else if (event.message == ClockState::Event::kLanded) {
          Land(event.stream);
        } else {
          EndFiring(event.stream);
        }
      }
      for (const int32_t worker : woken_) {
        at_.workers[worker].woken = false;
        FireNext(&at_.workers[worker]);
      }
      woken_.clear();
    }
    RETURN_IF_ERROR(CheckEnd());
    StoreByActor();
    return absl::OkStatus();
  }

 private:
  using Stream = ClockState::Stream;
  using Worker = ClockState::Worker;

  void AssignWorkers() {
    const bool shared = run_.options.worker_a_device;
    at_.workers.resize(shared ? net_.own.size() + 1 : 0);
    for (size_t s = 0; s < net_.streams.size(); ++s) {
      const proto::Stream::Kind kind = run_.kind_of[s];
      size_t worker = kind == proto::Stream::HOST ? net_.own.size() : net_.streams[s].rank;
      if (!shared || kind == proto::Stream::COPY || kind == proto::Stream::HOST_COMPUTE) {
        worker = at_.workers.size();
        at_.workers.emplace_back();
      }
      run_.worker_of.push_back(static_cast<int32_t>(worker));
      at_.workers[worker].streams.push_back(static_cast<int32_t>(s));
    }
  }

  // Seconds by which the host may be ahead of a device.
  double MostAhead() const { return run_.options.issue_seconds * SimulateOptions::kMostAhead; }

  int64_t Begun() const { return static_cast<int64_t>(run_.order.size()); }

  absl::Status TooMany() const {
    const absl::Status error =
        InputError(absl::StrCat("program ", net_.program),
                   absl::StrCat("has more than ", run_.options.most_firings, " firings in ",
                                run_.options.steps, " steps that have no period"),
                   "simulate fewer steps, or fewer micro-batches");
    return absl::ResourceExhaustedError(error.message());
  }

  // If the state of now was there before, all that follows from it follows once more.
  void SkipPeriods() {
    if (Begun() < run_.options.skip_after || !finder_.Due(at_, Begun())) return;
    const std::optional<Period> period = finder_.Look(at_, Begun());
    if (!period) return;
    FinishOnLinks(*period);
    SimulatedRun::Repeat repeat;
    repeat.times = period->times;
    repeat.begin = at_.now - period->seconds;
    repeat.seconds = period->seconds;
    repeat.first = period->firings_before;
    repeat.end = Begun();
    repeat.firings = period->recorded;
    repeat.stored = at_.recorded;
    repeat.order_repeats = period->repeats;
    for (const StreamOrder& stream : net_.streams) {
      int64_t& fired = repeat.fired.emplace_back(0);
      for (const int32_t actor : stream.actors) {
        fired += at_.recorded[actor] +
                 run_.CountSkipped(actor, static_cast<int32_t>(run_.repeats.size()));
      }
    }
    run_.repeats.push_back(std::move(repeat));
    Skip(net_, *period, &at_);
    finder_.Forget();
  }

  // An exchange that is on its links now ends as the one of a period before did; the one that ends
  // after the skipped periods is one of theirs.
  void FinishOnLinks(const Period& period) {
    for (size_t s = 0; s < at_.streams.size(); ++s) {
      Stream& stream = at_.streams[s];
      if (stream.record < 0 || spans_[stream.record].end >= at_.now) continue;
      const int32_t actor = net_.streams[s].actors[stream.running];
      int64_t before = stream.record, back = period.recorded[actor];
      while (back > 0) back -= run_.order[--before] == actor ? 1 : 0;
      spans_[stream.record].end = spans_[before].end + period.seconds;
      stream.record = -1;
    }
  }

  // From the order in which they began to that of actors.
  void StoreByActor() {
    run_.first.assign(1, 0);
    for (const int64_t stored : at_.recorded) run_.first.push_back(run_.first.back() + stored);
    std::vector<int64_t> next(run_.first.begin(), run_.first.end() - 1);
    run_.spans.resize(spans_.size());
    for (size_t i = 0; i < spans_.size(); ++i) run_.spans[next[run_.order[i]]++] = spans_[i];
  }

  bool MayFire(int32_t s) const {
    const Stream& stream = at_.streams[s];
    return stream.step < run_.options.steps && !stream.entered &&
           CanFire(at_.actors[s], net_.streams[s].firings.IndexAt(stream.next));
  }

  // The streams of the worker that may fire do, in turn, until one keeps it busy.
  void FireNext(Worker* worker) {
    const size_t n = worker->streams.size();
    for (size_t looked = 0; !worker->busy && looked < n; ++looked) {
      const size_t at = worker->look_first;
      worker->look_first = (at + 1) % n;
      if (FinishLanded(worker->streams[at])) {
        worker->busy = true;
        break;
      }
      if (!MayFire(worker->streams[at])) continue;
      worker->busy = BeginFiring(worker->streams[at]);
      looked = 0;
    }
  }

  // Returns true if the firing keeps the worker busy: an exchange does so once all have entered,
  // with the work that the last of them carries.
  bool BeginFiring(int32_t s) {
    Stream& stream = at_.streams[s];
    const StreamOrder& order = net_.streams[s];
    stream.running = order.firings.IndexAt(stream.next);
    stream.running_step = stream.step;
    stream.firing = Issue(order.table, stream.running, &at_.actors[s]).firing;
    if (!order.firings.Next(&stream.next)) ++stream.step;
    const int32_t actor = order.actors[stream.running];
    const int32_t x = net_.member_of[actor].exchange;
    stream.entered = x >= 0;
    if (stream.entered && --at_.missing[x] > 0) return false;
    if (stream.entered && LinkSeconds(actor) > 0) {
      BeginOnLinks(x, LinkSeconds(actor));
      return false;
    }
    stream.occupies = true;
    if (!stream.entered) {
      Run(s, IssuedAt(s));
      return true;
    }
    const NetExchange& exchange = net_.exchanges[x];
    const int32_t members = net_.members(exchange);
    at_.missing[x] = members;
    double begin = at_.now;
    for (int32_t m = 0; m < members; ++m) {
      begin = std::max(begin, IssuedAt(net_.stream_of[net_.FindMember(exchange, m)]));
    }
    for (int32_t m = 0; m < members; ++m) {
      Run(net_.stream_of[net_.FindMember(exchange, m)], begin);
    }
    return true;
  }

  // When the host has issued the firing of the stream that begins next. What the host does itself
  // needs no issuing.
  double IssuedAt(int32_t s) {
    const proto::Stream::Kind kind = run_.kind_of[s];
    if (at_.issued.empty() || kind == proto::Stream::HOST || kind == proto::Stream::HOST_COMPUTE) {
      return at_.now;
    }
    double& issued = at_.issued[net_.streams[s].rank];
    issued = std::max(issued, at_.now - MostAhead()) + run_.options.issue_seconds;
    return std::max(issued, at_.now);
  }

  double LinkSeconds(int32_t actor) const {
    const std::vector<double>& links = run_.options.link_seconds;
    return links.empty() ? 0 : links[net_.specs[actor].actor];
  }

  // All members have entered, and nobody's worker is kept by what is under way.
  void BeginOnLinks(int32_t x, double seconds) {
    const NetExchange& exchange = net_.exchanges[x];
    at_.missing[x] = net_.members(exchange);
    for (int32_t m = 0; m < net_.members(exchange); ++m) {
      const int32_t actor = net_.FindMember(exchange, m), s = net_.stream_of[actor];
      Record(s, {at_.now, -1}, /*occupies=*/false);
      at_.Push(at_.now + seconds, s, ClockState::Event::kLanded);
    }
  }

  void Land(int32_t s) {
    at_.streams[s].landed = true;
    Wake(run_.worker_of[s]);
  }

  // Runs the worker's part of an exchange whose packets are here. Returns true if there was one.
  bool FinishLanded(int32_t s) {
    Stream& stream = at_.streams[s];
    if (!std::exchange(stream.landed, false)) return false;
    const int32_t actor = net_.streams[s].actors[stream.running];
    const double end = at_.now + run_.options.actor_seconds[net_.specs[actor].actor];
    if (stream.record >= 0) spans_[stream.record].end = end;
    stream.occupies = true;
    at_.Push(end, s);
    return true;
  }

  // `begin`: now, or when it has been issued; until then its stream waits.
  void Run(int32_t s, double begin) {
    const int32_t actor = net_.streams[s].actors[at_.streams[s].running];
    const double end = begin + run_.options.actor_seconds[net_.specs[actor].actor];
    Record(s, {begin, end}, at_.streams[s].occupies);
    at_.Push(end, s);
  }

  // The running firing of a stream begins.
  void Record(int32_t s, const SimulatedRun::Span& span, bool occupies) {
    const int32_t actor = net_.streams[s].actors[at_.streams[s].running];
    at_.streams[s].record = Begun();
    run_.order.push_back(actor);
    run_.occupies.push_back(occupies ? 1 : 0);
    spans_.push_back(span);
    ++at_.recorded[actor];
  }

  void EndFiring(int32_t s) {
    Stream& stream = at_.streams[s];
    const ActorTable& table = net_.streams[s].table;
    sends_.clear();
    // A launch that waits for an event begins when that has come.
    Announce(table, at_.actors[s], stream.running, &sends_);
    Complete(table, stream.running, &at_.actors[s], &sends_);
    for (const int32_t peer : sends_) {
      Send(s, MessageTo(table, at_.actors[s], stream.running, peer));
    }
    run_.step_ends[stream.running_step] = std::max(run_.step_ends[stream.running_step], at_.now);
    stream.entered = false;
    stream.record = -1;
    Worker& worker = at_.workers[run_.worker_of[s]];
    worker.busy = worker.busy && !std::exchange(stream.occupies, false);
    Wake(run_.worker_of[s]);
  }

  void Send(int32_t from, const Message& message) {
    const int32_t to = net_.stream_of[net_.FindReceiver(message)];
    const double delay = run_.options.message_seconds;
    if (delay == 0 || run_.worker_of[from] == run_.worker_of[to]) return Hand(message);
    at_.PushMessage(at_.now + delay, message);
  }

  void Hand(const Message& message) {
    const int32_t actor = net_.FindReceiver(message), s = net_.stream_of[actor];
    Receive(net_.streams[s].table, message, net_.index_in_stream[actor], &at_.actors[s]);
    Wake(run_.worker_of[s]);
  }

  void Wake(int32_t worker) {
    if (std::exchange(at_.workers[worker].woken, true)) return;
    woken_.push_back(worker);
  }

  absl::Status CheckEnd() const {
    for (size_t s = 0; s < at_.streams.size(); ++s) {
      if (at_.streams[s].step == run_.options.steps) continue;
      const StreamOrder& stream = net_.streams[s];
      return absl::InternalError(absl::StrCat(
          "program ", net_.program, " is stuck after ", run_.order.size(), " firings: ",
          DescribeWait(net_, stream, stream.firings.IndexAt(at_.streams[s].next), at_.actors[s])));
    }
    return absl::OkStatus();
  }

  SimulatedRun& run_;
  const ActorNet& net_;
  ClockState at_;
  PeriodFinder finder_;
  std::vector<SimulatedRun::Span> spans_;  // in the order in which they began
  std::vector<int32_t> woken_;
  std::vector<int32_t> sends_;
};

std::vector<proto::Stream::Kind> ListKinds(const ActorNet& net, const proto::Program& program) {
  std::vector<proto::Stream::Kind> kinds;
  for (const StreamOrder& stream : net.streams) {
    kinds.push_back(program.stream(stream.id).kind());
  }
  return kinds;
}

// A copy that is issued among kernels is one, too.
std::vector<Doing> ClassifyActors(const SimulatedRun& run, const proto::Program& program) {
  const ActorNet& net = run.net;
  std::vector<Doing> doing;
  for (size_t a = 0; a < net.specs.size(); ++a) {
    const proto::Actor& actor = program.actor(static_cast<int>(net.specs[a].actor));
    const proto::Stream::Kind kind = run.kind_of[net.stream_of[a]];
    if (kind == proto::Stream::HOST || kind == proto::Stream::HOST_COMPUTE) {
      doing.push_back(Doing::kHost);
    } else if (kind == proto::Stream::COPY || actor.kernel() == "copy_in" ||
               actor.kernel() == "copy_out") {
      doing.push_back(Doing::kCopying);
    } else if (!actor.has_exchange()) {
      doing.push_back(Doing::kComputing);
    } else {
      doing.push_back(actor.exchange().has_partner() ? Doing::kExchangingBetweenStages
                                                     : Doing::kExchangingWithinStage);
    }
  }
  return doing;
}

absl::Status CheckOptions(const proto::Program& program, const SimulateOptions& options) {
  if (options.steps < 1) {
    return InputError(absl::StrCat("--steps=", options.steps), "is not positive", "use 1 or more");
  }
  if (static_cast<int>(options.actor_seconds.size()) != program.actor_size()) {
    return absl::InternalError(absl::StrCat("seconds of ", options.actor_seconds.size(),
                                            " actors, ", program.name(), " has ",
                                            program.actor_size()));
  }
  if (!options.link_seconds.empty() &&
      options.link_seconds.size() != options.actor_seconds.size()) {
    return absl::InternalError("link_seconds are not of all actors");
  }
  for (size_t a = 0; a < options.link_seconds.size(); ++a) {
    if (std::isfinite(options.link_seconds[a]) && options.link_seconds[a] >= 0) continue;
    return InputError(program.actor(static_cast<int>(a)).name(),
                      absl::StrCat("takes ", options.link_seconds[a], " seconds"),
                      "check the levels in the cluster file");
  }
  if (!std::isfinite(options.issue_seconds) || options.issue_seconds < 0) {
    return InputError("a firing", absl::StrCat("takes ", options.issue_seconds, " seconds"),
                      "check firing_seconds in the cluster file");
  }
  if (!std::isfinite(options.message_seconds) || options.message_seconds < 0) {
    return InputError("a message", absl::StrCat("takes ", options.message_seconds, " seconds"),
                      "check the latency in the cluster file");
  }
  for (int a = 0; a < program.actor_size(); ++a) {
    const double seconds = options.actor_seconds[a];
    if (std::isfinite(seconds) && seconds >= 0) continue;
    return InputError(program.actor(a).name(), absl::StrCat("takes ", seconds, " seconds"),
                      "check the rates in the cluster file");
  }
  return absl::OkStatus();
}

// At least one firing of each actor is stored in each step, even if periods are skipped.
absl::Status CheckFirings(const ActorNet& net, const SimulateOptions& options) {
  int64_t a_step = 0, at_least = 0;
  for (const StreamOrder& stream : net.streams) {
    a_step += stream.firings.size();
    at_least += static_cast<int64_t>(stream.actors.size());
  }
  const bool skips = options.skip_after != SimulateOptions::kNeverSkip;
  const int64_t stored = std::max<int64_t>(1, skips ? at_least : a_step);
  const int64_t most = std::max<int64_t>(1, SimulateOptions::kMostFirings / stored);
  if (options.steps <= most) return absl::OkStatus();
  return InputError(absl::StrCat("--steps=", options.steps),
                    absl::StrCat("are too many to simulate: one takes ", a_step, " firings"),
                    absl::StrCat("use at most ", most));
}

// Rounds all seconds to multiples of a power of two, so that no sum of them in the run is rounded:
// no chain of firings takes longer than all firings one after the other, each with its message.
void RoundSeconds(const ActorNet& net, SimulateOptions* options) {
  const auto link = [&](size_t a) {
    return options->link_seconds.empty() ? 0 : options->link_seconds[a];
  };
  double longest = 0;
  for (size_t a = 0; a < net.specs.size(); ++a) {
    const uint32_t actor = net.specs[a].actor;
    longest += static_cast<double>(net.firings[a] * options->steps) *
               (options->actor_seconds[actor] + link(actor) + options->message_seconds +
                options->issue_seconds);
  }
  if (!(longest > 0)) return;
  constexpr int kDigits = 51;
  const double quantum = std::ldexp(1.0, std::ilogb(longest) + 1 - kDigits);
  if (!std::isnormal(quantum)) return;
  const auto round = [quantum](double* seconds) {
    *seconds = std::nearbyint(*seconds / quantum) * quantum;
  };
  for (double& seconds : options->actor_seconds) round(&seconds);
  for (double& seconds : options->link_seconds) round(&seconds);
  round(&options->message_seconds);
  round(&options->issue_seconds);
}

}  // namespace

SimulatedRun::Stored SimulatedRun::Find(int32_t actor, int64_t firing) const {
  int64_t skipped = 0;
  for (size_t r = 0; r < repeats.size(); ++r) {
    const Repeat& repeat = repeats[r];
    const int64_t in_period = repeat.firings[actor], after = firing - skipped;
    if (after < repeat.stored[actor]) return {first[actor] + after, static_cast<int32_t>(r), 0};
    const int64_t past = after - repeat.stored[actor];
    if (past < repeat.times * in_period) {
      return {first[actor] + repeat.stored[actor] - in_period + past % in_period,
              static_cast<int32_t>(r), past / in_period + 1};
    }
    skipped += repeat.times * in_period;
  }
  return {first[actor] + firing - skipped, static_cast<int32_t>(repeats.size()), 0};
}

SimulatedRun::Span SimulatedRun::FindSpan(int32_t actor, int64_t firing) const {
  const Stored stored = Find(actor, firing);
  const Span& span = spans[stored.index];
  if (stored.period == 0) return span;
  const double later = static_cast<double>(stored.period) * repeats[stored.repeats].seconds;
  return {span.begin + later, span.end + later};
}

double SimulatedRun::StepSeconds() const {
  const size_t others = step_ends.size() - 1;
  const double round =
      others == 0 ? step_ends[0] : (step_ends.back() - step_ends[0]) / static_cast<double>(others);
  return round / static_cast<double>(steps_a_round);
}

absl::StatusOr<SimulatedRun> Simulate(const proto::Plan& plan, std::string_view program,
                                      const SimulateOptions& options) {
  for (int p = 0; p < plan.program_size(); ++p) {
    if (plan.program(p).name() != program) continue;
    RETURN_IF_ERROR(CheckOptions(plan.program(p), options));
    ASSIGN_OR_RETURN(StageMesh mesh, MakeStageMesh(plan));
    mesh = OneDeviceAStage(std::move(mesh));
    SimulatedRun run;
    ASSIGN_OR_RETURN(run.net, Instantiate(plan, p, mesh, {0, mesh.ranks()}));
    RETURN_IF_ERROR(CheckFirings(run.net, options));
    run.options = options;
    RoundSeconds(run.net, &run.options);
    run.kind_of = ListKinds(run.net, plan.program(p));
    run.doing = ClassifyActors(run, plan.program(p));
    run.steps_a_round = std::max<int64_t>(1, plan.program(p).steps_a_round());
    RETURN_IF_ERROR(Clock(&run).Run());
    return run;
  }
  return absl::NotFoundError(absl::StrCat("the plan has no program ", std::string(program)));
}

}  // namespace oneflow

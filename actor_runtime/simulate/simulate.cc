#include "actor_runtime/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/actor/actor_state.h"
#include "actor_runtime/exec/describe_wait.h"
#include "actor_runtime/exec/instantiate.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// All are kept, with when they began and ended: a few gigabytes.
constexpr int64_t kMostFirings = int64_t{1} << 27;

// All axes but that of the stages shrunk to one device.
StageMesh OneDeviceAStage(StageMesh mesh) {
  for (size_t axis = 0; axis < mesh.mesh.axes.size(); ++axis) {
    if (static_cast<int>(axis) != mesh.stage_axis) mesh.mesh.axes[axis].size = 1;
  }
  return mesh;
}

// A firing ends, what it waits for on links is here, or a message arrives.
struct Event {
  double time = 0;
  int64_t number = 0;   // events of one moment come in the order in which they were made
  int32_t stream = -1;  // whose firing it is of; -1: a message
  Message message;
  bool landed = false;                        // else the firing ends
  bool operator<(const Event& other) const {  // the earliest first
    return time != other.time ? time > other.time : number > other.number;
  }
};

// The events of one run, one after the other.
class Clock {
 public:
  explicit Clock(SimulatedRun* run) : run_(*run), net_(run->net) {
    for (const StreamOrder& stream : net_.streams) {
      states_.push_back(InitialStates(stream.table));
      streams_.emplace_back();
    }
    missing_.resize(net_.exchanges.size());
    for (size_t x = 0; x < missing_.size(); ++x) missing_[x] = net_.members(net_.exchanges[x]);
    AssignWorkers();
    CountFirings();
    run_.step_ends.assign(run_.options.steps, 0);
  }

  absl::Status Run() {
    for (Worker& worker : workers_) FireNext(&worker);
    while (!events_.empty()) {
      now_ = events_.top().time;
      while (!events_.empty() && events_.top().time == now_) {
        const Event event = events_.top();
        events_.pop();
        if (event.stream < 0) {
          Hand(event.message);
        } else if (event.landed) {
          Land(event.stream);
        } else {
          EndFiring(event.stream);
        }
      }
      for (const int32_t worker : woken_) {
        workers_[worker].woken = false;
        FireNext(&workers_[worker]);
      }
      woken_.clear();
    }
    return CheckEnd();
  }

 private:
  struct Stream {
    FiringOrder::Cursor next = {};
    int64_t step = 0;
    int32_t running = -1;  // place of the actor whose firing has been issued
    int64_t running_step = 0;
    int64_t firing = 0;
    bool entered = false;   // it is an exchange, and not over
    bool landed = false;    // it waits for its worker to do its part
    bool occupies = false;  // its worker, which does the work
  };
  struct Worker {
    std::vector<int32_t> streams;
    size_t look_first = 0;  // in `streams`: after the one that fired last
    bool busy = false, woken = false;
  };

  void AssignWorkers() {
    const bool shared = run_.options.worker_a_device;
    workers_.resize(shared ? net_.own.size() + 1 : net_.streams.size());
    for (size_t s = 0; s < net_.streams.size(); ++s) {
      const StreamOrder& stream = net_.streams[s];
      const size_t of_device = stream.host ? net_.own.size() : stream.rank;
      const size_t worker = shared ? of_device : s;
      run_.worker_of.push_back(static_cast<int32_t>(worker));
      workers_[worker].streams.push_back(static_cast<int32_t>(s));
    }
  }

  void CountFirings() {
    run_.first.assign(1, 0);
    for (const int64_t a_step : net_.firings) {
      run_.first.push_back(run_.first.back() + a_step * run_.options.steps);
    }
    run_.spans.resize(run_.first.back());
    run_.order.reserve(run_.first.back());
    run_.occupies.reserve(run_.first.back());
  }

  bool MayFire(int32_t s) const {
    const Stream& stream = streams_[s];
    return stream.step < run_.options.steps && !stream.entered &&
           CanFire(states_[s], net_.streams[s].firings.PlaceAt(stream.next));
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

  // Whether it keeps the worker busy: an exchange does once all have entered, with the work that
  // the last of them carries.
  bool BeginFiring(int32_t s) {
    Stream& stream = streams_[s];
    const StreamOrder& order = net_.streams[s];
    stream.running = order.firings.PlaceAt(stream.next);
    stream.running_step = stream.step;
    stream.firing = Issue(order.table, stream.running, &states_[s]).firing;
    if (!order.firings.Next(&stream.next)) ++stream.step;
    const int32_t actor = order.actors[stream.running];
    const int32_t x = net_.member_of[actor].exchange;
    stream.entered = x >= 0;
    if (stream.entered && --missing_[x] > 0) return false;
    if (stream.entered && LinkSeconds(actor) > 0) {
      BeginOnLinks(x, LinkSeconds(actor));
      return false;
    }
    stream.occupies = true;
    if (!stream.entered) {
      Run(s);
      return true;
    }
    const NetExchange& exchange = net_.exchanges[x];
    missing_[x] = net_.members(exchange);
    for (int32_t m = 0; m < net_.members(exchange); ++m) {
      Run(net_.stream_of[net_.MemberOf(exchange, m)]);
    }
    return true;
  }

  double LinkSeconds(int32_t actor) const {
    const std::vector<double>& links = run_.options.link_seconds;
    return links.empty() ? 0 : links[net_.specs[actor].actor];
  }

  // All members have entered, and nobody's worker is kept by what is under way.
  void BeginOnLinks(int32_t x, double seconds) {
    const NetExchange& exchange = net_.exchanges[x];
    missing_[x] = net_.members(exchange);
    for (int32_t m = 0; m < net_.members(exchange); ++m) {
      const int32_t actor = net_.MemberOf(exchange, m), s = net_.stream_of[actor];
      run_.spans[run_.first[actor] + streams_[s].firing].begin = now_;
      run_.order.push_back(actor);
      run_.occupies.push_back(0);
      events_.push({now_ + seconds, ++number_, s, {}, true});
    }
  }

  void Land(int32_t s) {
    streams_[s].landed = true;
    Wake(run_.worker_of[s]);
  }

  // The worker's part of an exchange whose packets are here. Whether there was one.
  bool FinishLanded(int32_t s) {
    Stream& stream = streams_[s];
    if (!std::exchange(stream.landed, false)) return false;
    const int32_t actor = net_.streams[s].actors[stream.running];
    const double end = now_ + run_.options.actor_seconds[net_.specs[actor].actor];
    run_.spans[run_.first[actor] + stream.firing].end = end;
    stream.occupies = true;
    events_.push({end, ++number_, s, {}});
    return true;
  }

  void Run(int32_t s) {
    const int32_t actor = net_.streams[s].actors[streams_[s].running];
    const double end = now_ + run_.options.actor_seconds[net_.specs[actor].actor];
    run_.spans[run_.first[actor] + streams_[s].firing] = {now_, end};
    run_.order.push_back(actor);
    run_.occupies.push_back(streams_[s].occupies ? 1 : 0);
    events_.push({end, ++number_, s, {}});
  }

  void EndFiring(int32_t s) {
    Stream& stream = streams_[s];
    const ActorTable& table = net_.streams[s].table;
    sends_.clear();
    // A launch that waits for an event begins when that has come.
    Announce(table, states_[s], stream.running, &sends_);
    Complete(table, stream.running, &states_[s], &sends_);
    for (const int32_t peer : sends_) {
      Send(s, MessageTo(table, states_[s], stream.running, peer));
    }
    run_.step_ends[stream.running_step] = std::max(run_.step_ends[stream.running_step], now_);
    stream.entered = false;
    Worker& worker = workers_[run_.worker_of[s]];
    worker.busy = worker.busy && !std::exchange(stream.occupies, false);
    Wake(run_.worker_of[s]);
  }

  void Send(int32_t from, const Message& message) {
    const int32_t to = net_.stream_of[net_.ReceiverOf(message)];
    const double delay = run_.options.message_seconds;
    if (delay == 0 || run_.worker_of[from] == run_.worker_of[to]) return Hand(message);
    events_.push({now_ + delay, ++number_, -1, message});
  }

  void Hand(const Message& message) {
    const int32_t actor = net_.ReceiverOf(message), s = net_.stream_of[actor];
    Receive(net_.streams[s].table, message, net_.place_of[actor], &states_[s]);
    Wake(run_.worker_of[s]);
  }

  void Wake(int32_t worker) {
    if (std::exchange(workers_[worker].woken, true)) return;
    woken_.push_back(worker);
  }

  absl::Status CheckEnd() const {
    for (size_t s = 0; s < streams_.size(); ++s) {
      if (streams_[s].step == run_.options.steps) continue;
      const StreamOrder& stream = net_.streams[s];
      return absl::InternalError(absl::StrCat(
          "program ", net_.program, " is stuck after ", run_.order.size(), " firings: ",
          DescribeWait(net_, stream, stream.firings.PlaceAt(streams_[s].next), states_[s])));
    }
    return absl::OkStatus();
  }

  SimulatedRun& run_;
  const ActorNet& net_;
  std::vector<ActorStates> states_;  // by stream
  std::vector<Stream> streams_;
  std::vector<Worker> workers_;
  std::vector<int32_t> woken_;
  std::vector<int64_t> missing_;  // by exchange: members that have not entered
  std::priority_queue<Event> events_;
  std::vector<int32_t> sends_;
  double now_ = 0;
  int64_t number_ = 0;
};

std::vector<Doing> DoingOf(const ActorNet& net, const proto::Program& program) {
  std::vector<Doing> doing;
  for (size_t a = 0; a < net.specs.size(); ++a) {
    const proto::Actor& actor = program.actor(static_cast<int>(net.specs[a].actor));
    if (net.streams[net.stream_of[a]].host) {
      doing.push_back(Doing::kHost);
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

absl::Status CheckFirings(const ActorNet& net, int64_t steps) {
  int64_t a_step = 0;
  for (const StreamOrder& stream : net.streams) a_step += stream.firings.size();
  const int64_t most = std::max<int64_t>(1, kMostFirings / std::max<int64_t>(1, a_step));
  if (steps <= most) return absl::OkStatus();
  return InputError(absl::StrCat("--steps=", steps),
                    absl::StrCat("are too many to simulate: one takes ", a_step, " firings"),
                    absl::StrCat("use at most ", most));
}

}  // namespace

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
    ASSIGN_OR_RETURN(StageMesh mesh, StageMeshOf(plan));
    mesh = OneDeviceAStage(std::move(mesh));
    SimulatedRun run;
    ASSIGN_OR_RETURN(run.net, Instantiate(plan, p, mesh, {0, mesh.ranks()}));
    RETURN_IF_ERROR(CheckFirings(run.net, options.steps));
    run.options = options;
    run.doing = DoingOf(run.net, plan.program(p));
    run.steps_a_round = std::max<int64_t>(1, plan.program(p).steps_a_round());
    RETURN_IF_ERROR(Clock(&run).Run());
    return run;
  }
  return absl::NotFoundError(absl::StrCat("the plan has no program ", std::string(program)));
}

}  // namespace oneflow

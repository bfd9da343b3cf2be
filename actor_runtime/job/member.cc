#include "actor_runtime/job/member.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <glog/logging.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "actor_runtime/job/job_channel.h"
#include "actor_runtime/job/job_server.h"
#include "actor_runtime/job/job_stream.h"
#include "actor_runtime/job/member_state.h"
#include "actor_runtime/job/outbox.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr double kLeastSilence = 0.1, kMostSilence = 3600;
// How long process 0 waits for another attempt to let go of its port.
constexpr JobTime kPortWait = 10 * kJobSecond;

JobTime FromSeconds(double seconds) { return static_cast<JobTime>(seconds * kJobSecond); }

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

// A thread that does what it is given, in order.
class Worker {
 public:
  Worker() : thread_([this] { Run(); }) {}
  ~Worker() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  void Do(std::function<void()> work) {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
    }
    wake_.notify_one();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stop_ = false;
  std::thread thread_;  // the last member: it uses the others
};

// HOST of HOST:PORT; brackets of an IPv6 address go with it.
std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

bool IsNumeric(const std::string& host) {
  return host.front() == '[' || host.find_first_not_of("0123456789.") == std::string::npos;
}
bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "[::1]" || (IsNumeric(host) && host.rfind("127.", 0) == 0);
}

absl::Status CheckOptions(const MemberOptions& options) {
  if (options.processes < 1) {
    return InputError("--processes", absl::StrCat(options.processes, " is less than 1"), "");
  }
  if (options.process < 0 || options.process >= options.processes) {
    return InputError(
        "--process_index",
        absl::StrCat(options.process, " is not below --processes=", options.processes),
        "number the processes from 0");
  }
  if (!(options.silence_seconds >= kLeastSilence && options.silence_seconds <= kMostSilence)) {
    return InputError("silence_seconds", absl::StrCat(options.silence_seconds, " is out of range"),
                      absl::StrCat("use ", kLeastSilence, " to ", kMostSilence));
  }
  if (!(options.join_seconds > 0 && options.join_seconds <= 24 * 3600)) {
    return InputError("join_seconds", absl::StrCat(options.join_seconds, " is out of range"),
                      "use up to 86400");
  }
  const size_t colon = options.coordinator.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(options.coordinator.substr(colon + 1), &port) || port < 0 || port > 65535 ||
      (port == 0 && options.process != 0)) {
    return InputError("--coordinator", absl::StrCat("\"", options.coordinator, "\""),
                      "give HOST:PORT");
  }
  if (!options.keys.has_value() && !(IsLoopback(HostOf(options.coordinator)) &&
                                     (options.listen.empty() || IsLoopback(options.listen)))) {
    return InputError(
        "--coordinator",
        absl::StrCat(options.coordinator, " is not on loopback, and there are no keys of the job"),
        "make a folder of keys with --make_job_keys=FOLDER and give it to all "
        "processes");
  }
  return absl::OkStatus();
}

}  // namespace

class Member::Impl {
 public:
  Impl(MemberOptions options, MemberCallbacks callbacks)
      : options_(std::move(options)),
        callbacks_(std::move(callbacks)),
        credentials_(options_.keys.has_value() ? CredentialsOf(*options_.keys) : JobCredentials()),
        state_({.self = Identity(),
                .coordinator = options_.coordinator,
                .join = FromSeconds(options_.join_seconds),
                .policy = options_.policy},
               BootTime()) {}

  ~Impl() {
    {
      // Who has failed and goes at once takes the time to say so.
      std::unique_lock lock(mutex_);
      if (failing_) {
        changed_.wait_for(lock, std::chrono::nanoseconds(MemberState::kFailing),
                          [&] { return state_.IsOver(); });
      }
      stopping_ = true;
    }
    changed_.notify_all();
    if (beats_.joinable()) beats_.join();
    if (server_ != nullptr) server_->CloseLocal();
    {
      std::unique_lock lock(mutex_);
      closed_ = true;
      const std::shared_ptr<JobStream> stream = stream_;
      lock.unlock();
      if (stream != nullptr) stream->Cancel();
      lock.lock();
      changed_.wait(lock, [&] { return streams_ == 0; });
    }
    if (server_ != nullptr) server_->Stop();
  }

  absl::Status Join() {
    QuietGrpc();
    if (options_.process == 0) RETURN_IF_ERROR(StartServer());
    Do([&](auto emit) { state_.Start(BootTime(), emit); });
    beats_ = std::thread([this] { Beat(); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return joined_ || over_; });
    if (!joined_) return state_.status();
    announce_end_ = true;
    if (over_ && !state_.status().ok()) AnnounceEnd();
    return absl::OkStatus();
  }

  int port() const {
    if (server_ != nullptr) return server_->port();
    int port = 0;
    CHECK(
        absl::SimpleAtoi(options_.coordinator.substr(options_.coordinator.rfind(':') + 1), &port));
    return port;
  }

  template <typename Wish>
  void Do(Wish wish) {
    {
      std::lock_guard lock(mutex_);
      wish([&](MemberAction action) { outbox_.Put(std::move(action)); });
      lease_.store(state_.LeaseUntil(), std::memory_order_relaxed);
    }
    outbox_.Drain([&](MemberAction action) { Perform(std::move(action)); });
  }

  template <typename Fact>
  auto Read(Fact fact) const {
    std::lock_guard lock(mutex_);
    return fact(state_);
  }

  absl::StatusOr<std::string> Fetch(const std::string& key) {
    std::shared_ptr<std::optional<std::string>> value;
    Do([&](auto emit) {
      auto& waits = values_[key];
      if (waits == nullptr) waits = std::make_shared<std::optional<std::string>>();
      value = waits;
      state_.Fetch(key, emit);
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return value->has_value() || over_; });
    if (!value->has_value()) return Over();
    return **value;
  }

  absl::StatusOr<std::string> Round(
      const std::string& name, std::string part,
      const std::function<absl::StatusOr<std::string>(std::span<const std::string>)>& at_first) {
    std::lock_guard one_at_a_time(round_mutex_);
    Do([&](auto emit) { state_.Round(name, std::move(part), emit); });
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return answer_.has_value() || parts_.has_value() || over_; });
      if (answer_.has_value()) {
        const absl::StatusOr<std::string> answer = *std::move(answer_);
        answer_.reset();
        return answer;
      }
      if (over_) return Over();
      const std::vector<std::string> parts = *std::move(parts_);
      parts_.reset();
      lock.unlock();
      server_->AnswerRound(round_number_, at_first(parts));
      lock.lock();
    }
  }

  void Fail(const absl::Status& why) {
    Do([&](auto emit) {
      failing_ = true;
      state_.Fail(why, BootTime(), emit);
    });
  }

  bool MayWrite() const {
    const JobTime now = BootTime();
    return now < lease_.load(std::memory_order_relaxed) &&
           (server_ == nullptr || options_.policy.write_without_lease ||
            now < server_->LeaseUntil());
  }

  absl::Status Leave() {
    Do([&](auto emit) { state_.Leave(emit); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return over_; });
    return state_.status();
  }

  MemberState& machine() { return state_; }  // in a wish of Do

 private:
  JobIdentity Identity() {
    if (options_.host.empty()) options_.host = HostName();
    if (options_.token.empty() && options_.keys.has_value()) options_.token = options_.keys->token;
    return {.process = options_.process,
            .processes = options_.processes,
            .attempt = options_.attempt,
            .host = options_.host,
            .ranks = options_.ranks,
            .token = options_.token,
            .facts = options_.facts};
  }

  std::string ListenAddress() const {
    const std::string host = HostOf(options_.coordinator);
    const std::string port = options_.coordinator.substr(host.size());
    if (!options_.listen.empty()) return options_.listen + port;
    // A name may lead to another address here than elsewhere.
    return IsLoopback(host) || IsNumeric(host) ? options_.coordinator : "[::]" + port;
  }

  absl::Status Over() const {
    return state_.status().ok() ? absl::FailedPreconditionError("the process has left the job")
                                : state_.status();
  }

  absl::Status StartServer() {
    CoordinatorOptions coordinator{.self = Identity(),
                                   .join = FromSeconds(options_.join_seconds),
                                   .silence = FromSeconds(options_.silence_seconds),
                                   .policy = options_.policy};
    const JobServer::Events events{
        .to_local =
            [this](const proto::JobToMember& message) {
              Do([&](auto emit) { state_.Receive(1, message, BootTime(), emit); });
            },
        .report =
            [this](proto::JobReport report) {
              if (!callbacks_.on_report) return;
              callback_thread_.Do([this, report = std::move(report)] {
                callbacks_.on_report(report.run(), report.step(),
                                     {report.value().data(), size_t(report.value_size())});
              });
            },
        .round =
            [this](uint64_t number, std::vector<std::string> parts) {
              std::lock_guard lock(mutex_);
              round_number_ = number;
              parts_ = std::move(parts);
              changed_.notify_all();
            }};
    const JobTime until = BootTime() + std::min(kPortWait, FromSeconds(options_.join_seconds));
    for (;;) {
      auto server = JobServer::Start(ListenAddress(), credentials_, coordinator, events);
      if (server.ok()) {
        server_ = *std::move(server);
        if (callbacks_.on_listen) callbacks_.on_listen(server_->port());
        return absl::OkStatus();
      }
      if (BootTime() >= until) {
        return InputError("--coordinator", std::string(ToStd(server.status().message())),
                          "give an address of this host and a port that is free");
      }
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::nanoseconds(MemberState::kRetry));
    }
  }

  // The thread of the beats: it does nothing else, so that nothing delays it.
  void Beat() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const std::chrono::nanoseconds every(state_.TickEvery());
      lock.unlock();
      Do([&](auto emit) { state_.Tick(BootTime(), emit); });
      if (server_ != nullptr) server_->Tick();
      lock.lock();
      changed_.wait_for(lock, every, [&] { return stopping_; });
    }
  }

  void AnnounceEnd() {
    if (!announce_end_ || end_announced_ || !callbacks_.on_end) return;
    end_announced_ = true;
    callback_thread_.Do([this, why = state_.status()] { callbacks_.on_end(why); });
  }

  void Connect(uint64_t number) {
    if (options_.process == 0) {
      CHECK_EQ(number, 1u) << "the stream within process 0 does not break";
      return server_->OpenLocal();
    }
    {
      std::lock_guard lock(mutex_);
      if (closed_) return;
      ++streams_;
    }
    auto stream = JobStream::Open(
        options_.coordinator, credentials_,
        {.message =
             [this, number](const proto::JobToMember& message) {
               Do([&](auto emit) { state_.Receive(number, message, BootTime(), emit); });
             },
         .done =
             [this, number](const std::string& why) {
               Do([&](auto emit) { state_.Lose(number, why, BootTime(), emit); });
               std::lock_guard lock(mutex_);
               --streams_;
               changed_.notify_all();
             }});
    bool closed;
    {
      std::lock_guard lock(mutex_);
      std::swap(stream_, stream);
      closed = closed_;
    }
    if (stream != nullptr) stream->Cancel();  // The one before.
    if (closed) stream_->Cancel();
  }

  void Perform(MemberAction action) {
    std::shared_ptr<JobStream> stream;
    {
      std::lock_guard lock(mutex_);
      stream = stream_;
    }
    switch (action.kind) {
      case MemberAction::kConnect: return Connect(action.stream);
      case MemberAction::kSend:
        if (server_ != nullptr) return server_->FromLocal(action.message);
        if (stream != nullptr) stream->Send(std::move(action.message));
        return;
      case MemberAction::kDisconnect:
        if (server_ != nullptr) return server_->CloseLocal();
        if (stream != nullptr) stream->Close();
        return;
      case MemberAction::kFreeze:
        return callback_thread_.Do([this] {
          const StepPosition position = callbacks_.freeze ? callbacks_.freeze() : StepPosition{};
          Do([&](auto emit) { state_.Frozen(position, emit); });
        });
      case MemberAction::kStopAt:
        if (!callbacks_.stop_at) return;
        return callback_thread_.Do(
            [this, position = action.position] { callbacks_.stop_at(position); });
      default: break;
    }
    std::lock_guard lock(mutex_);
    switch (action.kind) {
      case MemberAction::kJoined: joined_ = true; break;
      case MemberAction::kValue:
        *values_[action.key] = std::move(action.value);
        values_.erase(action.key);
        break;
      case MemberAction::kAnswer:
        if (action.status.ok()) {
          answer_.emplace(std::move(action.value));
        } else {
          answer_.emplace(action.status);
        }
        break;
      case MemberAction::kLeft: over_ = true; break;
      case MemberAction::kEnd:
        over_ = true;
        AnnounceEnd();
        break;
      default: LOG(FATAL) << "unknown action " << action.kind;
    }
    changed_.notify_all();
  }

  MemberOptions options_;
  const MemberCallbacks callbacks_;
  const JobCredentials credentials_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  MemberState state_;  // under mutex_, as all up to round_mutex_
  bool joined_ = false, over_ = false, stopping_ = false, failing_ = false, closed_ = false;
  bool announce_end_ = false, end_announced_ = false;
  std::map<std::string, std::shared_ptr<std::optional<std::string>>> values_;
  std::optional<absl::StatusOr<std::string>> answer_;
  std::optional<std::vector<std::string>> parts_;  // process 0: of a round that is to be answered
  uint64_t round_number_ = 0;
  std::shared_ptr<JobStream> stream_;
  int streams_ = 0;  // not done

  std::mutex round_mutex_;
  std::atomic<JobTime> lease_{0};
  Outbox<MemberAction> outbox_;
  std::unique_ptr<JobServer> server_;
  std::thread beats_;
  Worker callback_thread_;  // the last member: what it does uses the others
};

Member::Member(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Member::~Member() = default;

absl::StatusOr<std::unique_ptr<Member>> Member::Join(MemberOptions options,
                                                     MemberCallbacks callbacks) {
  RETURN_IF_ERROR(CheckOptions(options));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(callbacks));
  RETURN_IF_ERROR(impl->Join());
  return std::unique_ptr<Member>(new Member(std::move(impl)));
}

int Member::port() const { return impl_->port(); }
int Member::processes_on_host() const {
  return impl_->Read([](const MemberState& s) { return s.processes_on_host(); });
}
int Member::index_on_host() const {
  return impl_->Read([](const MemberState& s) { return s.index_on_host(); });
}
void Member::Begins(uint64_t run, std::string_view program, int64_t first_step, int64_t steps) {
  impl_->Do([&](auto emit) { impl_->machine().Begin(run, program, first_step, steps, emit); });
}
void Member::AskStop() {
  impl_->Do([&](auto emit) { impl_->machine().AskStop(emit); });
}
void Member::Report(uint64_t run, int64_t step, std::span<const double> values) {
  impl_->Do(
      [&](auto emit) { impl_->machine().Report(run, step, values.data(), values.size(), emit); });
}
void Member::Post(std::string key, std::string value) {
  impl_->Do([&](auto emit) { impl_->machine().Post(std::move(key), std::move(value), emit); });
}
absl::StatusOr<std::string> Member::Fetch(const std::string& key) { return impl_->Fetch(key); }
absl::StatusOr<std::string> Member::Round(
    const std::string& name, std::string part,
    std::function<absl::StatusOr<std::string>(std::span<const std::string>)> at_first) {
  return impl_->Round(name, std::move(part), at_first);
}
void Member::Fail(const absl::Status& why) { impl_->Fail(why); }
bool Member::MayWrite() const { return impl_->MayWrite(); }
absl::Status Member::Leave() { return impl_->Leave(); }
absl::Status Member::status() const {
  return impl_->Read([](const MemberState& s) { return s.status(); });
}
std::string Member::WaitsFor() const {
  return impl_->Read([](const MemberState& s) { return s.WaitsFor(); });
}
Member::ClockOffset Member::clock_offset() const {
  const auto offset = impl_->Read([](const MemberState& s) { return s.clock_offset(); });
  if (offset.error < 0) return {};
  return {static_cast<double>(offset.offset) / kJobSecond,
          static_cast<double>(offset.error) / kJobSecond};
}

}  // namespace oneflow

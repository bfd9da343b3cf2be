#include "training/job/member.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <glog/logging.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "training/job/job_channel.h"
#include "training/job/job_server.h"
#include "training/job/job_stream.h"
#include "training/job/member_state.h"
#include "training/job/outbox.h"
#include "training/job/serial_worker.h"

namespace oneflow {
namespace {

JobTime FromSeconds(double seconds) { return static_cast<JobTime>(seconds * kJobSecond); }

}  // namespace

class Member::Impl {
 public:
  Impl(MemberOptions options, MemberCallbacks callbacks)
      : options_(std::move(options)),
        callbacks_(std::move(callbacks)),
        credentials_(options_.keys.has_value() ? MakeCredentials(*options_.keys)
                                               : JobCredentials()),
        state_({.self = Identity(),
                .coordinator = options_.coordinator,
                .other_ports = options_.other_ports,
                .join = FromSeconds(options_.join_seconds)},
               BootTime()) {}

  // The order of the end: the failure is reported; no tick connects anew; the coordinator hears
  // that process 0 goes while it can still tell the others; streams, whose callbacks use this, are
  // done; the server stops. callback_thread_ then does the tasks that are left.
  ~Impl() {
    {
      // A process that has failed stays until it has reported the failure.
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
      changed_.wait(lock, [&] { return streams_.empty(); });
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
    lock.unlock();
    {
      // Waits for a call of while_joining in progress, without mutex_, which that call may need.
      std::lock_guard joining(joining_mutex_);
      is_joining_ = false;
    }
    lock.lock();
    if (!joined_) return state_.status();
    // on_end never comes before there is a member to return: an end until now is announced here.
    announce_end_ = true;
    if (over_ && !state_.status().ok()) AnnounceEnd();
    return absl::OkStatus();
  }

  // Does what JobServer::Do does: actions are performed in order, without the lock, because they
  // may call Do.
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

  int port() const {
    if (server_ != nullptr) return server_->port();
    const std::string address = Read([](const MemberState& state) { return state.Address(); });
    int port = 0;
    CHECK(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    return port;
  }

  absl::StatusOr<std::string> Fetch(const std::string& key) {
    // Callers of one key share its entry, which is there before the request goes out: in process 0
    // the value may arrive within Do. They keep it when kValue takes it out of values_.
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
      // An answer counts even if the attempt has ended behind it.
      changed_.wait(lock, [&] { return answer_.has_value() || parts_.has_value() || over_; });
      if (answer_.has_value()) {
        const absl::StatusOr<std::string> answer = *std::move(answer_);
        answer_.reset();
        return answer;
      }
      if (over_) return Over();
      const std::vector<std::string> parts = *std::move(parts_);
      parts_.reset();
      // Without the lock: at_first is the program's, and AnswerRound answers this process, too.
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

  // The other processes may give process 0 up, too, so it also needs the coordinator's lease: that
  // all of them have heard it.
  bool MayWrite() const {
    const JobTime now = BootTime();
    return now < lease_.load(std::memory_order_relaxed) &&
           (server_ == nullptr || now < server_->LeaseUntil());
  }

  absl::Status AwaitEnd() {
    std::unique_lock lock(mutex_);
    CHECK(failing_);
    changed_.wait(lock, [&] { return over_; });
    return state_.status();
  }

  bool AwaitMayWrite() {
    if (MayWrite()) return true;
    std::unique_lock lock(mutex_);
    // A renewal of the lease is read without the lock; nobody signals it.
    while (!over_ && !MayWrite()) {
      changed_.wait_for(lock, std::chrono::nanoseconds(MemberState::kRetry));
    }
    return !over_;
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
    return {.process = options_.process,
            .processes = options_.processes,
            .attempt = options_.attempt,
            .host = options_.host,
            .ranks = options_.ranks,
            .token = options_.token,
            .facts = options_.facts,
            .failed = options_.failed,
            .folder = options_.folder,
            .names_folder = options_.names_folder};
  }

  absl::Status Over() const {
    return state_.status().ok() ? absl::FailedPreconditionError("the process has left the job")
                                : state_.status();
  }

  // Events come while the server performs actions, so those of the program go to callback_thread_.
  // The parts of a round go to the thread that waits in Round, which calls at_first.
  absl::Status StartServer() {
    CoordinatorOptions coordinator{.self = Identity(),
                                   .join = FromSeconds(options_.join_seconds),
                                   .silence = FromSeconds(options_.silence_seconds),
                                   .hosts = options_.hosts};
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
        .note =
            [this](int process, proto::JobNote note) {
              if (!callbacks_.on_note) return;
              callback_thread_.Do([this, process, note = std::move(note)] {
                callbacks_.on_note(process, note.name(), note.value());
              });
            },
        .round =
            [this](uint64_t number, std::vector<std::string> parts) {
              std::lock_guard lock(mutex_);
              round_number_ = number;
              parts_ = std::move(parts);
              changed_.notify_all();
            }};
    // Another attempt, or another job, may be about to release its port.
    const auto until = BootTime() + std::min(MemberState::kPatience, state_.join());
    for (;;) {
      absl::Status failed;
      for (const std::string& address : ListenAddresses(options_)) {
        auto server = JobServer::Start(address, credentials_, coordinator, events);
        failed.Update(server.status());
        if (!server.ok()) continue;
        server_ = *std::move(server);
        if (callbacks_.on_listen) callbacks_.on_listen(server_->port());
        return absl::OkStatus();
      }
      if (BootTime() >= until) {
        return InputError("--coordinator", std::string(ToStd(failed.message())),
                          "give an address of this host and a port that is free");
      }
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::nanoseconds(MemberState::kRetry));
    }
  }

  void CheckJoining() {
    absl::Status status;
    {
      std::lock_guard lock(joining_mutex_);
      if (is_joining_ && callbacks_.while_joining) status = callbacks_.while_joining();
      if (!status.ok()) is_joining_ = false;
    }
    if (!status.ok()) Fail(status);
  }

  // The thread of the beats does nothing else, so that nothing delays it.
  void Beat() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      const std::chrono::nanoseconds every(state_.TickEvery());
      lock.unlock();
      Do([&](auto emit) { state_.Tick(BootTime(), emit); });
      CheckJoining();
      if (server_ != nullptr) server_->Tick();
      std::vector<std::shared_ptr<JobStream>> done;
      lock.lock();
      done.swap(done_streams_);
      lock.unlock();
      // Without the lock: the last channel waits for gRPC's threads, which may wait for mutex_.
      done.clear();
      lock.lock();
      changed_.wait_for(lock, every, [&] { return stopping_; });
    }
  }

  void AnnounceEnd() {
    if (!announce_end_ || end_announced_ || !callbacks_.on_end) return;
    end_announced_ = true;
    callback_thread_.Do([this, why = state_.status()] { callbacks_.on_end(why); });
  }

  // The stream starts when it is in streams_, where `done`, which may come at once, looks for it.
  // The stream before is cancelled last: the machine ignores its events by its number. The
  // destructor may have begun meanwhile, and has cancelled the stream before instead of this one.
  void Connect(uint64_t number, const std::string& address) {
    if (options_.process == 0) {
      CHECK_EQ(number, 1u) << "the stream within process 0 does not break";
      return server_->OpenLocal();
    }
    {
      std::lock_guard lock(mutex_);
      if (closed_) return;
      streams_[number] = nullptr;  // The destructor waits for it from here on.
    }
    auto stream = JobStream::Open(
        address, credentials_,
        {.message =
             [this, number](const proto::JobToMember& message) {
               Do([&](auto emit) { state_.Receive(number, message, BootTime(), emit); });
             },
         .done =
             [this, number](const std::string& why) {
               Do([&](auto emit) { state_.Lose(number, why, BootTime(), emit); });
               std::lock_guard lock(mutex_);
               done_streams_.push_back(std::move(streams_[number]));
               streams_.erase(number);
               changed_.notify_all();
             }});
    std::shared_ptr<JobStream> before;
    bool closed;
    {
      std::lock_guard lock(mutex_);
      before = std::exchange(stream_, stream);
      streams_[number] = stream;
      closed = closed_;
    }
    stream->Start();
    if (before != nullptr) before->Cancel();
    if (closed) stream->Cancel();
  }

  // Callbacks go to callback_thread_: this thread is gRPC's, that of the beats, or one of the
  // program, and may not be delayed. The other actions change what threads wait for under mutex_.
  void Perform(MemberAction action) {
    std::shared_ptr<JobStream> stream;
    {
      std::lock_guard lock(mutex_);
      stream = stream_;
    }
    switch (action.kind) {
      case MemberAction::kConnect: return Connect(action.stream, action.value);
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
      case MemberAction::kWaits:
        if (!callbacks_.on_waits) return;
        return callback_thread_.Do(
            [this, missing = std::move(action.value)] { callbacks_.on_waits(missing); });
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
  std::optional<std::vector<std::string>>
      parts_;  // process 0: the parts of a round that is to be answered
  uint64_t round_number_ = 0;
  std::shared_ptr<JobStream> stream_;
  std::map<uint64_t, std::shared_ptr<JobStream>> streams_;  // not done, by number
  std::vector<std::shared_ptr<JobStream>> done_streams_;    // to be destroyed off gRPC's threads

  std::mutex joining_mutex_;  // held while while_joining is called
  bool is_joining_ = true;
  std::mutex round_mutex_;
  std::atomic<JobTime> lease_{0};
  Outbox<MemberAction> outbox_;
  std::unique_ptr<JobServer> server_;
  std::thread beats_;
  SerialWorker callback_thread_;  // the last member, because its tasks use the others
};

Member::Member(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Member::~Member() = default;

absl::StatusOr<std::unique_ptr<Member>> Member::Join(MemberOptions options,
                                                     MemberCallbacks callbacks) {
  RETURN_IF_ERROR(CheckMemberOptions(options));
  auto impl = std::make_unique<Impl>(std::move(options), std::move(callbacks));
  RETURN_IF_ERROR(impl->Join());
  return std::unique_ptr<Member>(new Member(std::move(impl)));
}

int Member::port() const { return impl_->port(); }
int Member::processes_on_host() const {
  return impl_->Read([](const MemberState& s) { return s.processes_on_host(); });
}
JobTime Member::silence() const {
  return impl_->Read([](const MemberState& s) { return s.silence(); });
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
void Member::Note(std::string name, std::string value) {
  impl_->Do([&](auto emit) { impl_->machine().Note(std::move(name), std::move(value), emit); });
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
absl::Status Member::AwaitEnd() { return impl_->AwaitEnd(); }
bool Member::MayWrite() const { return impl_->MayWrite(); }
bool Member::AwaitMayWrite() { return impl_->AwaitMayWrite(); }
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

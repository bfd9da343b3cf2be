#include "training/job/job_server.h"

#include <time.h>

#include <deque>
#include <utility>

#include "oneflow_core/base/status.h"
#include "proto/job.grpc.pb.h"

namespace oneflow {
namespace {

// The time that a connection has for TLS and the first words of HTTP/2, and that it may be without
// a stream.
constexpr int kStrangerMilliseconds = 10'000;

}  // namespace

JobTime BootTime() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<JobTime>(now.tv_sec) * kJobSecond + now.tv_nsec;
}

// The server's end of a stream. gRPC calls the methods On...; any thread may call the others.
//
// mutex_ is never held while JobServer::Do runs: an action of the coordinator may be a Send or a
// Close of this very stream.
class JobServer::Stream final
    : public grpc::ServerBidiReactor<proto::JobFromMember, proto::JobToMember> {
 public:
  Stream(JobServer* server, uint64_t number) : server_(server), number_(number) {}

  void Start() { StartRead(&read_); }

  void Send(proto::JobToMember message) {
    std::lock_guard lock(mutex_);
    if (finished_ || closing_) return;
    queue_.insert(QueuePosition(queue_, message), std::move(message));
    WriteNext();
  }

  void Close() {
    std::lock_guard lock(mutex_);
    closing_ = true;
    WriteNext();
  }

 private:
  // Closes only once the queue is empty: the last message tells the process why it is closed.
  void WriteNext() {
    if (is_writing_ || finished_) return;
    if (!queue_.empty()) {
      writing_ = std::move(queue_.front());
      queue_.pop_front();
      is_writing_ = true;
      StartWrite(&writing_);
    } else if (closing_) {
      FinishOnce();
    }
  }

  void FinishOnce() {
    if (finished_) return;
    finished_ = true;
    Finish(grpc::Status::OK);
  }

  // A broken stream may bring both OnReadDone(false) and OnCancel; the coordinator knows nothing of
  // the connection the second time. It is told first, while Finish may let OnDone come at once.
  void Break() {
    server_->Do([&](auto emit) { server_->coordinator_.Close(number_, BootTime(), emit); });
    std::lock_guard lock(mutex_);
    FinishOnce();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Break();
    server_->Do(
        [&](auto emit) { server_->coordinator_.Receive(number_, read_, BootTime(), emit); });
    // Only now: messages of a process are taken in order, and gRPC holds back one that sends more
    // than it is served.
    StartRead(&read_);
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    is_writing_ = false;
    if (ok) {
      WriteNext();
    } else {
      FinishOnce();  // The read in progress fails, too, and tells the coordinator.
    }
  }

  void OnCancel() override { Break(); }

  void OnDone() override {
    std::shared_ptr<Stream> last;  // This stream is destroyed after the lock has been released.
    std::lock_guard lock(server_->streams_mutex_);
    const auto found = server_->streams_.find(number_);
    last = std::move(found->second);
    server_->streams_.erase(found);
    // Under the lock, because Stop may return, and the server be destroyed, once it is released.
    server_->no_streams_.notify_all();
  }

  JobServer* const server_;
  const uint64_t number_;
  proto::JobFromMember read_;
  proto::JobToMember writing_;
  std::mutex mutex_;
  std::deque<proto::JobToMember> queue_;
  bool is_writing_ = false, closing_ = false, finished_ = false;
};

class JobServer::Service final : public proto::JobControl::CallbackService {
 public:
  explicit Service(JobServer* server) : server_(server) {}

  grpc::ServerBidiReactor<proto::JobFromMember, proto::JobToMember>* Attend(
      grpc::CallbackServerContext*) override {
    // The coordinator's actions find the stream from Open on, and Open comes before any message.
    std::shared_ptr<Stream> stream;
    uint64_t number;
    {
      std::lock_guard lock(server_->streams_mutex_);
      number = ++server_->last_stream_;
      stream = std::make_shared<Stream>(server_, number);
      server_->streams_[number] = stream;
    }
    server_->Do([&](auto) { server_->coordinator_.Open(number, BootTime()); });
    stream->Start();
    return stream.get();
  }

 private:
  JobServer* const server_;
};

JobServer::JobServer(CoordinatorOptions options, Events events)
    : events_(std::move(events)), coordinator_(std::move(options), BootTime()) {
  lease_.store(coordinator_.LeaseUntil());
  service_ = std::make_unique<Service>(this);
}

absl::StatusOr<std::unique_ptr<JobServer>> JobServer::Start(const std::string& address,
                                                            const JobCredentials& credentials,
                                                            CoordinatorOptions options,
                                                            Events events) {
  const int processes = options.self.processes;
  std::unique_ptr<JobServer> server(new JobServer(std::move(options), std::move(events)));
  // The listener accepts, not gRPC, which does not bound the connections of strangers.
  ASSIGN_OR_RETURN(server->listener_, JobListener::Open(address, MostConnections(processes)));
  grpc::ServerBuilder builder;
  using Acceptors = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  server->acceptor_ =
      builder.experimental().AddExternalConnectionAcceptor(Acceptors::FROM_FD, credentials.server);
  builder.RegisterService(server->service_.get());
  // A peer that connects and does not go on is a stranger.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kStrangerMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kStrangerMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);
  builder.SetMaxReceiveMessageSize(kMostMessageBytes);
  builder.SetMaxSendMessageSize(kMostMessageBytes);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) return absl::InternalError("gRPC makes no server");
  server->listener_->Start([acceptor = server->acceptor_.get()](int listening, int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = listening;
    connection.fd = fd;
    acceptor->HandleNewConnection(&connection);
  });
  return server;
}

JobServer::~JobServer() { Stop(); }

// The listener stops first, so that no connection comes; then the shutdown cancels the streams.
// Their last calls use this server, so they are awaited before gRPC's server is destroyed.
void JobServer::Stop() {
  if (server_ == nullptr) return;
  listener_->Stop();
  server_->Shutdown(std::chrono::system_clock::now());
  std::unique_lock lock(streams_mutex_);
  no_streams_.wait(lock, [&] { return streams_.empty(); });
  lock.unlock();
  server_->Wait();
  server_.reset();
}

// Actions are performed without the lock, because they may lead to further events: a message to
// process 0's own member, whose answer comes back by FromLocal. The outbox keeps their order.
template <typename Event>
void JobServer::Do(Event event) {
  {
    std::lock_guard lock(mutex_);
    event([&](CoordinatorAction action) { outbox_.Put(std::move(action)); });
    // Under the lock, so that no older lease replaces a newer one.
    lease_.store(coordinator_.LeaseUntil(), std::memory_order_relaxed);
  }
  outbox_.Drain([&](CoordinatorAction action) { Perform(std::move(action)); });
}

std::shared_ptr<JobServer::Stream> JobServer::Find(uint64_t connection) {
  std::lock_guard lock(streams_mutex_);
  const auto found = streams_.find(connection);
  return found == streams_.end() ? nullptr : found->second;
}

// A stream may have ended since the coordinator emitted an action for it; then there is nothing to
// do.
void JobServer::Perform(CoordinatorAction action) {
  switch (action.kind) {
    case CoordinatorAction::kReport: return events_.report(std::move(action.report));
    case CoordinatorAction::kNote: return events_.note(action.process, std::move(action.note));
    case CoordinatorAction::kRound: return events_.round(action.number, std::move(action.parts));
    case CoordinatorAction::kSend:
      if (action.connection == Coordinator::kLocalConnection) {
        return events_.to_local(action.message);
      }
      if (auto stream = Find(action.connection)) stream->Send(std::move(action.message));
      return;
    case CoordinatorAction::kClose:
      if (auto stream = Find(action.connection)) stream->Close();
      return;
  }
}

void JobServer::OpenLocal() {
  Do([&](auto) { coordinator_.Open(Coordinator::kLocalConnection, BootTime()); });
}

void JobServer::FromLocal(const proto::JobFromMember& message) {
  Do([&](auto emit) {
    coordinator_.Receive(Coordinator::kLocalConnection, message, BootTime(), emit);
  });
}

void JobServer::CloseLocal() {
  Do([&](auto emit) { coordinator_.Close(Coordinator::kLocalConnection, BootTime(), emit); });
}

void JobServer::Tick() {
  Do([&](auto emit) { coordinator_.Tick(BootTime(), emit); });
}

void JobServer::AnswerRound(uint64_t number, const absl::StatusOr<std::string>& answer) {
  Do([&](auto emit) { coordinator_.AnswerRound(number, answer, BootTime(), emit); });
}

}  // namespace oneflow

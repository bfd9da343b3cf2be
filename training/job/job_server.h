// JobServer: the coordinator behind gRPC, in process 0. Process 0's own member speaks to it without
// a socket.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "training/job/coordinator.h"
#include "training/job/job_channel.h"
#include "training/job/job_listener.h"
#include "training/job/outbox.h"

namespace oneflow {

// CLOCK_BOOTTIME, which goes on while the process, or the machine, sleeps.
JobTime BootTime();

class JobServer {
 public:
  // Called on any thread, one at a time, without locks; must not block.
  struct Events {
    std::function<void(const proto::JobToMember&)> to_local;
    std::function<void(proto::JobReport)> report;
    std::function<void(int process, proto::JobNote)> note;
    std::function<void(uint64_t number, std::vector<std::string> parts)> round;
  };

  // Listens at `address`; fails if the port is taken.
  static absl::StatusOr<std::unique_ptr<JobServer>> Start(const std::string& address,
                                                          const JobCredentials& credentials,
                                                          CoordinatorOptions options,
                                                          Events events);
  ~JobServer();
  // Closes all connections and stops listening; afterwards no event comes.
  void Stop();

  int port() const { return listener_->port(); }
  JobTime LeaseUntil() const { return lease_.load(std::memory_order_relaxed); }

  void OpenLocal();
  void FromLocal(const proto::JobFromMember& message);
  void CloseLocal();
  void Tick();
  void AnswerRound(uint64_t number, const absl::StatusOr<std::string>& answer);

 private:
  class Service;
  class Stream;

  JobServer(CoordinatorOptions options, Events events);
  template <typename Event>
  void Do(Event event);
  void Perform(CoordinatorAction action);
  std::shared_ptr<Stream> Find(uint64_t connection);

  const Events events_;
  std::mutex mutex_;
  Coordinator coordinator_;  // under mutex_
  std::atomic<JobTime> lease_;
  Outbox<CoordinatorAction> outbox_;

  std::mutex streams_mutex_;
  std::condition_variable no_streams_;
  std::map<uint64_t, std::shared_ptr<Stream>> streams_;
  uint64_t last_stream_ = Coordinator::kLocalConnection;

  std::unique_ptr<Service> service_;
  std::unique_ptr<JobListener> listener_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;  // of server_
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace oneflow

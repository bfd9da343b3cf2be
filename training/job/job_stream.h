// JobStream: a process's stream to the coordinator, over gRPC. All calls return at once.
//
// Requirements: it must live until Events::done has been called, and must not be destroyed on a
// thread of gRPC. The last channel of a process ends gRPC's callback threads with it, and a thread
// that waits for its own end aborts the process.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "proto/job.grpc.pb.h"
#include "training/job/job_channel.h"

namespace oneflow {

class JobStream final : private grpc::ClientBidiReactor<proto::JobFromMember, proto::JobToMember> {
 public:
  // Called on gRPC's threads, one at a time. `done`: the stream has ended, alone or by Close or
  // Cancel; it is the last call, made once, with gRPC's reason. Afterwards the stream may be
  // destroyed, even while this returns.
  struct Events {
    std::function<void(const proto::JobToMember&)> message;
    std::function<void(const std::string& why)> done;
  };

  static std::shared_ptr<JobStream> Open(const std::string& address,
                                         const JobCredentials& credentials, Events events);
  void Start();

  void Send(proto::JobFromMember message);
  void Close();   // when all that was sent has gone
  void Cancel();  // now

 private:
  explicit JobStream(Events events) : events_(std::move(events)) {}
  void WriteNext();  // under mutex_
  void Release();    // under mutex_
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  Events events_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<proto::JobControl::Stub> stub_;
  grpc::ClientContext context_;
  proto::JobToMember read_;
  proto::JobFromMember writing_;
  std::mutex mutex_;
  std::deque<proto::JobFromMember> queue_;
  bool is_writing_ = false, closing_ = false;
  bool released_ = false;  // nothing more may be started
};

}  // namespace oneflow

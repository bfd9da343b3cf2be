#include "training/job/job_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace oneflow {

std::shared_ptr<JobStream> JobStream::Open(const std::string& address,
                                           const JobCredentials& credentials, Events events) {
  std::shared_ptr<JobStream> stream(new JobStream(std::move(events)));
  stream->channel_ = OpenJobChannel(address, credentials);
  stream->stub_ = proto::JobControl::NewStub(stream->channel_);
  stream->stub_->async()->Attend(&stream->context_, stream.get());
  // Other threads than gRPC's start writes, so the stream is held until Release.
  stream->AddHold();
  return stream;
}

void JobStream::Start() {
  StartRead(&read_);
  StartCall();
}

void JobStream::Send(proto::JobFromMember message) {
  std::lock_guard lock(mutex_);
  if (released_ || closing_) return;
  queue_.insert(QueuePosition(queue_, message), std::move(message));
  WriteNext();
}

void JobStream::Close() {
  std::lock_guard lock(mutex_);
  if (closing_) return;
  closing_ = true;
  WriteNext();
}

void JobStream::Cancel() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    Release();
  }
  context_.TryCancel();
}

void JobStream::WriteNext() {
  if (is_writing_ || released_) return;
  if (!queue_.empty()) {
    writing_ = std::move(queue_.front());
    queue_.pop_front();
    is_writing_ = true;
    StartWrite(&writing_);
  } else if (closing_) {
    StartWritesDone();
    Release();
  }
}

void JobStream::Release() {
  if (released_) return;
  released_ = true;
  RemoveHold();
}

void JobStream::OnReadDone(bool ok) {
  if (!ok) {
    std::lock_guard lock(mutex_);
    Release();
    return;
  }
  events_.message(read_);
  StartRead(&read_);
}

void JobStream::OnWriteDone(bool ok) {
  std::lock_guard lock(mutex_);
  is_writing_ = false;
  if (ok) WriteNext();
}

void JobStream::OnDone(const grpc::Status& status) {
  const std::function<void(const std::string&)> done = std::move(events_.done);
  done(status.ok() ? "the stream was closed" : status.error_message());
}

}  // namespace oneflow

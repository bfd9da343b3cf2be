// The gRPC settings that both ends of the control plane share: credentials and limits.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "training/job/job_keys.h"

namespace oneflow {

// The largest message: a piece of a value, and its other fields.
inline constexpr int kMostMessageBytes = 8 << 20;

// The position of a message in the send queue: beats go first, because the other end takes their
// absence for silence; all other messages stay in order. Requires that the sender of a beat has
// received a message on the stream.
template <typename Queue, typename Message>
auto QueuePosition(Queue& queue, const Message& message) {
  return message.has_beat() ? queue.begin() : queue.end();
}

// Credentials for opening and accepting connections; by default plain text.
struct JobCredentials {
  std::shared_ptr<grpc::ServerCredentials> server = grpc::InsecureServerCredentials();
  std::shared_ptr<grpc::ChannelCredentials> channel = grpc::InsecureChannelCredentials();
  std::string server_name;  // that the server's certificate has to have; empty: plain text
};

// TLS in which both ends prove that they have the job's keys.
JobCredentials MakeCredentials(const JobKeys& keys);

// Opens a separate channel, which shares no connection with others of this process.
std::shared_ptr<grpc::Channel> OpenJobChannel(const std::string& address,
                                              const JobCredentials& credentials);

// Keeps gRPC's log lines about connections off the terminal; statuses carry the same facts.
// GRPC_VERBOSITY in the environment turns them on.
void QuietGrpc();

}  // namespace oneflow

// How both ends of the control plane speak gRPC: credentials and limits.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "actor_runtime/job/job_keys.h"

namespace oneflow {

// The largest message: a piece of a value, and what goes with it.
inline constexpr int kMostMessageBytes = 8 << 20;

// The position of a message in the queue of those to be sent: beats go first, for the other end
// judges us by them; all else stays in order. Requires: a beat's sender has received something on
// the stream.
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

// A channel of its own: it shares no connection with others of this process.
std::shared_ptr<grpc::Channel> OpenJobChannel(const std::string& address,
                                              const JobCredentials& credentials);

// gRPC's own lines about connections stay off the terminal: what they say is in the statuses.
// GRPC_VERBOSITY in the environment brings them back.
void QuietGrpc();

}  // namespace oneflow

// How both ends of the control plane speak gRPC: credentials and limits.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "actor_runtime/job/job_keys.h"

namespace oneflow {

// The largest message: a part of a round, or its answer.
inline constexpr int kMostMessageBytes = 512 << 20;

// What opens and takes connections; by default plain text.
struct JobCredentials {
  std::shared_ptr<grpc::ServerCredentials> server = grpc::InsecureServerCredentials();
  std::shared_ptr<grpc::ChannelCredentials> channel = grpc::InsecureChannelCredentials();
  std::string server_name;  // that the server's certificate has to have; empty: plain text
};

// TLS in which both ends prove that they have the job's keys.
JobCredentials CredentialsOf(const JobKeys& keys);

// A channel of its own: it shares no connection with others of this process.
std::shared_ptr<grpc::Channel> OpenJobChannel(const std::string& address,
                                              const JobCredentials& credentials);

// gRPC's own lines about connections stay off the terminal: what they say is in the statuses.
// GRPC_VERBOSITY in the environment brings them back.
void QuietGrpc();

}  // namespace oneflow

// How both ends of the control plane speak gRPC: credentials and limits.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace oneflow {

// The largest message: a part of a round, or its answer.
inline constexpr int kMostMessageBytes = 512 << 20;

// What opens and takes connections. Plain text where `keys` are absent.
struct JobCredentials {
  std::shared_ptr<grpc::ServerCredentials> server = grpc::InsecureServerCredentials();
  std::shared_ptr<grpc::ChannelCredentials> channel = grpc::InsecureChannelCredentials();
  std::string server_name;  // that the server's certificate has to have; empty: plain text
};

// A channel of its own: it shares no connection with others of this process.
std::shared_ptr<grpc::Channel> OpenJobChannel(const std::string& address,
                                              const JobCredentials& credentials);

// gRPC's own lines about connections stay off the terminal: what they say is in the statuses.
// GRPC_VERBOSITY in the environment brings them back.
void QuietGrpc();

}  // namespace oneflow

#include "actor_runtime/control/client.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "proto/control.grpc.pb.h"

namespace oneflow {

absl::StatusOr<WorkerDescription> DescribeWorker(const std::string& address,
                                                 absl::Duration timeout) {
  const auto stub =
      proto::Control::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  proto::DescribeResponse response;
  const grpc::Status status = stub->Describe(&context, proto::DescribeRequest(), &response);
  if (!status.ok()) {
    // gRPC's and Abseil's codes are the same numbers.
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                        absl::StrCat("worker at ", address, ": ", status.error_message()));
  }
  return WorkerDescription{response.version(), response.ranks()};
}

}  // namespace oneflow

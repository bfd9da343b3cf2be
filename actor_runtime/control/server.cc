#include "actor_runtime/control/server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/control.grpc.pb.h"

namespace oneflow {
namespace {

class ControlService : public proto::Control::CallbackService {
 public:
  explicit ControlService(WorkerDescription worker) : worker_(std::move(worker)) {}

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const proto::DescribeRequest* request,
                                     proto::DescribeResponse* response) override {
    response->set_version(worker_.version);
    response->set_ranks(worker_.ranks);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  const WorkerDescription worker_;
};

class GrpcControlServer : public ControlServer {
 public:
  explicit GrpcControlServer(const WorkerDescription& worker) : service_(worker) {}

  ~GrpcControlServer() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  absl::Status Listen(const std::string& address) {
    grpc::ServerBuilder builder;
    // Two workers on one port is a mistake, not load balancing.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen on ", address, ": is the port taken, or the address not of this host?"));
    }
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  ControlService service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(
    const std::string& address, const WorkerDescription& worker) {
  auto server = std::make_unique<GrpcControlServer>(worker);
  if (absl::Status status = server->Listen(address); !status.ok()) return status;
  return server;
}

}  // namespace oneflow

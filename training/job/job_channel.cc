#include "training/job/job_channel.h"

#include <grpc/support/log.h>

#include <cstdlib>
#include <mutex>

namespace oneflow {

JobCredentials MakeCredentials(const JobKeys& keys) {
  grpc::SslServerCredentialsOptions server(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  server.pem_root_certs = keys.ca;
  server.pem_key_cert_pairs.push_back({keys.key, keys.certificate});
  const grpc::SslCredentialsOptions client{keys.ca, keys.key, keys.certificate};
  return {grpc::SslServerCredentials(server), grpc::SslCredentials(client), kJobCertificateName};
}

std::shared_ptr<grpc::Channel> OpenJobChannel(const std::string& address,
                                              const JobCredentials& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kMostMessageBytes);
  arguments.SetMaxSendMessageSize(kMostMessageBytes);
  if (!credentials.server_name.empty()) {
    arguments.SetSslTargetNameOverride(credentials.server_name);
  }
  return grpc::CreateCustomChannel(address, credentials.channel, arguments);
}

void QuietGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("GRPC_VERBOSITY") != nullptr) return;
    gpr_set_log_function([](gpr_log_func_args*) {});
  });
}

}  // namespace oneflow

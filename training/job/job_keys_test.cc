// The keys of a job, and callers who have not all of them.
#include "training/job/job_keys.h"

#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file.h"
#include "proto/job.grpc.pb.h"
#include "training/job/member.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

// A folder of this test's own, empty.
std::string Folder() {
  const char* base = std::getenv("TEST_TMPDIR");
  std::string path = absl::StrCat(base == nullptr ? "/tmp" : base, "/keysXXXXXX");
  REQUIRE(mkdtemp(path.data()) != nullptr);
  return path;
}

JobKeys MadeKeys() {
  const std::string folder = Folder() + "/keys";
  REQUIRE(MakeJobKeys(folder).ok());
  return ReadJobKeys(folder).value();
}

TEST_CASE("Keys are written once, for their owner alone, and fit each other") {
  const std::string folder = Folder() + "/keys";
  REQUIRE(MakeJobKeys(folder).ok());
  for (const char* name : {"ca.pem", "certificate.pem", "key.pem", "token"}) {
    struct stat facts;
    REQUIRE(stat((folder + "/" + name).c_str(), &facts) == 0);
    CHECK((facts.st_mode & 0777) == 0600);
  }
  const JobKeys keys = ReadJobKeys(folder).value();
  CHECK(keys.token.size() == 64);
  CHECK(keys.token != MadeKeys().token);
  const absl::Status second = MakeJobKeys(folder);
  CHECK(second.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(second.message(), "ca.pem: is there already"));
  CHECK(ReadJobKeys(folder)->key == keys.key);
  CHECK_FALSE(MakeJobKeys(folder + "/a/b").ok());
}

TEST_CASE("Keys that cannot be right are refused by name") {
  const std::string folder = Folder() + "/keys";
  REQUIRE(MakeJobKeys(folder).ok());
  const auto refusal = [&](const char* file, const std::string& text, mode_t mode) {
    const std::string path = folder + "/" + file;
    const std::string before = ReadFile(path).value();
    REQUIRE(WriteFile(path, text).ok());
    REQUIRE(chmod(path.c_str(), mode) == 0);
    const auto keys = ReadJobKeys(folder);
    REQUIRE(WriteFile(path, before).ok());
    REQUIRE(chmod(path.c_str(), 0600) == 0);
    REQUIRE_FALSE(keys.ok());
    CHECK(keys.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(keys.status().message());
  };
  const JobKeys other = MadeKeys();
  CHECK(absl::StrContains(refusal("key.pem", other.key, 0644), "may be read by others"));
  CHECK(absl::StrContains(refusal("token", other.token, 0640), "may be read by others"));
  CHECK(absl::StrContains(refusal("key.pem", other.key, 0600),
                          "key.pem is not the key of certificate.pem"));
  CHECK(absl::StrContains(refusal("ca.pem", other.ca, 0600), "is not signed by ca.pem"));
  CHECK(absl::StrContains(refusal("ca.pem", "", 0600), "ca.pem is no certificate"));
  CHECK(absl::StrContains(refusal("certificate.pem", other.key, 0600), "is no certificate"));
  CHECK(absl::StrContains(refusal("key.pem", other.ca, 0600), "key.pem is no private key"));
  CHECK(absl::StrContains(refusal("token", "", 0600), "token is empty"));
  CHECK(absl::StrContains(refusal("token", std::string(1 << 17, 'x'), 0600), "too long"));
  CHECK(ReadJobKeys(folder).ok());
  CHECK(absl::StrContains(ReadJobKeys("/nowhere").status().message(), "--make_job_keys"));
}

// The reply to a caller that presents itself with `token`.
struct Reply {
  std::vector<proto::JobToMember> messages;
  grpc::Status end;
};
Reply Call(int port, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
           const std::string& token) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetSslTargetNameOverride(kJobCertificateName);
  const auto stub = proto::JobControl::NewStub(
      grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), credentials, arguments));
  grpc::ClientContext context;
  const auto stream = stub->Attend(&context);
  proto::JobFromMember present;
  present.mutable_present()->set_token(token);
  present.mutable_present()->set_process(1);
  present.mutable_present()->set_processes(2);
  stream->Write(present);
  Reply reply;
  proto::JobToMember message;
  while (stream->Read(&message)) reply.messages.push_back(message);
  reply.end = stream->Finish();
  return reply;
}

// Writes bytes to the port, and reads until the other side closes.
void WriteBytes(int port, const std::string& bytes) {
  const int file = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(file, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  CHECK(send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0);
  shutdown(file, SHUT_WR);
  char buffer[256];
  while (recv(file, buffer, sizeof(buffer), 0) > 0) {
  }
  close(file);
}

TEST_CASE("Over TLS: who lacks the certificate or the token learns and changes nothing") {
  const JobKeys keys = MadeKeys(), other = MadeKeys();
  std::promise<int> listening;
  const auto options = [&](int port, int process) {
    return MemberOptions{.coordinator = absl::StrCat("127.0.0.1:", port),
                         .process = process,
                         .processes = 2,
                         .token = keys.token,
                         .host = "a",
                         .keys = keys};
  };
  auto first = std::async(std::launch::async, [&] {
    return Member::Join(options(0, 0), {.on_listen = [&](int at) { listening.set_value(at); }});
  });
  const int port = listening.get_future().get();
  using Options = grpc::SslCredentialsOptions;
  const std::vector<std::shared_ptr<grpc::ChannelCredentials>> strangers = {
      grpc::InsecureChannelCredentials(), grpc::SslCredentials(Options{keys.ca, "", ""}),
      grpc::SslCredentials(Options{keys.ca, other.key, other.certificate}),
      grpc::SslCredentials(Options{other.ca, other.key, other.certificate})};
  for (const auto& credentials : strangers) {
    const Reply reply = Call(port, credentials, keys.token);
    CHECK(reply.messages.empty());
    CHECK_FALSE(reply.end.ok());
  }
  for (const std::string& token : {std::string(), other.token, keys.token + "x"}) {
    const Reply reply =
        Call(port, grpc::SslCredentials(Options{keys.ca, keys.key, keys.certificate}), token);
    REQUIRE(reply.messages.size() == 1);
    CHECK(reply.messages[0].refused().error().message() == "refused");
  }
  std::mt19937 random(5);
  for (int i = 0; i < 20; ++i) {
    std::string bytes = i % 2 == 0 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
    while (bytes.size() < 400) bytes += static_cast<char>(random());
    WriteBytes(port, bytes);
  }
  auto second = Member::Join(options(port, 1), {});
  auto zero = first.get();
  REQUIRE(zero.ok());
  REQUIRE(second.ok());
  auto leaving = std::async(std::launch::async, [&] { return (*zero)->Leave(); });
  CHECK((*second)->Leave().ok());
  CHECK(leaving.get().ok());
}

TEST_CASE("In plain text on loopback: foreign bytes change nothing") {
  std::promise<int> listening;
  const auto options = [&](int port, int process) {
    return MemberOptions{.coordinator = absl::StrCat("127.0.0.1:", port),
                         .process = process,
                         .processes = 2,
                         .token = "secret",
                         .host = "a"};
  };
  auto first = std::async(std::launch::async, [&] {
    return Member::Join(options(0, 0), {.on_listen = [&](int at) { listening.set_value(at); }});
  });
  const int port = listening.get_future().get();
  std::mt19937 random(7);
  for (int i = 0; i < 20; ++i) {
    std::string bytes = i % 2 == 0 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "GET / HTTP/1.1\r\n\r\n";
    while (bytes.size() < 400) bytes += static_cast<char>(random());
    WriteBytes(port, bytes);
  }
  const Reply reply = Call(port, grpc::InsecureChannelCredentials(), "guess");
  REQUIRE(reply.messages.size() == 1);
  CHECK(reply.messages[0].refused().error().message() == "refused");
  auto second = Member::Join(options(port, 1), {});
  REQUIRE(second.ok());
  auto zero = first.get();
  REQUIRE(zero.ok());
  auto leaving = std::async(std::launch::async, [&] { return (*zero)->Leave(); });
  CHECK((*second)->Leave().ok());
  CHECK(leaving.get().ok());
}

}  // namespace
}  // namespace oneflow

// The toolchain works: C++20, and every system library compiles, links and runs; of a service
// Protobuf and gRPC generate a client and a server.
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <concepts>
#include <coroutine>
#include <csignal>
#include <cstdlib>
#include <dnnl.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "glog/logging.h"
#include "tests/toolchain.grpc.pb.h"

#include <catch2/catch.hpp>

namespace {

template <std::integral T>
T Sum(std::span<const T> values) {
  T sum = 0;
  for (const T value : values) sum += value;
  return sum;
}

TEST_CASE("tests are limited in CPU time, and end with an error where they use it up") {
  const char* wall = std::getenv("TEST_TIMEOUT");
  if (wall == nullptr) {
    SUCCEED("not run by Bazel");
    return;
  }
  rlimit limit = {};
  REQUIRE(getrlimit(RLIMIT_CPU, &limit) == 0);
  const rlim_t cores = std::max(1u, std::thread::hardware_concurrency());
  CHECK(limit.rlim_cur == std::atoi(wall) * cores / 5);
  const pid_t child = fork();
  if (child == 0) {
    std::raise(SIGXCPU);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 1));
}

TEST_CASE("C++20 concepts, spans and threads") {
  const std::vector<int> values = {1, 2, 3};
  int sum = 0;
  std::jthread([&] { sum = Sum<int>(values); }).join();
  REQUIRE(sum == 6);
}

TEST_CASE("Abseil and glog") {
  absl::flat_hash_map<std::string, int> map;
  map[absl::StrCat("a", 1)] = 7;
  const absl::StatusOr<int> found = map.at("a1");
  REQUIRE(found.ok());
  REQUIRE(absl::StrFormat("%d", *found) == "7");
  LOG_IF(FATAL, *found != 7) << "unreachable";
}

TEST_CASE("JSON and xxHash") {
  REQUIRE(nlohmann::json::parse(R"({"loss": 2.5})").at("loss") == 2.5);
  REQUIRE(XXH3_64bits("oneflow", 7) == XXH3_64bits("oneflow", 7));
}

TEST_CASE("oneDNN has a CPU engine") {
  REQUIRE(dnnl::engine::get_count(dnnl::engine::kind::cpu) == 1);
}

class Doubler : public oneflow::test::Toolchain::Service {
  grpc::Status Double(grpc::ServerContext*, const oneflow::test::Number* x,
                      oneflow::test::Number* y) override {
    y->set_value(2 * x->value());
    return grpc::Status::OK;
  }
};

TEST_CASE("Protobuf and gRPC: a service answers over loopback") {
  Doubler service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  REQUIRE(server != nullptr);
  const auto stub = oneflow::test::Toolchain::NewStub(
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  oneflow::test::Number x, y;
  x.set_value(21);
  REQUIRE(stub->Double(&context, x, &y).ok());
  REQUIRE(y.value() == 42);
}

}  // namespace

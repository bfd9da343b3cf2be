#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "actor_runtime/control/client.h"
#include "actor_runtime/control/server.h"

namespace oneflow {
namespace {

TEST_CASE("a worker describes itself over loopback") {
  auto server = ControlServer::Start("127.0.0.1:0", {"1.2.3", 4});
  REQUIRE(server.ok());
  const auto worker =
      DescribeWorker(absl::StrCat("127.0.0.1:", (*server)->port()), absl::Seconds(30));
  REQUIRE(worker.ok());
  CHECK(worker->version == "1.2.3");
  CHECK(worker->ranks == 4);
}

TEST_CASE("a port that is taken is an error that names it") {
  auto first = ControlServer::Start("127.0.0.1:0", {});
  REQUIRE(first.ok());
  const std::string address = absl::StrCat("127.0.0.1:", (*first)->port());
  const auto second = ControlServer::Start(address, {});
  CHECK(second.status().code() == absl::StatusCode::kUnavailable);
  CHECK(std::string(second.status().message()).find(address) != std::string::npos);
}

TEST_CASE("nobody there is an error, not a hang") {
  std::string address;
  {
    auto server = ControlServer::Start("127.0.0.1:0", {});
    REQUIRE(server.ok());
    address = absl::StrCat("127.0.0.1:", (*server)->port());
  }
  const auto worker = DescribeWorker(address, absl::Seconds(10));
  CHECK(worker.status().code() == absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace oneflow

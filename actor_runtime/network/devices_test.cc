#include "actor_runtime/network/devices.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

// A socket of an address, at a port or any.
class Socket {
 public:
  explicit Socket(const std::string& address, int port = 0) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&at_);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&at_);
    const bool is_ipv4 = inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1;
    if (!is_ipv4) inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr);
    at_.ss_family = is_ipv4 ? AF_INET : AF_INET6;
    v4->sin_port = htons(port);  // of both families at the same position
    fd = socket(at_.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    is_bound = bind(fd, reinterpret_cast<sockaddr*>(&at_), sizeof(sockaddr_in6)) == 0;
  }
  ~Socket() { close(fd); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void Connect(const Socket& to) const {
    sockaddr_storage address = {};
    socklen_t bytes = sizeof(address);
    REQUIRE(getsockname(to.fd, reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
    connect(fd, reinterpret_cast<sockaddr*>(&address), bytes);
  }
  // Over loopback the kernel answers before connect returns.
  int state() const {
    tcp_info info = {};
    socklen_t bytes = sizeof(info);
    REQUIRE(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0);
    return info.tcpi_state;
  }

  int fd = -1;
  bool is_bound = false;

 private:
  sockaddr_storage at_ = {};
};

TEST_CASE("A listening socket is reached from its network alone") {
  const Socket server("127.0.0.1");
  REQUIRE(server.is_bound);
  REQUIRE(listen(server.fd, 8) == 0);
  const std::vector<int> listening = ListeningSockets();
  CHECK(std::count(listening.begin(), listening.end(), server.fd) == 1);
  const auto reaches = [&](const char* address) {
    const Socket client(address);
    REQUIRE(client.is_bound);
    client.Connect(server);
    return client.state() == TCP_ESTABLISHED;
  };
  CHECK(reaches("127.0.0.2"));
  REQUIRE(AdmitOnly("127.0.0.1", server.fd).ok());
  CHECK(reaches("127.0.0.1"));
  CHECK_FALSE(reaches("127.0.0.2"));
  REQUIRE(AdmitOnly("127.1.0.0/16", server.fd).ok());
  CHECK(reaches("127.1.2.3"));
  CHECK_FALSE(reaches("127.2.2.3"));
  REQUIRE(AdmitOnly("127.0.0.1/0", server.fd).ok());
  CHECK(reaches("127.2.2.3"));
  REQUIRE(AdmitOnly("fd00::/8", server.fd).ok());
  CHECK_FALSE(reaches("127.0.0.1"));
  CHECK(absl::IsInvalidArgument(AdmitOnly("127.0.0.1/33", server.fd)));
  CHECK(absl::IsUnavailable(AdmitOnly("127.0.0.1", -1)));
}

TEST_CASE("The same with IPv6, where the host has it") {
  const Socket server("::1");
  if (!server.is_bound) return;
  REQUIRE(listen(server.fd, 8) == 0);
  const auto reached = [&] {
    const Socket client("::1");
    client.Connect(server);
    return client.state() == TCP_ESTABLISHED;
  };
  REQUIRE(AdmitOnly("fd00::/8", server.fd).ok());
  CHECK_FALSE(reached());
  REQUIRE(AdmitOnly("::1/127", server.fd).ok());
  CHECK(reached());
}

const std::vector<NetworkDevice> kDevices = {{"lo", "127.0.0.1"}, {"eth0", "192.168.1.5"},
                                             {"ib0", "10.1.2.3"}, {"ib1", "10.1.9.3"},
                                             {"v6", "fd00::12"},  {"none", ""}};

std::string Chosen(const NamedNetwork& named) {
  const absl::StatusOr<std::string> device = ChooseDevice(named, kDevices);
  if (device.ok()) return *device;
  CHECK(device.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(device.status().message());
}

TEST_CASE("A network is named by a device, by addresses, or by both; else it is loopback") {
  CHECK(Chosen({}) == "lo");
  CHECK(Chosen({.interface = "eth0"}) == "eth0");
  CHECK(Chosen({.trust_network = "192.168.0.0/16"}) == "eth0");
  CHECK(Chosen({.trust_network = "10.1.9.3"}) == "ib1");
  CHECK(Chosen({.trust_network = "10.1.8.0/22"}) == "ib1");
  CHECK(Chosen({.trust_network = "fd00::/8"}) == "v6");
  CHECK(Chosen({.trust_network = "127.0.0.0/8"}) == "lo");
  CHECK(Chosen({.interface = "ib0", .trust_network = "10.0.0.0/8"}) == "ib0");
}

TEST_CASE("Missing or ambiguous devices are refused by name") {
  const std::string all =
      "there are lo (127.0.0.1), eth0 (192.168.1.5), ib0 (10.1.2.3), ib1 (10.1.9.3), v6 "
      "(fd00::12), "
      "none";
  CHECK(Chosen({.interface = "eth7"}) ==
        "--interface=eth7: no network device of this name is up on this host; " + all);
  CHECK(Chosen({.interface = "none"}) == "--interface=none: the device has no address; " + all);
  CHECK(Chosen({.interface = "../lo"}) ==
        "--interface=../lo: no network device of this name is up on this host; " + all);
  CHECK(Chosen({.trust_network = "172.16.0.0/12"}) ==
        "--trust_network=172.16.0.0/12: no network device of this host has an address in it; " +
            all);
  CHECK(Chosen({.interface = "eth0", .trust_network = "10.0.0.0/8"}) ==
        "--trust_network=10.0.0.0/8: --interface=eth0 has no address in it; " + all);
  CHECK(Chosen({.trust_network = "10.0.0.0/8"}) ==
        "--trust_network=10.0.0.0/8: several network devices of this host have an address in it; "
        "give --interface, too: there are ib0 (10.1.2.3), ib1 (10.1.9.3)");
  for (const char* bad :
       {"10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "/8", "net", "fd00::/129", "1.1.1.1/-1"}) {
    CHECK(Chosen({.trust_network = bad}) ==
          std::string("--trust_network: \"") + bad +
              "\" is not a network as 10.1.0.0/16; give the addresses of the network, and how many "
              "bits are its own");
  }
}

TEST_CASE("Bits of a network are compared, no more") {
  CHECK(*IsInNetwork("10.1.2.3", "0.0.0.0/0"));
  CHECK(*IsInNetwork("10.1.2.3", "10.1.2.2/31"));
  CHECK_FALSE(*IsInNetwork("10.1.2.4", "10.1.2.2/31"));
  CHECK_FALSE(*IsInNetwork("fd00::1", "0.0.0.0/0"));
  CHECK(*IsInNetwork("fd00:1::1", "fd00::/15"));
  CHECK_FALSE(*IsInNetwork("fc00::1", "fd00::/8"));
  CHECK_FALSE(*IsInNetwork("", "0.0.0.0/0"));
}

TEST_CASE("This host has loopback, and knows it by name and address") {
  const absl::StatusOr<std::vector<NetworkDevice>> devices = NetworkDevices();
  REQUIRE(devices.ok());
  REQUIRE_FALSE(devices->empty());
  CHECK((*devices)[0].name == "lo");
  CHECK(LoopbackAddress("localhost").has_value());
  CHECK(LoopbackAddress("127.3.2.1") == "127.3.2.1");
  CHECK(LoopbackAddress("[::1]") == "::1");
  for (const char* host : {"10.0.0.1", "[fd00::1]", "no-such-host.invalid", "0.0.0.0", ""}) {
    CHECK_FALSE(LoopbackAddress(host).has_value());
  }
}

}  // namespace
}  // namespace oneflow

#include "actor_runtime/network/devices.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

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
  const std::vector<NetworkDevice> devices = NetworkDevices().value();
  REQUIRE_FALSE(devices.empty());
  CHECK(devices[0].name == "lo");
  CHECK(LoopbackAddress("localhost").has_value());
  CHECK(LoopbackAddress("127.3.2.1") == "127.3.2.1");
  CHECK(LoopbackAddress("[::1]") == "::1");
  CHECK(LoopbackAddress("[::ffff:127.0.0.1]") == "127.0.0.1");
  CHECK(IsThisHost("localhost"));
  for (const NetworkDevice& device : devices)
    CHECK((device.address.empty() || IsThisHost(device.address)));
  for (const char* host : {"192.0.2.1", "[2001:db8::1]", "no-such-host.invalid", ""}) {
    CHECK_FALSE(IsThisHost(host));
  }
  for (const char* host : {"10.0.0.1", "[fd00::1]", "no-such-host.invalid", "0.0.0.0", ""}) {
    CHECK_FALSE(LoopbackAddress(host).has_value());
  }
}

}  // namespace
}  // namespace oneflow

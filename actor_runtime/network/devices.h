// Which network device a process exchanges tensors on. Tensors travel neither encrypted nor
// authenticated, so beyond loopback a user must have named the network: by its device, or by its
// addresses where devices have different names on different hosts.
//
//   ASSIGN_OR_RETURN(const std::vector<NetworkDevice> devices, NetworkDevices());
//   ASSIGN_OR_RETURN(const std::string device,
//                    ChooseDevice({.trust_network = "10.1.0.0/16"}, devices));
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace oneflow {

// A device that is up, and the address of it at which UCX listens: the first one of IPv4, or of
// IPv6 where there is none of that; empty where it has none.
struct NetworkDevice {
  std::string name;
  std::string address;
};

// Of this host, loopback first.
absl::StatusOr<std::vector<NetworkDevice>> NetworkDevices();

// As --interface and --trust_network; empty: not given.
struct NamedNetwork {
  std::string interface;      // a name of NetworkDevices, or an InfiniBand port as UCX names it
  std::string trust_network;  // CIDR, "10.1.0.0/16" or "fd00::/8"
};

// The name of the device that `named` leads to. Where both are given, they must agree; where
// neither is, it is loopback. What is not there, or not one, is refused with a list of what there
// is.
absl::StatusOr<std::string> ChooseDevice(const NamedNetwork& named,
                                         const std::vector<NetworkDevice>& devices);

// Whether an address, as text, is in a network. INVALID_ARGUMENT where the network is none.
absl::StatusOr<bool> IsInNetwork(std::string_view address, const std::string& network);

// The address that a host's name, or an address as text, leads to, if that is one of loopback; none
// where the name leads elsewhere, too, or is not known.
std::optional<std::string> LoopbackAddress(const std::string& host);

}  // namespace oneflow

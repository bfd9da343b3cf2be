// Chooses the network device on which a process exchanges tensors. Tensors are neither encrypted
// nor authenticated, so beyond loopback a user must have named the network: by its device, or by
// its addresses if devices have different names on different hosts.
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

// A device that is up, and its address at which UCX listens: the first one of IPv4, or of IPv6 if
// there is no IPv4 address; empty if it has none.
struct NetworkDevice {
  std::string name;
  std::string address;
};

// The devices of this host, loopback first.
absl::StatusOr<std::vector<NetworkDevice>> NetworkDevices();

// The values of --interface and --trust_network; empty: not given.
struct NamedNetwork {
  std::string interface;      // a name of NetworkDevices, or an InfiniBand port as UCX names it
  std::string trust_network;  // CIDR, "10.1.0.0/16" or "fd00::/8"
};

// The name of the device that `named` leads to. If both are given, they must agree; if neither is,
// it is loopback. A missing or ambiguous device is refused with a list of the devices.
absl::StatusOr<std::string> ChooseDevice(const NamedNetwork& named,
                                         const std::vector<NetworkDevice>& devices);

// True if an address, as text, is in a network. INVALID_ARGUMENT if `network` does not parse.
absl::StatusOr<bool> IsInNetwork(std::string_view address, const std::string& network);

// The address that a host's name, or an address as text, resolves to, if all are loopback; nothing
// if the name is unknown or resolves to another address, too.
std::optional<std::string> LoopbackAddress(const std::string& host);

// True if a host's name, or an address as text, resolves to addresses of this host alone.
bool IsThisHost(const std::string& host);

// Equal in two processes that can share memory, and different in all others: they have one kernel,
// one namespace of IPC and of processes, and one user.
std::string SharedMemoryDomain();

}  // namespace oneflow

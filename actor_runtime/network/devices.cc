#include "actor_runtime/network/devices.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

constexpr char kLoopback[] = "lo";

// In network order: 4 bytes or 16.
struct Address {
  std::array<uint8_t, 16> bytes = {};
  int length = 0;
};

std::optional<Address> ParseAddress(const std::string& text) {
  Address address;
  for (const auto& [family, length] : {std::pair(AF_INET, 4), std::pair(AF_INET6, 16)}) {
    if (inet_pton(family, text.c_str(), address.bytes.data()) != 1) continue;
    address.length = length;
    return address;
  }
  return std::nullopt;
}

bool IsLoopback(const Address& address) {
  if (address.length == 4) return address.bytes[0] == 127;
  static constexpr std::array<uint8_t, 16> kOne = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return address.bytes == kOne;
}

std::optional<std::string> AddressText(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  char text[INET6_ADDRSTRLEN] = {};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else if (address->sa_family == AF_INET6) {
    bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  } else {
    return std::nullopt;
  }
  return inet_ntop(address->sa_family, bytes, text, sizeof(text));
}

// The addresses of a name, or of one as text, with brackets or without; none: it has none.
std::vector<std::string> Resolve(const std::string& host) {
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string name = has_brackets ? host.substr(1, host.size() - 2) : host;
  addrinfo* list = nullptr;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const std::optional<std::string> text = AddressText(entry->ai_addr);
    // An address of IPv4 in the form of IPv6: ::ffff:127.0.0.1.
    const bool is_mapped =
        text && absl::StartsWith(*text, "::ffff:") && text->find('.') != text->npos;
    if (text) addresses.push_back(is_mapped ? text->substr(text->rfind(':') + 1) : *text);
  }
  return addresses;
}

std::string ListNames(const std::vector<NetworkDevice>& devices) {
  std::string list;
  for (const NetworkDevice& device : devices) {
    absl::StrAppend(&list, list.empty() ? "" : ", ", device.name);
    if (!device.address.empty()) absl::StrAppend(&list, " (", device.address, ")");
  }
  return list.empty() ? "there are none" : absl::StrCat("there are ", list);
}

// "mlx5_0:1": the device before the colon.
bool IsInfiniBandPort(const std::string& name) {
  const std::string device = name.substr(0, name.find(':'));
  std::error_code error;
  return !device.empty() && device.find('/') == std::string::npos && device.front() != '.' &&
         std::filesystem::exists("/sys/class/infiniband/" + device, error);
}

}  // namespace

absl::StatusOr<std::vector<NetworkDevice>> NetworkDevices() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return absl::InternalError(
        absl::StrCat("this host's network devices are not known: ", std::strerror(errno)));
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<NetworkDevice> devices;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0) continue;
    auto device = std::find_if(devices.begin(), devices.end(),
                               [&](const NetworkDevice& d) { return d.name == entry->ifa_name; });
    if (device == devices.end()) device = devices.insert(device, {entry->ifa_name, ""});
    const std::optional<std::string> text = AddressText(entry->ifa_addr);
    if (!text) continue;
    const bool has_ipv6 = device->address.find(':') != std::string::npos;
    if (device->address.empty() || (has_ipv6 && entry->ifa_addr->sa_family == AF_INET)) {
      device->address = *text;
    }
  }
  std::stable_partition(devices.begin(), devices.end(),
                        [](const NetworkDevice& device) { return device.name == kLoopback; });
  return devices;
}

absl::StatusOr<bool> IsInNetwork(std::string_view address, const std::string& network) {
  const size_t slash = network.find('/');
  const std::optional<Address> base = ParseAddress(network.substr(0, slash));
  int bits = base ? 8 * base->length : 0;
  const bool has_bits = slash != std::string::npos;
  if (!base || (has_bits && (!absl::SimpleAtoi(network.substr(slash + 1), &bits) || bits < 0 ||
                             bits > 8 * base->length))) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", network, "\" is not a network as 10.1.0.0/16"));
  }
  const std::optional<Address> of = ParseAddress(std::string(address));
  if (!of || of->length != base->length) return false;
  for (int byte = 0; byte < base->length; ++byte) {
    const int rest = std::clamp(bits - 8 * byte, 0, 8);
    const auto mask = static_cast<uint8_t>(0xff << (8 - rest));
    if (((of->bytes[byte] ^ base->bytes[byte]) & mask) != 0) return false;
  }
  return true;
}

absl::StatusOr<std::string> ChooseDevice(const NamedNetwork& named,
                                         const std::vector<NetworkDevice>& devices) {
  std::vector<NetworkDevice> fit = devices;
  const std::string interface_flag = "--interface=" + named.interface;
  if (!named.interface.empty()) {
    std::erase_if(fit, [&](const NetworkDevice& d) { return d.name != named.interface; });
    if (fit.empty() && named.trust_network.empty() && IsInfiniBandPort(named.interface)) {
      return named.interface;
    }
    if (fit.empty()) {
      return InputError(interface_flag, "no network device of this name is up on this host",
                        ListNames(devices));
    }
    if (fit[0].address.empty()) {
      return InputError(interface_flag, "the device has no address", ListNames(devices));
    }
  } else if (named.trust_network.empty()) {
    return kLoopback;
  }
  if (named.trust_network.empty()) return fit[0].name;

  const std::string trust_flag = "--trust_network=" + named.trust_network;
  std::vector<NetworkDevice> in_network;
  for (const NetworkDevice& device : fit) {
    const absl::StatusOr<bool> is_in = IsInNetwork(device.address, named.trust_network);
    if (!is_in.ok()) {
      return InputError("--trust_network", ToStd(is_in.status().message()),
                        "give the addresses of the network, and how many bits are its own");
    }
    if (*is_in) in_network.push_back(device);
  }
  if (in_network.size() == 1) return in_network[0].name;
  if (in_network.empty()) {
    return InputError(trust_flag,
                      named.interface.empty()
                          ? "no network device of this host has an address in it"
                          : absl::StrCat(interface_flag, " has no address in it"),
                      ListNames(devices));
  }
  return InputError(trust_flag, "several network devices of this host have an address in it",
                    absl::StrCat("give --interface, too: ", ListNames(in_network)));
}

std::optional<std::string> LoopbackAddress(const std::string& host) {
  const std::vector<std::string> addresses = Resolve(host);
  const auto is_beyond = [](const std::string& text) { return !IsLoopback(*ParseAddress(text)); };
  if (addresses.empty() || std::any_of(addresses.begin(), addresses.end(), is_beyond)) {
    return std::nullopt;
  }
  return addresses[0];
}

bool IsThisHost(const std::string& host) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  const auto is_own = [&](const std::string& text) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (AddressText(entry->ifa_addr) == text) return true;
    }
    return IsLoopback(*ParseAddress(text));
  };
  const std::vector<std::string> addresses = Resolve(host);
  return !addresses.empty() && std::all_of(addresses.begin(), addresses.end(), is_own);
}

std::string SharedMemoryDomain() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string domain;
  std::getline(file, domain);
  std::error_code error;
  for (const char* kind : {"ipc", "pid"}) {
    const std::filesystem::path name = std::string("/proc/self/ns/") + kind;
    absl::StrAppend(&domain, " ", std::filesystem::read_symlink(name, error).string());
  }
  absl::StrAppend(&domain, " ", geteuid());
  return domain;
}

}  // namespace oneflow

// The hosts of DeepSpeed's launcher and of GPT-NeoX: lines "node0 slots=8".
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/foreign/read/facts.h"
#include "tools/foreign/read/sources.h"

namespace oneflow::foreign {

struct Hosts {
  std::vector<std::pair<std::string, int64_t>> slots;  // in their order
  int64_t devices = 0;
  int64_t devices_a_node = 0;  // 0: they differ
};

// What the launcher takes of the hosts; "" and 0 if it is not said.
struct HostFilter {
  std::string include, exclude;  // "node0@node1:0,1"
  int64_t nodes = 0, devices_a_node = 0;
};

// Adds a broken rule for a line that is none of a host's, and for a host that stands twice.
Hosts ParseHosts(const std::string& text, const std::string& name, const HostFilter& filter,
                 Facts* facts);

// Sets the devices of `facts` from the file that a setting names, or asks for it.
absl::Status ReadHostfile(const std::string& named, const HostFilter& filter, Sources& sources,
                          Facts* facts);

}  // namespace oneflow::foreign

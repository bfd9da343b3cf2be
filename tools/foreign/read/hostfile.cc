#include "tools/foreign/read/hostfile.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"

namespace oneflow::foreign {
namespace {

// "node0@node1:0,1": slots by host, empty for all of them.
std::map<std::string, std::set<std::string>> HostSlots(const std::string& text) {
  std::map<std::string, std::set<std::string>> hosts;
  for (const auto part : absl::StrSplit(text, '@', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> split = absl::StrSplit(part, absl::MaxSplits(':', 1));
    std::set<std::string>& slots = hosts[split.first];
    for (const auto slot : absl::StrSplit(split.second, ',', absl::SkipEmpty())) {
      slots.insert(std::string(slot));
    }
  }
  return hosts;
}

void FilterHosts(const HostFilter& filter, Hosts* hosts) {
  const auto included = HostSlots(filter.include), excluded = HostSlots(filter.exclude);
  std::vector<std::pair<std::string, int64_t>> left;
  for (auto [host, slots] : hosts->slots) {
    if (!included.empty()) {
      const auto found = included.find(host);
      if (found == included.end()) continue;
      if (!found->second.empty()) slots = static_cast<int64_t>(found->second.size());
    } else if (const auto found = excluded.find(host); found != excluded.end()) {
      if (found->second.empty()) continue;
      slots -= static_cast<int64_t>(found->second.size());
    }
    if (filter.devices_a_node > 0) slots = std::min(slots, filter.devices_a_node);
    if (filter.nodes > 0 && static_cast<int64_t>(left.size()) == filter.nodes) break;
    if (slots > 0) left.emplace_back(host, slots);
  }
  hosts->slots = std::move(left);
}

}  // namespace

Hosts ParseHosts(const std::string& text, const std::string& name, const HostFilter& filter,
                 Facts* facts) {
  Hosts hosts;
  int number = 0;
  std::set<std::string> seen;
  for (const auto raw : absl::StrSplit(text, '\n')) {
    ++number;
    const std::string line(absl::StripAsciiWhitespace(raw));
    if (line.empty() || line[0] == '#') continue;
    const std::string where = absl::StrCat(name, ":", number);
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int64_t slots = 0;
    const bool is_host = words.size() >= 2 && words[1].starts_with("slots=") &&
                         absl::SimpleAtoi(words[1].substr(6), &slots) && slots >= 0;
    if (!is_host) {
      facts->broken.push_back({.rule = "a line of the host file is \"NAME slots=N\"",
                               .numbers = line,
                               .theirs = absl::StrCat("Hostfile contains a bad entry: ", line,
                                                      ", unable to proceed with launching"),
                               .hint = absl::StrCat(words[0], " slots=8"),
                               .where = where});
      continue;
    }
    if (!seen.insert(words[0]).second) {
      facts->broken.push_back(
          {.rule = "a host stands once in the host file",
           .numbers = words[0],
           .theirs = absl::StrCat("Hostfile contains multiple entries for ", words[0],
                                  ", unable to proceed with launching"),
           .hint = absl::StrCat("one line ", words[0], " slots=N"),
           .where = where});
      continue;
    }
    hosts.slots.emplace_back(words[0], slots);
  }
  FilterHosts(filter, &hosts);
  for (const auto& [host, slots] : hosts.slots) {
    hosts.devices += slots;
    hosts.devices_a_node = slots;
  }
  for (const auto& [host, slots] : hosts.slots) {
    if (slots != hosts.devices_a_node) hosts.devices_a_node = 0;
  }
  return hosts;
}

absl::Status ReadHostfile(const std::string& named, const HostFilter& filter, Sources& sources,
                          Facts* facts) {
  std::filesystem::path path = FindPath(sources, named);
  if (path.empty()) path = FindPath(sources, std::filesystem::path(named).filename());
  for (const std::string& given : sources.names) {
    if (std::filesystem::path(given).filename() == std::filesystem::path(named).filename()) {
      path = given;
    }
  }
  if (path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path.string()));
  const std::string name = path.filename();
  const Hosts hosts = ParseHosts(text, name, filter, facts);
  if (std::find(sources.names.begin(), sources.names.end(), path.string()) == sources.names.end()) {
    sources.names.push_back(path.string());
  }
  if (hosts.devices == 0) return absl::OkStatus();
  facts->devices = hosts.devices;
  facts->devices_a_node = hosts.devices_a_node;
  facts->devices_from =
      hosts.devices_a_node > 0
          ? absl::StrCat(name, ": ", hosts.slots.size(), " x ", hosts.devices_a_node, " slots")
          : absl::StrCat(name, ": ", hosts.devices, " slots of ", hosts.slots.size(), " hosts");
  return absl::OkStatus();
}

}  // namespace oneflow::foreign

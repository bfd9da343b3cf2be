#include "training/job/member_options.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {
namespace {

// HOST of HOST:PORT; brackets of an IPv6 address go with it.
std::string FindHost(const std::string& address) { return address.substr(0, address.rfind(':')); }

bool IsNumeric(const std::string& host) {
  return host.front() == '[' || host.find_first_not_of("0123456789.") == std::string::npos;
}
bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "[::1]" || (IsNumeric(host) && host.rfind("127.", 0) == 0);
}

absl::Status CheckSeconds(std::string_view name, double seconds) {
  const std::string where = absl::StrCat("--", ToAbsl(name), "=", seconds);
  return CheckRange(where, *FindRow(RunRows(), name), seconds);
}

}  // namespace

absl::Status CheckMemberOptions(const MemberOptions& options) {
  if (options.processes < 1) {
    return InputError("--processes", absl::StrCat(options.processes, " is less than 1"),
                      "use at least 1");
  }
  if (options.process < 0 || options.process >= options.processes) {
    return InputError(
        "--process_index",
        absl::StrCat(options.process, " is not below --processes=", options.processes),
        "number the processes from 0");
  }
  RETURN_IF_ERROR(CheckSeconds("silence_seconds", options.silence_seconds));
  RETURN_IF_ERROR(CheckSeconds("join_seconds", options.join_seconds));
  const size_t colon = options.coordinator.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(options.coordinator.substr(colon + 1), &port) || port < 0 || port > 65535 ||
      (port == 0 && options.process != 0)) {
    return InputError("--coordinator", absl::StrCat("\"", options.coordinator, "\" is no address"),
                      "give HOST:PORT");
  }
  if (!options.keys.has_value() && !IsLoopback(FindHost(options.coordinator))) {
    return InputError(
        "--coordinator",
        absl::StrCat(options.coordinator, " is not on loopback, and there are no keys of the job"),
        "make keys with --make_job_keys=DIR/keys, and give --job_dir=DIR to all processes");
  }
  if (options.token.empty()) {
    return InputError("ONEFLOW_JOB_TOKEN", "is empty",
                      "give all processes of the job the same one");
  }
  return absl::OkStatus();
}

std::vector<std::string> ListenAddresses(const MemberOptions& options) {
  const std::string host = FindHost(options.coordinator);
  // On this host a name may resolve to another address than on other hosts.
  const std::string at = IsLoopback(host) || IsNumeric(host) ? host : "[::]";
  std::vector<std::string> addresses = {at + options.coordinator.substr(host.size())};
  for (const int port : options.other_ports) addresses.push_back(WithPort(addresses[0], port));
  return addresses;
}

}  // namespace oneflow

// Types that the parts of the control plane share: facts, positions, times, policies.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/base/listening_clock.h"
#include "proto/job.pb.h"

namespace oneflow {

// A value that must be the same in all processes: "fingerprint of the plan", "build", "--seed". An
// empty value in a process other than 0 means that the process takes the value of process 0.
struct JoinFact {
  std::string name, value;
};

// The progress of a process: `steps` steps begun in run number `run` of the sequence of all runs.
// Ordered: a position of a later run is greater.
struct StepPosition {
  uint64_t run = 0;
  int64_t steps = 0;
  auto operator<=>(const StepPosition&) const = default;
};

// Consecutive ranks of a process; none: not known.
struct JobRanks {
  int first = 0, count = 0;
};

// The identity of a process, as all others know it and as messages name it.
struct JobIdentity {
  int process = 0, processes = 1;
  int64_t attempt = 0;
  std::string host;
  JobRanks ranks;
  std::string token;  // the job's secret
  std::vector<JoinFact> facts;
  absl::Status failed;  // why it cannot join: it presents itself only to say so
  // The folder that its run writes to, else the one in which it was started. Processes of one host
  // that write to different folders are of different jobs.
  std::string folder;
  bool names_folder = false;
};

// The name of this host; "unknown" if it has none.
std::string HostName();

struct ProcessName {
  std::string host;
  int process = 0;
  JobRanks ranks;
};

// "host b (process 1, ranks 4 to 7)".
std::string DescribeProcess(const ProcessName& name);

// The failure of a process, as everybody reports it: the sentence that begins with its name and
// goes on with `rest` (": no space left", " has been silent for 5.0 s"), and the process as its
// cause.
absl::Status MakeFailure(const ProcessName& name, absl::StatusCode code, std::string_view rest);
// "host b (process 1): why". Stays as it is if its sentence names a process already.
absl::Status MakeFailure(const ProcessName& name, const absl::Status& why);

// `address`, HOST:PORT, with another port.
std::string WithPort(const std::string& address, int port);

// Cleans a text of another process for a message: without control characters, and truncated if
// long.
std::string CleanText(const std::string& text);

// The most bytes of a value in one message, and in all its messages together.
inline constexpr size_t kJobPieceBytes = 1 << 20, kMostJobBytes = size_t{1} << 30;

// Calls fn(piece, more) for the pieces of a value, at least once.
template <typename Fn>
void ForJobPieces(const std::string& value, Fn fn) {
  size_t at = 0;
  do {
    const size_t next = std::min(value.size(), at + kJobPieceBytes);
    fn(value.substr(at, next - at), next < value.size());
    at = next;
  } while (at < value.size());
}

void WriteRanks(const JobRanks& ranks, proto::JobRanks* message);
JobRanks ReadRanks(const proto::JobRanks& message);

// Statuses and their causes on the wire. A code out of range becomes UNKNOWN; so does OK, which is
// no error.
void WriteError(const absl::Status& status, proto::JobError* error);
absl::Status ReadError(const proto::JobError& error);

}  // namespace oneflow

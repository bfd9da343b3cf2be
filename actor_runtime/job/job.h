// The words that the control plane's parts share: facts, positions, moments, policies.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace oneflow {

// A moment or a length of time in nanoseconds, of a clock that goes on while the process is
// stopped (CLOCK_BOOTTIME in programs, a number that tests count in the machines).
using JobTime = int64_t;
inline constexpr JobTime kJobSecond = 1'000'000'000;

// Something that has to be the same in all processes: "fingerprint of the plan", "build", "--seed".
// An empty value of a process other than 0 stands for "not known here, I take yours".
struct JoinFact {
  std::string name, value;
};

// How far a process is: `steps` steps begun in run number `run` of the sequence of all runs.
// Ordered: a position of a later run is greater.
struct StepPosition {
  uint64_t run = 0;
  int64_t steps = 0;
  auto operator<=>(const StepPosition&) const = default;
};

// How a process is known to all others, and named in sentences.
struct JobIdentity {
  int process = 0, processes = 1;
  int64_t attempt = 0;
  std::string host;
  std::string ranks;  // "rank 3", "ranks 4 to 7"; may be empty
  std::string token;  // the job's secret
  std::vector<JoinFact> facts;
  absl::Status failed;  // why it cannot join: it presents itself only to say so
};

// Faults that tests plant in the machines to see that they are found. All false is the protocol.
struct JobPolicy {
  bool accept_older_attempts = false;  // coordinator: the attempt's number is not looked at
  bool stop_unagreed = false;          // coordinator: each process stops where it is
  bool write_without_lease = false;    // member: writes whatever the clock says
  bool suspend_beats = false;          // member: once it has joined, no tick comes
};

// The name of this host; "unknown" where it has none.
std::string HostName();

// "host b (process 1, ranks 4 to 7)".
std::string DescribeProcess(const std::string& host, int process, const std::string& ranks = "");

// A failure of a process, with its name ahead unless it begins with one: of whoever it is about.
absl::Status NameProcess(const absl::Status& why, const std::string& name);

// A text of another process, fit for a sentence: without control characters, and cut if long.
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

// Statuses on the wire. A code out of range becomes UNKNOWN; OK is no error, and becomes it, too.
void WriteError(const absl::Status& status, proto::JobError* error);
absl::Status ReadError(const proto::JobError& error);

}  // namespace oneflow

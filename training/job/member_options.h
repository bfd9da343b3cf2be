// MemberOptions: identity, facts and addresses with which a process joins a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "training/job/job.h"
#include "training/job/job_keys.h"

namespace oneflow {

struct MemberOptions {
  // HOST:PORT; process 0 listens there, port 0 means any; at all addresses of its host if HOST is a
  // name other than localhost.
  std::string coordinator;
  // Ports of HOST that serve as well, in this order: process 0 listens at the first one that is
  // free, and the others look for it at each.
  std::vector<int> other_ports;
  int process = 0, processes = 1;
  int64_t attempt = 0;
  std::string token;            // not empty; the keys' if there are any
  std::vector<JoinFact> facts;  // process 0's are the measure
  std::string host;             // empty: this machine's name
  std::string folder;           // JobIdentity's
  bool names_folder = false;
  JobRanks ranks;  // for sentences
  // Process 0: the host of each process, as the launcher says; may be empty. For sentences about
  // those that have not joined.
  std::vector<std::string> hosts;
  // Required, and then used, for a coordinator that is not on loopback.
  std::optional<JobKeys> keys;
  absl::Status failed;  // the reason why this process cannot join: Join reports it to the others,
                        // and returns it
  double join_seconds = 60;
  double silence_seconds = 5;  // process 0's counts for all
};

// Refuses options that are out of range, or that would send plain text beyond loopback. The error
// names the flag.
absl::Status CheckMemberOptions(const MemberOptions& options);

// HOST:PORT at which process 0 listens, at the first one that is free. Requires checked options.
std::vector<std::string> ListenAddresses(const MemberOptions& options);

}  // namespace oneflow

// The keys of one job: a certificate authority that has signed one certificate and is thrown away,
// that certificate with its private key, which all processes of the job use on both ends, and a
// token. Whoever can read the folder can join the job; nobody else can.
//
//   RETURN_IF_ERROR(MakeJobKeys("run/job/keys"));               // once, before the job starts
//   ASSIGN_OR_RETURN(JobKeys keys, ReadJobKeys("run/job/keys"));  // in each process
//
// They protect the control plane alone: the data plane is neither encrypted nor authenticated.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace oneflow {

struct JobKeys {
  std::string ca, certificate, key;  // PEM
  std::string token;
};

// The name that the certificate is issued to, in place of a host's: the hosts of a job are not
// known when its keys are made.
inline constexpr char kJobCertificateName[] = "oneflow-job";

// Writes ca.pem, certificate.pem, key.pem and token into `folder`, which is made if it is missing,
// each with mode 0600. Files that are there already are an error, and stay.
absl::Status MakeJobKeys(const std::string& folder);

// Refuses keys that others than their owner may read, that do not fit each other, or that are not
// of MakeJobKeys.
absl::StatusOr<JobKeys> ReadJobKeys(const std::string& folder);

}  // namespace oneflow

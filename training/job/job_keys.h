// The keys of one job: a certificate authority that has signed one certificate and is then deleted,
// that certificate with its private key, which all processes of the job use on both ends, and a
// token. Only those who can read the folder can join the job.
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

// The name that the certificate is issued to, instead of a host's name: the hosts of a job are not
// known when its keys are made.
inline constexpr char kJobCertificateName[] = "oneflow-job";

// Writes ca.pem, certificate.pem, key.pem and token into `folder`, each with mode 0600; makes the
// folder if it is missing. Existing files are an error, and stay.
absl::Status MakeJobKeys(const std::string& folder);

// Reads the keys. Refuses keys that others than their owner may read, that do not match each other,
// or that MakeJobKeys did not make.
absl::StatusOr<JobKeys> ReadJobKeys(const std::string& folder);

}  // namespace oneflow

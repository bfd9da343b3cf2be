// The trainings of the simulated clusters: tiny GPTs on four devices, and the results of an
// undisturbed run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/cluster/cluster.h"

namespace oneflow::cluster {

// A plan with its undisturbed run, in one process.
struct Subject {
  std::string name;
  proto::Plan plan;
  Reference reference;
};

// Throws on errors.
std::vector<std::unique_ptr<Subject>> MakeSubjects();

// Runs a seed and returns the violation, or an empty text. The output of programs is discarded
// meanwhile.
std::string RunSeed(const std::vector<std::unique_ptr<Subject>>& subjects, uint64_t seed,
                    const Faults& faults, Coverage* coverage);

}  // namespace oneflow::cluster

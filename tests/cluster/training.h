// What the simulated clusters train: tiny GPTs of four devices, and what an undisturbed run makes
// of them.
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

// The run of a seed: why it is wrong, or empty. What programs print goes nowhere meanwhile.
std::string RunSeed(const std::vector<std::unique_ptr<Subject>>& subjects, uint64_t seed,
                    const Faults& faults, Coverage* coverage);

}  // namespace oneflow::cluster

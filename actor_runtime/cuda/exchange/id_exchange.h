// IdExchange: exchanges the ids by which processes connect in NCCL. NCCL itself does not: the first
// member of a group makes an id, and all others must get it.
//
//   const IdExchange ids = IdsInMemory();
//   ASSIGN_OR_RETURN(std::string id, ids("group 3", made));          // the first member
//   ASSIGN_OR_RETURN(std::string id, ids("group 3", std::nullopt));  // all others
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace oneflow::cuda {

// With `put` it publishes the value of a key, once a key, and returns it; without, it waits until
// the value is published. Any thread. An error: the value was not published in time, or cannot be.
using IdExchange = std::function<absl::StatusOr<std::string>(
    const std::string& key, const std::optional<std::string>& put)>;

// Between threads of one process that have copies of it.
IdExchange IdsInMemory(std::chrono::milliseconds patience = std::chrono::minutes(5));

}  // namespace oneflow::cuda

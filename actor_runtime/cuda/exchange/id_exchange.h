// IdExchange: how processes that are about to meet in NCCL tell each other by which id. NCCL itself
// does not say: the first member of a group makes an id, all others have to learn it.
//
//   const IdExchange ids = IdsInFolder("/shared/run-17/ids");
//   ASSIGN_OR_RETURN(std::string id, ids("group 3", made));          // the first member
//   ASSIGN_OR_RETURN(std::string id, ids("group 3", std::nullopt));  // all others
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace oneflow::cuda {

// With `put` it makes known what a key stands for, once a key, and returns it; else it waits until
// that is known. Any thread. An error: it was not known in time, or cannot be made known.
using IdExchange = std::function<absl::StatusOr<std::string>(
    const std::string& key, const std::optional<std::string>& put)>;

// Between threads of one process that have copies of it.
IdExchange IdsInMemory(std::chrono::milliseconds patience = std::chrono::minutes(5));

// Between processes that see a folder, which is there. It belongs to one run: what an earlier run
// has left there would be taken for its own.
IdExchange IdsInFolder(std::string folder,
                       std::chrono::milliseconds patience = std::chrono::minutes(5));

}  // namespace oneflow::cuda

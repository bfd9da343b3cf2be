#include "actor_runtime/cuda/exchange/id_exchange.h"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>

namespace oneflow::cuda {
namespace {

struct Known {
  std::mutex mutex;
  std::condition_variable more;
  std::map<std::string, std::string> ids;  // under mutex
};

absl::Status NotInTime(const std::string& key, std::chrono::milliseconds patience) {
  return absl::DeadlineExceededError(
      "the id of NCCL's communicator \"" + key + "\" was not made known within " +
      std::to_string(patience.count()) + " ms: see whether all processes of the run are there");
}

}  // namespace

IdExchange IdsInMemory(std::chrono::milliseconds patience) {
  return [known = std::make_shared<Known>(), patience](
             const std::string& key,
             const std::optional<std::string>& put) -> absl::StatusOr<std::string> {
    std::unique_lock lock(known->mutex);
    if (put.has_value()) {
      known->ids[key] = *put;
      known->more.notify_all();
      return *put;
    }
    const auto is_known = [&] { return known->ids.contains(key); };
    if (!known->more.wait_for(lock, patience, is_known)) return NotInTime(key, patience);
    return known->ids[key];
  };
}

}  // namespace oneflow::cuda

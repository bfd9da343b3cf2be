#include "actor_runtime/cuda/exchange/id_exchange.h"

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "oneflow_core/base/status.h"

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

// A file appears with all of its bytes: it is written under another name and moved.
IdExchange IdsInFolder(std::string folder, std::chrono::milliseconds patience) {
  return [folder = std::filesystem::path(std::move(folder)), patience](
             const std::string& key,
             const std::optional<std::string>& put) -> absl::StatusOr<std::string> {
    const std::filesystem::path path = folder / (key + ".id");
    if (put.has_value()) {
      const std::filesystem::path fresh = folder / (key + ".new");
      std::ofstream file(fresh, std::ios::binary);
      file.write(put->data(), static_cast<std::streamsize>(put->size()));
      file.close();
      std::error_code error;
      if (file) std::filesystem::rename(fresh, path, error);
      if (!file || error) {
        return InputError(path.string(), "cannot be written",
                          "give a folder that all processes of the run can write to");
      }
      return *put;
    }
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (true) {
      std::ifstream file(path, std::ios::binary);
      if (file) {
        std::ostringstream bytes;
        bytes << file.rdbuf();
        return bytes.str();
      }
      if (std::chrono::steady_clock::now() >= deadline) return NotInTime(key, patience);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  };
}

}  // namespace oneflow::cuda

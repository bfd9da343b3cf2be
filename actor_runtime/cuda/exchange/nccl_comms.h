// NcclComms: ends the communicators of NCCL that a process has. Freeing one waits for all work of
// its device, also for kernels of another communicator that wait for a member in vain. So those
// that are joined by devices are ended together, each kind in one group of NCCL: aborted once one
// of them fails, destroyed once none of them is used any more.
//
//   const auto comms = std::make_shared<NcclComms>(nccl, NcclPatience{});
//   comms->Add(this, devices);                   // in the constructor of a Communicator
//   comms->Abort(this, status);                  // from any thread
//   comms->Remove(this);                         // in its destructor
//
// NCCL is called by threads that hold no lock, for a bounded time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "actor_runtime/cuda/library/nccl.h"
#include "actor_runtime/device/device.h"

namespace oneflow::cuda {

struct NcclPatience {
  std::chrono::milliseconds meet = std::chrono::minutes(5);   // for all members to connect
  std::chrono::milliseconds end = std::chrono::minutes(5);    // for all members to end
  std::chrono::milliseconds abort = std::chrono::minutes(1);  // for NCCL to abort
  // Called with a sentence if NCCL does not abort in that time; null: it is printed to stderr, and
  // the process ends with exit code 1.
  std::function<void(const std::string&)> on_hang;
};

// What has communicators of NCCL.
class NcclUser {
 public:
  virtual ~NcclUser() = default;
  // Does not block. False if it has failed before.
  virtual bool Fail(const absl::Status& status) = 0;
  // Those of this process, which it does not use from now on; waits until calls in progress return.
  virtual std::vector<ncclComm_t> Take() = 0;
  // After Fail: they have been aborted, so nobody touches the memory of exchanges any more.
  virtual void Aborted() = 0;
};

class NcclComms {
 public:
  NcclComms(std::shared_ptr<const Nccl> nccl, NcclPatience patience);
  ~NcclComms();
  NcclComms(const NcclComms&) = delete;

  const Nccl& nccl() const { return *nccl_; }
  const NcclPatience& patience() const { return patience_; }

  // `devices`: those of this process.
  void Add(NcclUser* user, std::vector<const Device*> devices);
  // Fails the user and all that are joined with it by devices. Returns at once.
  void Abort(NcclUser* user, const absl::Status& status);
  // Returns when nothing calls the user any more. If it has not failed, requires that its members
  // are at rest.
  void Remove(NcclUser* user);

 private:
  struct Entry {
    NcclUser* user;  // null: removed; its comms are to be destroyed
    std::vector<const Device*> devices;
    std::vector<ncclComm_t> comms = {};
    bool failed = false, aborted = false;
  };
  static bool IsDone(const Entry& entry);
  std::vector<Entry*> Joined(const NcclUser* user);
  void AbortAll(const std::vector<NcclUser*>& users, const std::vector<ncclComm_t>& unused,
                const std::string& why);

  const std::shared_ptr<const Nccl> nccl_;
  const NcclPatience patience_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::list<Entry> entries_;          // under mutex_
  std::vector<std::thread> threads_;  // under mutex_
};

}  // namespace oneflow::cuda

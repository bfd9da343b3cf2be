#include "actor_runtime/cuda/exchange/nccl_comms.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <glog/logging.h>

#include "absl/strings/str_cat.h"

namespace oneflow::cuda {
namespace {

// Ends communicators in one group of NCCL. NCCL may wait for other processes or for the devices, so
// a thread calls it. `late` is called after `patience`; if it returns false the thread is left
// there.
void EndTogether(const std::shared_ptr<const Nccl>& nccl,
                 const std::function<std::vector<ncclComm_t>()>& take,
                 decltype(Nccl::CommDestroy) end, std::chrono::milliseconds patience,
                 const std::function<bool()>& late) {
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;  // under mutex
  };
  const auto state = std::make_shared<State>();
  std::thread caller([nccl, take, end, state] {
    const std::vector<ncclComm_t> comms = take();
    if (!comms.empty()) {
      static_cast<void>(nccl->GroupStart());
      for (ncclComm_t comm : comms) static_cast<void>(end(comm));
      static_cast<void>(nccl->GroupEnd());
    }
    const std::lock_guard lock(state->mutex);
    state->done = true;
    state->changed.notify_all();
  });
  std::unique_lock lock(state->mutex);
  const auto done = [&] { return state->done; };
  if (!state->changed.wait_for(lock, patience, done)) {
    if (!late()) return caller.detach();
    state->changed.wait(lock, done);
  }
  lock.unlock();
  caller.join();
}

std::string Seconds(std::chrono::milliseconds time) {
  return absl::StrCat(std::chrono::duration<double>(time).count(), " s");
}

}  // namespace

NcclComms::NcclComms(std::shared_ptr<const Nccl> nccl, NcclPatience patience)
    : nccl_(std::move(nccl)), patience_(std::move(patience)) {}

// True for one that was removed and has nothing to destroy.
bool NcclComms::IsDone(const Entry& entry) { return entry.user == nullptr && entry.comms.empty(); }

NcclComms::~NcclComms() {
  for (std::thread& thread : threads_) thread.join();
}

void NcclComms::Add(NcclUser* user, std::vector<const Device*> devices) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({user, std::move(devices)});
}

// The user's entry, and all that are joined with it by devices. Under mutex_.
std::vector<NcclComms::Entry*> NcclComms::Joined(const NcclUser* user) {
  std::vector<Entry*> joined, others;
  for (Entry& entry : entries_) (entry.user == user ? joined : others).push_back(&entry);
  for (size_t i = 0; i < joined.size(); ++i) {
    const std::vector<const Device*>& devices = joined[i]->devices;
    const auto apart = std::partition(others.begin(), others.end(), [&](const Entry* other) {
      return std::none_of(other->devices.begin(), other->devices.end(), [&](const Device* device) {
        return std::find(devices.begin(), devices.end(), device) != devices.end();
      });
    });
    joined.insert(joined.end(), apart, others.end());
    others.erase(apart, others.end());
  }
  return joined;
}

void NcclComms::Abort(NcclUser* user, const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  std::vector<NcclUser*> users;
  std::vector<ncclComm_t> unused;
  for (Entry* entry : Joined(user)) {
    unused.insert(unused.end(), entry->comms.begin(), entry->comms.end());
    entry->comms.clear();
    if (entry->user == nullptr || !entry->user->Fail(status)) continue;
    entry->failed = true;
    users.push_back(entry->user);
  }
  if (users.empty()) return;
  threads_.emplace_back(
      [this, users, unused, why = std::string(status.message())] { AbortAll(users, unused, why); });
}

void NcclComms::AbortAll(const std::vector<NcclUser*>& users, const std::vector<ncclComm_t>& unused,
                         const std::string& why) {
  const auto take = [&] {
    std::vector<ncclComm_t> comms = unused;
    for (NcclUser* user : users) {
      const std::vector<ncclComm_t> taken = user->Take();
      comms.insert(comms.end(), taken.begin(), taken.end());
    }
    return comms;
  };
  EndTogether(nccl_, take, nccl_->CommAbort, patience_.abort, [&] {
    const std::string sentence =
        absl::StrCat("NCCL: communicators could not be aborted after \"", why, "\" within ",
                     Seconds(patience_.abort), ": the process ends");
    if (!patience_.on_hang) {
      std::fprintf(stderr, "oneflow: error: %s\n", sentence.c_str());
      std::_Exit(1);  // What would end first waits for them.
    }
    patience_.on_hang(sentence);
    return true;
  });
  for (NcclUser* user : users) user->Aborted();
  const std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    entry.aborted |= std::find(users.begin(), users.end(), entry.user) != users.end();
  }
  ended_.notify_all();
}

void NcclComms::Remove(NcclUser* user) {
  std::vector<ncclComm_t> comms;
  {
    std::unique_lock lock(mutex_);
    const auto own = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.user == user; });
    if (own->failed) {
      ended_.wait(lock, [&] { return own->aborted; });
      entries_.erase(own);
      entries_.remove_if(IsDone);
      return;
    }
    own->comms = user->Take();
    const std::vector<Entry*> joined = Joined(user);
    own->user = nullptr;
    const bool used = std::any_of(joined.begin(), joined.end(), [](const Entry* entry) {
      return entry->user != nullptr && !entry->failed;
    });
    if (used) return;
    for (const Entry* entry : joined) {
      comms.insert(comms.end(), entry->comms.begin(), entry->comms.end());
    }
    entries_.remove_if([&](const Entry& entry) {
      return entry.user == nullptr &&
             std::find(joined.begin(), joined.end(), &entry) != joined.end();
    });
  }
  // All processes of a host have to destroy theirs; one that is late, or gone, is no reason to
  // fail.
  EndTogether(
      nccl_, [comms] { return comms; }, nccl_->CommDestroy, patience_.end,
      [&] {
        LOG(WARNING) << "NCCL: communicators could not be destroyed within "
                     << Seconds(patience_.end) << ": they are left as they are";
        return false;
      });
}

}  // namespace oneflow::cuda

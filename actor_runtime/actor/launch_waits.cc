#include "actor_runtime/actor/launch_waits.h"

#include <algorithm>

#include <glog/logging.h>

namespace oneflow {

LaunchWaits::LaunchWaits(int streams, int queue)
    : streams_(streams),
      queue_(queue),
      launched_(streams, 0),
      completed_(streams, 0),
      known_(static_cast<size_t>(streams) * streams, 0),
      history_(static_cast<size_t>(streams) * queue * streams, 0) {}

void LaunchWaits::Reduce(int32_t stream, std::vector<LaunchNeed>* needs) {
  int64_t* known = Known(stream);
  // The history holds no launch that has completed and been followed by `queue` others; but what
  // has completed is known anyway.
  std::erase_if(*needs, [&](const LaunchNeed& need) {
    DCHECK(need.stream != stream && need.launch < launched_[need.stream]);
    return need.launch < std::max(known[need.stream], completed_[need.stream]);
  });
  // At most one of two needs implies the other, because knowledge follows the order of the
  // launches. The later of two needs of one stream implies the earlier.
  const auto implied = [&](const LaunchNeed& need) {
    return std::any_of(needs->begin(), needs->end(), [&](const LaunchNeed& other) {
      if (other.stream == need.stream) return other.launch > need.launch;
      return KnownAt(other.stream, other.launch)[need.stream] > need.launch;
    });
  };
  size_t kept = 0;
  for (size_t i = 0; i < needs->size(); ++i) {
    if (!implied((*needs)[i])) std::swap((*needs)[kept++], (*needs)[i]);
  }
  needs->resize(kept);
  std::sort(needs->begin(), needs->end(),
            [](const LaunchNeed& a, const LaunchNeed& b) { return a.stream < b.stream; });
  needs->erase(std::unique(needs->begin(), needs->end()), needs->end());
  for (const LaunchNeed& need : *needs) {
    const int64_t* known_there = KnownAt(need.stream, need.launch);
    for (int t = 0; t < streams_; ++t) known[t] = std::max(known[t], known_there[t]);
    known[need.stream] = std::max(known[need.stream], need.launch + 1);
  }
}

int64_t LaunchWaits::Launched(int32_t stream) {
  const int64_t launch = launched_[stream]++;
  DCHECK_LE(launched_[stream] - completed_[stream], queue_);
  const int64_t* known = Known(stream);
  std::copy(known, known + streams_, &history_[(stream * queue_ + launch % queue_) * streams_]);
  return launch;
}

}  // namespace oneflow

// MessagePool: the memory that messages need while UCX owns them. It is allocated before the first
// message, so a step allocates none.
//
//   pool.Reserve(MostMessages(group).words, [](Sending*) {});      before the first message
//   Sending* sending = pool.Take();  ...  pool.Give(sending);
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "actor_runtime/exchange/far_exchange.h"

namespace oneflow {

// Not thread-safe. An empty pool makes another T.
template <typename T>
class MessagePool {
 public:
  // Adds `count` more, each after make(T*).
  template <typename Make>
  void Reserve(size_t count, Make make) {
    all_.reserve(all_.size() + count);
    free_.reserve(all_.size() + count);
    for (size_t i = 0; i < count; ++i) {
      all_.push_back(std::make_unique<T>());
      make(all_.back().get());
      free_.push_back(all_.back().get());
    }
  }
  T* Take() {
    if (free_.empty()) Reserve(1, [](T*) {});
    T* taken = free_.back();
    free_.pop_back();
    return taken;
  }
  void Give(T* taken) { free_.push_back(taken); }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> free_;
};

// The most messages of a communicator that UCX owns at once. Messages of an exchange may still be
// there when those of the next one follow.
struct MessageCounts {
  size_t words = 0;   // messages without a payload that are sent
  size_t pieces = 0;  // pieces that are sent, and as many that arrive
};
MessageCounts MostMessages(const Group& group);

// The payload of a piece as UCX takes it: rows at their addresses, or packed if they are short or
// many.
struct Payload {
  std::vector<ucp_dt_iov_t> rows;
  std::vector<std::byte> packed;

  // Reserves memory so that Gather of packets within these bounds does not allocate.
  void Reserve(const PacketShape& most);
  static int64_t ReservedBytes(const PacketShape& most);
  void Gather(const FarAction& action);
  // The gathered payload. `type` changes if it is not contiguous.
  const void* ForUcx(size_t* count, ucp_datatype_t* type) const;
};

}  // namespace oneflow

// What the members of a communicator do together, once all of them are there.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>
#include <vector>

namespace oneflow::emulated {

// 0 for a type that the twin of NCCL does not know.
size_t NcclElementBytes(ncclDataType_t type);

struct Operation {
  enum Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kSendAndReceive };
  Kind kind;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  bool operator==(const Operation&) const = default;

  // Bytes that a member reads and writes, where all of `members` take part.
  size_t bytes_from(int members) const;
  size_t bytes_to(int members) const;
  std::string ToString() const;  // "all_gather of 5 float32"
};

// The buffers of a member.
struct Buffers {
  const void* from = nullptr;
  void* to = nullptr;
};

// Does it, buffers[i] being of member i; of kSendAndReceive, 0 sends and 1 receives. Sums go round
// a ring: part i of the elements from member i + 1 to member i; those of bf16 are rounded at each
// member. A result may lie where an input does. Results without a place are not written.
void Execute(const Operation& operation, const std::vector<Buffers>& buffers);

}  // namespace oneflow::emulated

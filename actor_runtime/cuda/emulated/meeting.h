// The joint operation of the members of a communicator, once all of them have arrived.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>
#include <vector>

namespace oneflow::emulated {

// Bytes of an element; 0 for a type that the emulated NCCL does not know.
size_t NcclElementBytes(ncclDataType_t type);

struct Operation {
  enum Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kSendAndReceive };
  Kind kind;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  bool operator==(const Operation&) const = default;

  // Bytes that a member reads and writes if `members` members take part.
  size_t bytes_from(int members) const;
  size_t bytes_to(int members) const;
  std::string ToString() const;  // "all_gather of 5 float32"
};

// The buffers of a member.
struct Buffers {
  const void* from = nullptr;
  void* to = nullptr;
};

// Executes an operation, buffers[i] being of member i; in kSendAndReceive, 0 sends and 1 receives.
// Sums go round a ring: part i of the elements from member i + 1 to member i; those of bf16 are
// rounded at each member. A result may overwrite an input. Results without a buffer are not
// written.
void Execute(const Operation& operation, const std::vector<Buffers>& buffers);

}  // namespace oneflow::emulated

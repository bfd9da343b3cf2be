#include "actor_runtime/cuda/emulated/meeting.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace oneflow::emulated {
namespace {

using Bytes = std::vector<std::byte>;

float Widen(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T>
T Widen(T x) {
  return x;
}
template <typename T, typename W>
T Narrow(W x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(x);
  } else {
    return static_cast<T>(x);
  }
}

template <typename T>
T Combine(T a, T b, ncclRedOp_t op) {
  const auto x = Widen(a), y = Widen(b);
  return Narrow<T>(op == ncclSum ? x + y : op == ncclMax ? std::max(x, y) : std::min(x, y));
}

// inputs[m] of member m, all of `count` elements, in parts of `part` elements.
template <typename T>
Bytes Ring(const std::vector<Bytes>& inputs, size_t count, size_t part, ncclRedOp_t op) {
  const size_t members = inputs.size();
  Bytes result(count * sizeof(T));
  for (size_t i = 0; i < count; ++i) {
    const auto element = [&](size_t member) {
      T x;
      std::memcpy(&x, &inputs[member % members][i * sizeof(T)], sizeof(T));
      return x;
    };
    const size_t last = i / part;
    T sum = element(last + 1);
    for (size_t hop = 2; hop <= members; ++hop) sum = Combine(sum, element(last + hop), op);
    std::memcpy(&result[i * sizeof(T)], &sum, sizeof(T));
  }
  return result;
}

Bytes Reduce(const Operation& operation, const std::vector<Bytes>& inputs, size_t count,
             size_t part) {
  switch (operation.type) {
    case ncclFloat32: return Ring<float>(inputs, count, part, operation.op);
    case ncclFloat64: return Ring<double>(inputs, count, part, operation.op);
    case ncclBfloat16: return Ring<__nv_bfloat16>(inputs, count, part, operation.op);
    case ncclInt32: return Ring<int32_t>(inputs, count, part, operation.op);
    case ncclInt64: return Ring<int64_t>(inputs, count, part, operation.op);
    default: LOG(FATAL) << "sums of " << operation.ToString();
  }
}

}  // namespace

size_t NcclElementBytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
  }
  return 0;
}

size_t Operation::bytes_from(int members) const {
  return count * NcclElementBytes(type) * (kind == kReduceScatter ? members : 1);
}
size_t Operation::bytes_to(int members) const {
  return count * NcclElementBytes(type) * (kind == kAllGather ? members : 1);
}

std::string Operation::ToString() const {
  static const char* const kKinds[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                       "send"};
  static const char* const kTypes[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                       "uint64", "float16", "float32", "float64", "bfloat16"};
  return absl::StrCat(kKinds[kind], " of ", count, " ", kTypes[type], " (reduction ",
                      static_cast<int>(op), ", root ", root, ")");
}

void Execute(const Operation& operation, const std::vector<Buffers>& buffers) {
  const int members = static_cast<int>(buffers.size());
  const size_t bytes = operation.count * NcclElementBytes(operation.type);
  // All inputs are read before any result is written: they may share memory.
  std::vector<Bytes> inputs(members);
  for (int m = 0; m < members; ++m) {
    const auto* from = static_cast<const std::byte*>(buffers[m].from);
    if (from != nullptr) inputs[m].assign(from, from + operation.bytes_from(members));
  }
  const auto write = [&](int member, const std::byte* from, size_t size, size_t offset = 0) {
    if (buffers[member].to == nullptr) return;  // in another process
    std::memcpy(static_cast<std::byte*>(buffers[member].to) + offset, from, size);
  };
  switch (operation.kind) {
    case Operation::kSendAndReceive: return write(1, inputs[0].data(), bytes);
    case Operation::kBroadcast:
      for (int m = 0; m < members; ++m) write(m, inputs[operation.root].data(), bytes);
      return;
    case Operation::kAllGather:
      for (int m = 0; m < members; ++m) {
        for (int i = 0; i < members; ++i) write(m, inputs[i].data(), bytes, i * bytes);
      }
      return;
    case Operation::kAllReduce: {
      const size_t part = (operation.count + members - 1) / members;
      const Bytes sum = Reduce(operation, inputs, operation.count, part);
      for (int m = 0; m < members; ++m) write(m, sum.data(), bytes);
      return;
    }
    case Operation::kReduceScatter: {
      const Bytes sum = Reduce(operation, inputs, operation.count * members, operation.count);
      for (int m = 0; m < members; ++m) write(m, sum.data() + m * bytes, bytes);
      return;
    }
  }
}

}  // namespace oneflow::emulated

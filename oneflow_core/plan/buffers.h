// The buffers of a register. Fills take them in turn: fill n is stored in buffer
// (first_buffer + n) mod buffers, and buffer i begins at offset + i * stride. A register has as
// many buffers as slots, one after the other, unless the plan says otherwise.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/plan.pb.h"

namespace oneflow {

// The number of buffers, at least as many as slots.
inline int64_t BufferCount(const proto::Register& r) {
  return r.buffers() > 0 ? r.buffers() : r.slots();
}

// n mod count, in [0, count). n may be negative.
inline int64_t CyclicIndex(int64_t n, int64_t count) {
  return count == 1 ? 0 : (n % count + count) % count;
}

// Rotates an array of `buffers` blocks of `size` items: block i becomes block i + turns,
// cyclically.
template <typename Iterator>
void Rotate(Iterator array, int64_t buffers, int64_t turns, int64_t size) {
  const int64_t last = CyclicIndex(-turns, buffers);  // comes first
  std::rotate(array, array + last * size, array + buffers * size);
}

// The buffer that stores fill number `fill`.
inline int64_t BufferIndex(const proto::Register& r, int64_t fill) {
  return CyclicIndex(r.first_buffer() + fill, BufferCount(r));
}

// Bytes from the beginning of a buffer to that of the next.
inline int64_t BufferStride(const proto::Register& r) {
  return r.stride() > 0 ? r.stride() : r.slot_bytes();
}

// The first byte after the last buffer.
inline int64_t BuffersEnd(const proto::Register& r) {
  return r.offset() + (BufferCount(r) - 1) * BufferStride(r) + r.slot_bytes();
}

// True if any buffer overlaps [begin, end).
inline bool Overlaps(const proto::Register& r, int64_t begin, int64_t end) {
  if (r.offset() >= end || BuffersEnd(r) <= begin) return false;
  for (int64_t buffer = 0; buffer < BufferCount(r); ++buffer) {
    const int64_t at = r.offset() + buffer * BufferStride(r);
    if (at < end && at + r.slot_bytes() > begin) return true;
  }
  return false;
}

// True if the buffers are interleaved with those of other registers in frames (verify/frames.h).
// The plan then states the stride, even where it is no larger than a slot.
inline bool HasInterleavedBuffers(const proto::Register& r) {
  return r.slot_bytes() > 0 && BufferCount(r) > 1 && r.stride() > 0;
}

}  // namespace oneflow

#include "actor_runtime/network/message_pool.h"

#include <algorithm>
#include <set>

namespace oneflow {
namespace {

// Rows shorter than this are packed by us: UCX needs some 30 ns for each.
constexpr int64_t kShortRow = 512;
// The longest list of rows that UCX gathers.
constexpr int64_t kMostRows = 1024;

bool IsPacked(int64_t rows, int64_t bytes) {
  return rows > 1 && (rows > kMostRows || bytes < rows * kShortRow);
}

bool MayBePacked(const PacketShape& most) {
  return most.rows > kMostRows || (most.rows > 1 && most.row_bytes < kShortRow);
}

// Calls fn(begin, bytes) for each row; rows that follow one another in memory are one.
template <typename Fn>
void ForLongRows(const FarAction& action, Fn fn) {
  const std::byte* begin = nullptr;
  size_t length = 0;
  ForPayload(action, [&](const std::byte* row, size_t bytes) {
    if (begin != nullptr && begin + length == row) {
      length += bytes;
      return;
    }
    if (begin != nullptr) fn(begin, length);
    begin = row;
    length = bytes;
  });
  if (begin != nullptr) fn(begin, length);
}

}  // namespace

MessageCounts MostMessages(const Group& group) {
  size_t near = 0;
  std::set<int> processes;  // the others
  for (int m = 0; m < group.members(); ++m) {
    if (group.IsNear(m)) {
      ++near;
    } else {
      processes.insert(group.FindProcess(m));
    }
  }
  const size_t far = group.members() - near;
  // Messages of two exchanges: a request for each pull and source, entered and done for each
  // process; abort.
  const size_t pieces = 2 * kMostPulls * near * far;
  return {pieces + 5 * processes.size(), pieces};
}

void Payload::Reserve(const PacketShape& most) {
  rows.reserve(static_cast<size_t>(std::min(most.rows, kMostRows)));
  if (MayBePacked(most)) packed.reserve(static_cast<size_t>(most.bytes));
}

int64_t Payload::ReservedBytes(const PacketShape& most) {
  return std::min(most.rows, kMostRows) * static_cast<int64_t>(sizeof(ucp_dt_iov_t)) +
         (MayBePacked(most) ? most.bytes : 0);
}

const void* Payload::ForUcx(size_t* count, ucp_datatype_t* type) const {
  if (!packed.empty()) {
    *count = packed.size();
    return packed.data();
  }
  if (rows.size() == 1) {
    *count = rows[0].length;
    return rows[0].buffer;
  }
  *count = rows.size();
  *type = UCP_DATATYPE_IOV;
  return rows.data();
}

void Payload::Gather(const FarAction& action) {
  rows.clear();
  packed.clear();
  int64_t count = 0;
  ForLongRows(action, [&](const std::byte*, size_t) { ++count; });
  if (IsPacked(count, action.message.length)) {
    ForLongRows(action, [&](const std::byte* row, size_t bytes) {
      packed.insert(packed.end(), row, row + bytes);
    });
    return;
  }
  ForLongRows(action, [&](const std::byte* row, size_t bytes) {
    rows.push_back({const_cast<std::byte*>(row), bytes});
  });
}

}  // namespace oneflow

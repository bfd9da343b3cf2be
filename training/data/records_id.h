// RecordsId: which records a run reads, and how, as its checkpoints keep it.
#pragma once

#include <cstdint>
#include <string>

namespace oneflow {

struct RecordsId {
  int64_t count = 0;    // 0: the data have no records: samples begin at any position
  std::string hash;     // RecordSet::hash, 16 hex digits
  bool epochs = false;  // each is read once in an epoch; false: they are drawn with replacement
  bool operator==(const RecordsId&) const = default;
};

}  // namespace oneflow

// What is printed of a run's records before it begins.
#pragma once

#include <string>

#include "nlohmann/json.hpp"
#include "proto/recipe.pb.h"
#include "training/data/sampled_data.h"

namespace oneflow {

// Lines for people; empty where the data have no records:
//
//   data: 57 records: 450 chats of 12345 tokens, 41.2 % of which count as labels, in windows of 64
//   tokens that are 97.8 % full; 3 chats are truncated, 2 are left out: none of their tokens counts
//   3 epochs of 57 records are 22 steps of 8
//
// `batch`: samples of a step. `run` has its steps.
std::string RecordsText(const SampledData& data, int64_t sequence, bool documents,
                        const proto::Run& run, int64_t batch);

// The same numbers: {"records", "epochs", ...}.
nlohmann::ordered_json RecordsJson(const SampledData& data, int64_t sequence,
                                   const proto::Run& run);

// "3 chats are truncated, 2 are left out: ..."; empty where there are none. For the records of any
// data.
std::string LeftOutText(const RecordCounts& counts);

}  // namespace oneflow

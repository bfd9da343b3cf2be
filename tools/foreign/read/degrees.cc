// What follows from devices, degrees and batches in every system.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/foreign/read/read.h"

namespace oneflow::foreign {
namespace {

// "--tensor-model-parallel-size 4"; "" without a word.
std::string Said(const std::string& word, int64_t value) {
  return word.empty() ? "" : absl::StrCat(word, word.starts_with("--") ? " " : "=", value);
}

// Where the first of these settings stands; "" if none was given.
std::string FindWhere(const Facts& facts, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    for (const Setting& setting : facts.settings) {
      const bool is_it = setting.name == name || setting.name == "--" + name;
      if (!name.empty() && is_it) return setting.where;
    }
  }
  return "";
}

// Degrees are met first: of those that divide the devices, the one that keeps most of the user's.
std::string MendDevices(const SharedWords& words, const DegreeFacts& degrees, int64_t devices,
                        int64_t a_node) {
  const int64_t product = degrees.tensor * degrees.pipe * degrees.context;
  const int64_t more = (devices / product + 1) * product;
  std::string hint = absl::StrCat(more, " GPUs");
  if (a_node > 0 && more % a_node == 0) absl::StrAppend(&hint, " (", more / a_node, " nodes)");
  absl::StrAppend(&hint, ", data ", more / product);
  for (int64_t pipe = degrees.pipe; pipe >= 1; --pipe) {
    for (int64_t context = degrees.context; context >= 1; --context) {
      if (degrees.context % context != 0 || degrees.pipe % pipe != 0) continue;
      const int64_t smaller = degrees.tensor * pipe * context;
      if (smaller >= product || devices % smaller != 0) continue;
      absl::StrAppend(&hint, "; or on ", devices, " GPUs");
      if (pipe != degrees.pipe) absl::StrAppend(&hint, " ", Said(words.pipe, pipe));
      if (context != degrees.context) absl::StrAppend(&hint, " ", Said(words.context, context));
      return absl::StrCat(hint, ", data ", devices / smaller);
    }
  }
  return hint;
}

void SolveBatch(const SharedWords& words, Facts* facts) {
  BatchFacts& batch = facts->batch;
  if (!facts->degrees.data) return;
  const int64_t data = *facts->degrees.data;
  if (batch.global && batch.micro) {
    const int64_t product = *batch.micro * data;
    if (*batch.global % product == 0) {
      const int64_t m = *batch.global / product;
      if (!batch.micro_batches) batch.micro_batches = m;
      return;
    }
    if (batch.micro_batches) return;  // a rule of the system's own says it
    const int64_t below = *batch.global / product * product;
    facts->broken.push_back(
        {.rule = "batch must be a multiple of micro-batch x data",
         .numbers = absl::StrCat(*batch.global, " is not a multiple of ", *batch.micro, " x ", data,
                                 " = ", product),
         .theirs = absl::StrCat("global batch size (", *batch.global,
                                ") is not divisible by micro batch size (", *batch.micro,
                                ") times data parallel size (", data, ")"),
         .hint = absl::StrCat(below > 0 ? absl::StrCat(Said(words.global, below), " or ") : "",
                              Said(words.global, below + product)),
         .where = FindWhere(*facts, {words.global, words.micro})});
    return;
  }
  if (batch.micro && batch.micro_batches && !batch.global) {
    batch.global = *batch.micro * *batch.micro_batches * data;
  } else if (batch.global && batch.micro_batches && !batch.micro &&
             *batch.global % (*batch.micro_batches * data) == 0) {
    batch.micro = *batch.global / (*batch.micro_batches * data);
  }
}

}  // namespace

int64_t PadVocab(int64_t vocab, int64_t multiple) {
  return multiple < 1 ? vocab : (vocab + multiple - 1) / multiple * multiple;
}

void CompleteDegrees(const SharedWords& words, Facts* facts) {
  DegreeFacts& degrees = facts->degrees;
  if (!facts->devices) {
    facts->questions.push_back({"how many GPUs", "--devices=NODESxGPUS"});
  } else if (!facts->undecided.empty()) {
    degrees.data.reset();  // a misspelt setting may be one of the degrees
  } else {
    const int64_t product = degrees.tensor * degrees.pipe * degrees.context;
    if (*facts->devices % product != 0) {
      const std::string parts =
          absl::StrCat(degrees.tensor, " x ", degrees.pipe, " x ", degrees.context);
      facts->broken.push_back(
          {.rule = "GPUs must be a multiple of tensor x pipe x context",
           .numbers =
               absl::StrCat(*facts->devices, " is not a multiple of ", parts, " = ", product),
           .theirs = absl::StrCat("world size (", *facts->devices,
                                  ") is not divisible by total_model_size (", product, ")"),
           .hint = MendDevices(words, degrees, *facts->devices, facts->devices_a_node),
           .where = FindWhere(*facts, {words.tensor, words.pipe, words.context})});
      degrees.data.reset();
    } else {
      degrees.data = *facts->devices / product;
    }
  }
  SolveBatch(words, facts);
  ShardingFacts& sharding = facts->sharding;
  if (sharding.what == "none") {
    sharding.ways = 1;
  } else if (degrees.data) {
    int64_t ways = 1;
    for (const std::string& axis : sharding.over) {
      ways *= axis == "data" ? *degrees.data : axis == "context" ? degrees.context : 1;
    }
    if (!sharding.ways) sharding.ways = ways / std::max<int64_t>(1, sharding.replicas);
  }
}

}  // namespace oneflow::foreign

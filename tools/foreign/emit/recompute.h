// The recompute of a recipe, block by block, and the values that another system has near it.
// Internal to this folder.
#pragma once

#include <string>
#include <vector>

#include "proto/recipe.pb.h"

namespace oneflow::foreign {

enum class Policy { kNone, kAttention, kSelective, kFull };

// The policy of each block of each slice (annotate_recompute.h); of one slice without stage_layers.
// `classes`: of all blocks; none: they are alike.
using SlicePolicies = std::vector<std::vector<Policy>>;
SlicePolicies FindPolicies(const proto::Recompute& recompute, const std::vector<int>& slices,
                           std::vector<int> classes = {});

// True if every block has this policy.
bool AllHave(const SlicePolicies& policies, Policy policy);

// The number of blocks that are full, where every slice has that many first, or all if it has
// fewer, and others are none; -1: it is no such number.
int FindFullCount(const SlicePolicies& policies);

// A recompute of the text that --recompute takes. Requires that it is right.
proto::Recompute MakeRecompute(const std::string& text);

// The values near `policies`, the one of least memory first; one alone, where it is the same.
// Megatron-LM: none, attention of all blocks, full of the first N of every slice.
std::vector<proto::Recompute> NearMegatron(const SlicePolicies& policies);
// Of `words`, in the order of memory: "full", "selective", "none", each of all blocks.
std::vector<proto::Recompute> NearOne(const SlicePolicies& policies,
                                      const std::vector<std::string>& words);

}  // namespace oneflow::foreign

// Attributes of an actor, by key, with a fallback when they are not there. A wrong type is our own
// bug: the compiler wrote it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

std::string StringAttribute(const KernelSetup& setup, std::string_view key,
                            std::string_view fallback = "");
double NumberAttribute(const KernelSetup& setup, std::string_view key, double fallback = 0);
bool BoolAttribute(const KernelSetup& setup, std::string_view key);  // false if absent
std::vector<int64_t> IntsAttribute(const KernelSetup& setup, std::string_view key);

// Whether this device speaks for all that hold the same piece: its coordinate is 0 on all of
// `axes`.
bool IsFirstAlong(const KernelSetup& setup, const std::vector<int64_t>& axes);

}  // namespace oneflow

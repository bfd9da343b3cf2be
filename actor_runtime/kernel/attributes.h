// Attributes of an actor, by key, with a default for missing ones. The op's definition has checked
// presence and type; a wrong type is our own bug. Internal to kernel/ and cuda/kernel/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

int64_t IntAttr(const KernelSetup& s, std::string_view key, int64_t fallback = 0);
double DoubleAttr(const KernelSetup& s, std::string_view key, double fallback = 0);
bool BoolAttr(const KernelSetup& s, std::string_view key, bool fallback = false);
std::string StringAttr(const KernelSetup& s, std::string_view key, std::string fallback = "");
std::vector<int64_t> IntsAttr(const KernelSetup& s, std::string_view key);  // {} if absent

}  // namespace oneflow

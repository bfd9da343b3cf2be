// The writers of each system's files. Internal to this folder; emit.h says what they require.
#pragma once

#include <vector>

#include "tools/foreign/emit/emit.h"

namespace oneflow::foreign {

std::vector<EmittedFile> WriteMegatron(const Job& job);
std::vector<EmittedFile> WriteBridge(const Job& job);
std::vector<EmittedFile> WriteTorchtitan(const Job& job);
std::vector<EmittedFile> WriteDeepSpeed(const Job& job);
std::vector<EmittedFile> WriteAccelerate(const Job& job);

}  // namespace oneflow::foreign

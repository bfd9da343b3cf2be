// The devices of the tests of numerics: a binary links one definition.
#pragma once

#include "actor_runtime/exec/device_backend.h"

namespace oneflow {

// Null: CPUs. Else GPUs, real or emulated, which ranks share.
const DeviceBackend* DevicesOfTest();

}  // namespace oneflow

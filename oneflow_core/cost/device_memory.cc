#include "oneflow_core/cost/device_memory.h"

namespace oneflow {

int64_t KeptBytes(const proto::Device& device) {
  return device.has_kept_bytes() ? device.kept_bytes() : device.reserve_bytes();
}

int64_t UsableBytes(const proto::Device& device) {
  return device.memory_bytes() > 0 ? device.memory_bytes() - KeptBytes(device) : 0;
}

void SetUsableBytes(int64_t bytes, proto::Device* device) {
  device->set_memory_bytes(bytes > 0 ? bytes + KeptBytes(*device) : 0);
}

}  // namespace oneflow

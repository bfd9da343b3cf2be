#include "tools/foreign/emit/emit.h"
#include "tools/foreign/emit/writers.h"

namespace oneflow::foreign {

std::vector<EmittedFile> WriteFor(System system, const Job& job) {
  switch (system) {
    case System::kMegatron: return WriteMegatron(job);
    case System::kBridge: return WriteBridge(job);
    case System::kTorchtitan: return WriteTorchtitan(job);
    case System::kDeepSpeed: return WriteDeepSpeed(job);
    case System::kAccelerate: return WriteAccelerate(job);
  }
  return {};
}

}  // namespace oneflow::foreign

// Settings of Megatron-Bridge and NeMo beside Megatron's own: megatron/bridge/training/config.py
// and nemo/collections of releases from 2023 to August 2026.
#include "tools/foreign/read/bridge_parts.h"

namespace oneflow::foreign {
namespace {

using enum List;

constexpr ListedKeys kBridgeLists[] = {
    {kNoEffect,
     "profiling.* ft.* straggler.* nvrx_straggler.* inprocess_restart.* tensor_inspect.* "
     "rerun_state_machine.* env_vars* optimizer_config_override_provider* _target_"},
    {kNoEquivalent, "peft*", "adapters are trained and the weights are not: fewer bytes of states"},
};

}  // namespace

std::span<const ListedKeys> BridgeLists() { return kBridgeLists; }

}  // namespace oneflow::foreign

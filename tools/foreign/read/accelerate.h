// Settings of accelerate: of its YAML and of `accelerate launch`, under the launcher's own names.
// Internal to the readers of accelerate and of the Trainer.
//
//   AccelerateSettings said = JoinAccelerate(file, launch_settings);
//   said.settings.Text("fsdp_sharding_strategy")  // of fsdp_config.fsdp_sharding_strategy, or of
//                                                 // --fsdp_sharding_strategy, which beats it
#pragma once

#include <span>
#include <vector>

#include "tools/foreign/read/facts.h"
#include "tools/foreign/read/hf_trainer.h"
#include "tools/foreign/read/settings.h"
#include "tools/foreign/read/sources.h"

namespace oneflow::foreign {

struct AccelerateSettings {
  Settings settings{"accelerate"};
  std::vector<Setting> beaten;     // of the file, which the command line replaces
  std::vector<Setting> of_others;  // of other launchers
  bool has_file = false;
};
// `file` may be null. Adds a broken rule for keys at the top of the file that accelerate refuses.
AccelerateSettings JoinAccelerate(const SettingsFile* file, const Launch* launch, Facts* facts);

// FSDP of either version. Sharding is over all devices beside tensor (and context) unless
// `replicas` copies are said.
struct FsdpChoice {
  int64_t version = 1;
  std::string strategy = "FULL_SHARD";  // of version 1
  bool reshard = true;                  // of version 2
  bool offload = false;
  bool checkpointing = false;
  int64_t replicas = 1;
};
// The choice of accelerate's settings, and of TrainingArguments' --fsdp and --fsdp_config.
FsdpChoice ReadAccelerateFsdp(Settings* settings, Facts* facts);
FsdpChoice ReadTrainerFsdp(const HfSources& found, Settings* words, Settings* file, Facts* facts);
// Requires the devices, if they are known.
void ApplyFsdp(const FsdpChoice& choice, Facts* facts);

// parallelism_config: degrees, and copies for FSDP (as `replicas`). False where nothing is said.
bool ReadParallelismConfig(Settings* settings, Facts* facts, int64_t* replicas);

// Degrees, schedule, recompute and sharding of Megatron-LM through accelerate.
void ReadAccelerateMegatron(Settings* settings, Facts* facts);

std::span<const ListedKeys> AccelerateLists();

}  // namespace oneflow::foreign

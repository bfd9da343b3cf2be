#include "tools/foreign/bytes/bytes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "tools/foreign/bytes/setup.h"
#include "tools/foreign/bytes/systems.h"

namespace oneflow::foreign {

int64_t SystemBytes::total() const {
  int64_t sum = 0;
  for (const ByteLine& line : lines) sum += line.bytes;
  return sum;
}

int64_t SystemBytes::host_total() const {
  int64_t sum = 0;
  for (const ByteLine& line : host) sum += line.bytes;
  return sum;
}

int64_t SystemBytes::Sum(const std::string& kind) const {
  int64_t sum = 0;
  for (const ByteLine& line : lines) sum += line.kind == kind ? line.bytes : 0;
  return sum;
}

std::vector<std::string> CommonlyLeftOut() {
  return {"the CUDA context and NCCL's buffers", "fragmentation",
          "gradients of activations, and workspaces of products"};
}

absl::StatusOr<SystemBytes> TheirBytes(const Facts& facts) {
  const auto runs_under = [&](const char* system) {
    return std::find(facts.together_with.begin(), facts.together_with.end(), system) !=
           facts.together_with.end();
  };
  if (!facts.broken.empty()) {
    return InputError(absl::StrCat("bytes as ", facts.system, " counts"),
                      absl::StrCat("the configuration breaks a rule: ", facts.broken[0].numbers),
                      facts.broken[0].hint);
  }
  ASSIGN_OR_RETURN(const Setup setup, MakeSetup(facts));
  const std::string& system = facts.system;
  if (system == "megatron-lm" || system == "megatron-bridge" || system == "nemo" ||
      runs_under("megatron-lm")) {
    return MegatronBytes(facts, setup);
  }
  if (system == "deepspeed" || system == "gpt-neox" || runs_under("deepspeed")) {
    return DeepSpeedBytes(facts, setup);
  }
  if (system == "torchtitan" || system == "accelerate" || system == "hf-trainer") {
    return FsdpBytes(facts, setup);
  }
  return InputError(absl::StrCat("bytes as ", system, " counts"), "no formula is known for it",
                    "Megatron-LM, Megatron-Bridge, NeMo, DeepSpeed, GPT-NeoX, torchtitan and "
                    "accelerate have one");
}

}  // namespace oneflow::foreign

#include "tools/oneflow/cli/check_decay.h"

#include <string>
#include <utility>

#include "oneflow_core/base/status.h"

namespace oneflow {

absl::Status CheckDecay(const proto::Optimizer& given, const proto::Optimizer& optimizer) {
  if (optimizer.lr_schedule() != proto::Optimizer::CONSTANT) return absl::OkStatus();
  // 0 is none, for whoever writes it out.
  for (const auto& [flag, is_set] :
       {std::pair("decay_steps", given.decay_steps() != 0),
        std::pair("min_learning_rate", given.min_learning_rate() != 0)}) {
    if (!is_set) continue;
    return InputError("--" + std::string(flag), "the learning rate is constant: it does not decay",
                      "leave it out, or add --lr_schedule=cosine or linear");
  }
  return absl::OkStatus();
}

}  // namespace oneflow

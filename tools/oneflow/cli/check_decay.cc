#include "tools/oneflow/cli/check_decay.h"

#include <string>
#include <utility>

#include "oneflow_core/base/status.h"
#include "tools/oneflow/cli/flags.h"

namespace oneflow {

absl::Status CheckDecay(const Arguments& args, const proto::Optimizer& optimizer) {
  if (optimizer.lr_schedule() != proto::Optimizer::CONSTANT) return absl::OkStatus();
  for (const auto& [flag, is_set] :
       {std::pair("decay_steps", FLAGS_decay_steps != 0),
        std::pair("min_learning_rate", FLAGS_min_learning_rate != 0)}) {
    if (!args.Given(flag) || !is_set) continue;  // 0 is none, for whoever writes it out
    return InputError("--" + std::string(flag), "the learning rate is constant: it does not decay",
                      "leave it out, or add --lr_schedule=cosine or linear");
  }
  return absl::OkStatus();
}

}  // namespace oneflow

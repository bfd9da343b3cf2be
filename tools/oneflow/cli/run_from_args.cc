#include "tools/oneflow/cli/run_from_args.h"

#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/field_text.h"

namespace oneflow {

absl::StatusOr<proto::Run> RunFromArgs(const Arguments& args) {
  proto::Run run;
  for (const auto& [name, value] : args.flags) {
    if (const Row* row = FindRow(RunRows(), name)) {
      RETURN_IF_ERROR(SetField(*row, value, &run));
    } else if (const Row* number = FindRow(OptimizerRows(), name)) {
      RETURN_IF_ERROR(SetField(*number, value, run.mutable_optimizer()));
    }
  }
  return run;
}

}  // namespace oneflow

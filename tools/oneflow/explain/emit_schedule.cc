#include "tools/oneflow/explain/emit_schedule.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "planning/search/plan_words.h"
#include "tools/foreign/torch_schedule/receive_buffers.h"
#include "tools/foreign/torch_schedule/torch_progress.h"
#include "tools/foreign/torch_schedule/torch_schedule.h"
#include "tools/oneflow/cli/flags.h"

namespace oneflow {
namespace {

// Not of a plan whose orders are sound: a slip of ours, which the user can work around.
absl::Status Unproved(const absl::Status& status) {
  return WithMessage(status,
                     absl::StrCat("--emit_schedule: PyTorch would not get to the end of this "
                                  "order: ",
                                  status.message(), "; use another --schedule"));
}

std::string ProofText(const TorchProof& proof, const std::vector<int64_t>& beyond) {
  std::string text = absl::StrCat(
      FLAGS_emit_schedule, ": the order of ", proof.most_held.size(), " ranks, ", proof.stages,
      " stages and M = ", proof.micro_batches,
      " micro-batches for PyTorch's _PipelineScheduleRuntime; ",
      "by its rules of send and receive it ends (", proof.transfers,
      " transfers)\n  micro-batches held at most",
      proof.stages > static_cast<int>(proof.most_held.size()) ? ", each chunk counted" : "",
      ", by rank: ", absl::StrJoin(proof.most_held, " "), ", as in the plan\n");
  if (*std::max_element(beyond.begin(), beyond.end()) == 0) return text;
  absl::StrAppend(&text, "  PyTorch keeps a buffer for every micro-batch that a rank receives: ",
                  absl::StrJoin(beyond, ", ",
                                [](std::string* out, int64_t bytes) {
                                  absl::StrAppend(out, ShortBytesText(bytes));
                                }),
                  " a device beyond the plan's memory, by rank\n");
  return text;
}

}  // namespace

absl::StatusOr<Report> EmitSchedule(const proto::Plan& plan) {
  Report report;
  if (FLAGS_emit_schedule.empty()) return report;
  absl::StatusOr<TorchSchedule> schedule = MakeTorchSchedule(plan);
  RETURN_IF_ERROR(Annotate(schedule.status(), "--emit_schedule"));
  const absl::StatusOr<TorchProof> proof = ProveProgress(*schedule);
  if (!proof.ok()) return Unproved(proof.status());
  RETURN_IF_ERROR(Annotate(WriteFile(FLAGS_emit_schedule, TorchCsv(*schedule)), "--emit_schedule"));
  const std::vector<int64_t> beyond = ReceiveBytesBeyond(plan);
  report.text = ProofText(*proof, beyond);
  report.json = {{"file", FLAGS_emit_schedule},
                 {"ranks", proof->most_held.size()},
                 {"stages", proof->stages},
                 {"micro_batches", proof->micro_batches},
                 {"transfers", proof->transfers},
                 {"most_held", proof->most_held},
                 {"receive_bytes_beyond_plan", beyond}};
  return report;
}

}  // namespace oneflow

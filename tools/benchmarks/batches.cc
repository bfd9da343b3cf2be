// The batches of a run of `oneflow train`, for a peer that is to read the same: tokens as raw
// little-endian i32 [steps, batch, sequence + 1] on stdout.
//
//   batches train|eval DATA EVAL_FRACTION VOCAB SEQUENCE BATCH SEED STEPS > tokens.i32
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "oneflow_core/base/status.h"
#include "training/data/token_dataset.h"

namespace oneflow {
namespace {

absl::Status Write(const char* const* args) {
  const int64_t vocab = std::atoll(args[4]), sequence = std::atoll(args[5]);
  const int64_t batch = std::atoll(args[6]), steps = std::atoll(args[8]);
  ASSIGN_OR_RETURN(const TokenDataset data, TokenDataset::Open({args[2]}, vocab, sequence));
  ASSIGN_OR_RETURN(const TokenSplit split, SplitTokens(data, std::atof(args[3]), sequence));
  const bool eval = std::string_view(args[1]) == "eval";
  const auto source = (eval ? split.validation : split.train).Source(std::atoll(args[7]));
  std::vector<int32_t> tokens(static_cast<size_t>(sequence + 1));
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t row = 0; row < batch; ++row) {
      RETURN_IF_ERROR(source->Sample(step, row, tokens));
      if (std::fwrite(tokens.data(), sizeof(int32_t), tokens.size(), stdout) != tokens.size()) {
        return absl::UnknownError("batches: cannot write");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace oneflow

int main(int argc, char** argv) {
  if (argc != 9) {
    std::fprintf(stderr,
                 "usage: batches train|eval DATA EVAL_FRACTION VOCAB SEQUENCE BATCH SEED STEPS\n");
    return 2;
  }
  const absl::Status status = oneflow::Write(argv);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

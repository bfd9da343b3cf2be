#include "actor_runtime/exchange/exchange_work.h"

#include <algorithm>
#include <span>
#include <utility>

#include "oneflow_core/base/status.h"

namespace oneflow {

absl::StatusOr<ExchangeWork> ExchangeWork::Make(
    const std::vector<std::vector<KernelSetup>>& setups) {
  ExchangeWork work;
  work.tensors_ = static_cast<int>(setups.size());
  for (int tensor = 0; tensor < work.tensors_; ++tensor) {
    for (int member = 0; member < static_cast<int>(setups[tensor].size()); ++member) {
      const KernelSetup& setup = setups[tensor][member];
      if (setup.out.empty()) continue;
      ASSIGN_OR_RETURN(CopyPieces pieces, CopyPieces::Make(setup));
      work.ends_.push_back(work.pieces() + pieces.count());
      work.parts_.push_back({tensor, member, std::move(pieces)});
    }
  }
  return work;
}

void ExchangeWork::Run(int piece, const ExchangeEntries& entries) const {
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), piece);
  const auto index = end - ends_.begin();
  const Part& part = parts_[index];
  const int first = part.tensor * entries.members;
  const std::span<const std::byte* const> sources(&entries.in[first], entries.members);
  std::byte* const out = entries.out[first + part.member];
  part.pieces.Run(piece - (index == 0 ? 0 : ends_[index - 1]), sources, {}, out,
                  entries.accumulate[part.member] != 0);
}

}  // namespace oneflow

#include "actor_runtime/cuda/kernel/make_kernel.h"

#include <map>

#include "actor_runtime/cuda/kernel/kernel_tables.h"
#include "actor_runtime/cuda/kernel/linear_row_stats.h"
#include "actor_runtime/cuda/kernel/product.h"
#include "glog/logging.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow::cuda {
namespace {

using Factories = std::map<std::string_view, absl::StatusOr<Kernel> (*)(const KernelSetup&)>;

Factories CollectTables() {
  Factories factories;
#define LISTED(table) table,
  for (const auto table : {
#include "actor_runtime/cuda/kernel/kernel_tables.inc.h"
       }) {
#undef LISTED
    for (const KernelEntry& entry : table()) {
      CHECK(factories.emplace(entry.kind, entry.make).second) << std::string(entry.kind);
    }
  }
  return factories;
}

const Factories& Tables() {
  static const Factories factories = CollectTables();
  return factories;
}

}  // namespace

absl::StatusOr<Kernel> MakeCudaKernel(const KernelSetup& setup, const Libraries& libraries) {
  const auto it = Tables().find(setup.kind);
  if (it != Tables().end()) return it->second(setup);
  for (const LibraryKernelEntry& entry : LinearRowStatsTable()) {
    if (entry.kind == setup.kind) return entry.make(setup, libraries);
  }
  const OpDef* def = FindOpDef(setup.kind, setup.attrs);
  if (def != nullptr && def->product) return MakeProduct(setup, libraries);
  return absl::NotFoundError(setup.name + ": no CUDA kernel \"" + setup.kind + "\"");
}

std::set<std::string> CudaKernelKinds() {
  std::set<std::string> kinds;
  for (const auto& [kind, make] : Tables()) kinds.emplace(kind);
  for (const LibraryKernelEntry& entry : LinearRowStatsTable()) kinds.emplace(entry.kind);
  for (const OpDef& def : OpDefs()) {
    if (def.product) kinds.insert(def.kind);
  }
  return kinds;
}

}  // namespace oneflow::cuda

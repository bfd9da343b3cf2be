#include "actor_runtime/kernel/kernel.h"

#include <glog/logging.h>

#include <map>

#include "actor_runtime/kernel/kernel_tables.h"
#include "actor_runtime/kernel/product.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

using Factories = std::map<std::string_view, absl::StatusOr<Kernel> (*)(const KernelSetup&)>;

Factories CollectTables() {
  Factories factories;
#define LISTED(table) table,
  for (const auto table : {
#include "actor_runtime/kernel/kernel_tables.inc.h"
       }) {
#undef LISTED
    for (const KernelEntry& entry : table()) {
      CHECK(factories.emplace(entry.kind, entry.make).second) << entry.kind;
    }
  }
  return factories;
}

}  // namespace

absl::StatusOr<Kernel> MakeKernel(const KernelSetup& setup) {
  static const Factories factories = CollectTables();
  const auto it = factories.find(setup.kind);
  if (it != factories.end()) return it->second(setup);
  const OpDef* def = FindOpDef(setup.kind, setup.attrs);
  if (def != nullptr && def->product) return MakeProduct(setup);
  return absl::NotFoundError(setup.name + ": no kernel \"" + setup.kind + "\"");
}

absl::StatusOr<Kernel> MakeKernelFor(Isa isa, KernelSetup setup) {
  CHECK(Has(isa)) << Name(isa);
  setup.isa = isa;
  return MakeKernel(setup);
}

}  // namespace oneflow

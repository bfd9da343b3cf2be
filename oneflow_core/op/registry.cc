// The one table of op kinds: built once, constant ever after, the same in every process.
#include <algorithm>
#include <iterator>

#include <glog/logging.h>

#include "oneflow_core/op/families.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

std::vector<OpDef> BuildTable() {
  std::vector<OpDef> table;
  for (const auto family :
       {SourceOps, MatmulOps, BatchMatmulOps, LinearOps, LinearGradOps, EmbeddingOps, LayerNormOps,
        ElementwiseOps, DropoutOps, CausalAttentionOps, SplitHeadsOps, CausalSoftmaxOps,
        CachedAttentionOps, CrossEntropyOps, OptimizerOps, BoxingOps}) {
    std::vector<OpDef> defs = family();
    std::move(defs.begin(), defs.end(), std::back_inserter(table));
  }
  std::sort(table.begin(), table.end(),
            [](const OpDef& a, const OpDef& b) { return a.kind < b.kind; });
  for (size_t i = 1; i < table.size(); ++i) CHECK_NE(table[i - 1].kind, table[i].kind);
  return table;
}

const std::vector<OpDef>& Table() {
  static const std::vector<OpDef> table = BuildTable();
  return table;
}

}  // namespace

const OpDef* FindOpDef(std::string_view kind) {
  const std::vector<OpDef>& table = Table();
  const auto it = std::lower_bound(table.begin(), table.end(), kind,
                                   [](const OpDef& d, std::string_view k) { return d.kind < k; });
  return it != table.end() && it->kind == kind ? &*it : nullptr;
}

std::vector<std::string> OpKinds() {
  std::vector<std::string> kinds;
  for (const OpDef& def : Table()) kinds.push_back(def.kind);
  return kinds;
}

}  // namespace oneflow

#include "training/trainer/first_weights.h"

#include <cstring>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/tensor/dtype.h"

namespace oneflow {

absl::StatusOr<FirstWeights> FirstWeights::Open(const proto::Plan& plan, const proto::Run& run,
                                                bool verifies) {
  FirstWeights weights;
  weights.seed_ = run.seed();
  const proto::Graph& graph = plan.graph();
  if (graph.has_base()) {
    ASSIGN_OR_RETURN(weights.base_, OpenBase(graph.base(), run.base(), verifies));
  }
  if (!run.init_from().empty()) {
    ASSIGN_OR_RETURN(weights.from_, OpenWeights(run.init_from(), run.base()));
  }
  std::set<std::string_view> variables, frozen;
  for (const proto::Op& op : graph.op()) {
    if (op.kind() != "variable") continue;
    variables.insert(op.name());
    if (IsFrozen(op)) frozen.insert(op.name());
  }
  for (const proto::Variable& v : plan.variable()) {
    if (!variables.contains(v.name())) continue;
    const bool of_base = weights.base_ != nullptr && frozen.contains(v.name());
    const WeightSource& source = of_base ? *weights.base_ : weights.model();
    Origin& origin = weights.origins_[v.name()];
    origin.variable = &v;
    if (!source.Has(v.name()) && !frozen.empty() && !frozen.contains(v.name())) {
      ++weights.initial_;
      continue;
    }
    RETURN_IF_ERROR(source.Check(v, plan.model()));
    origin.source = &source;
    weights.of_base_ += of_base ? 1 : 0;
  }
  return weights;
}

absl::Status FirstWeights::Load(const Piece& piece) const {
  const auto origin = origins_.find(*piece.name);
  if (origin == origins_.end()) {
    std::memset(piece.data, 0, piece.slice->elements() * ElementBytes(piece.dtype));
    return absl::OkStatus();
  }
  const auto& [variable, source] = origin->second;
  return source != nullptr ? source->Load(piece) : FillInitial(*variable, seed_, piece);
}

std::string FirstWeights::Describe() const {
  std::string text = absl::StrCat("the run begins with the weights of ", model().folder());
  if (of_base_ > 0) {
    absl::StrAppend(&text, "; those of ", of_base_, of_base_ == 1 ? " variable" : " variables",
                    from_ != nullptr ? absl::StrCat(" of ", base_->folder()) : "",
                    " are not trained");
  }
  return text;
}

}  // namespace oneflow

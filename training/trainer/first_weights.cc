#include "training/trainer/first_weights.h"

#include <cstring>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/tensor/dtype.h"

namespace oneflow {
namespace {

bool IsFolder(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

// An error unless the folder of --init_from is the base, or has the same weights.
absl::Status CheckIsBase(const WeightSource& from, const WeightSource& base,
                         const proto::Base& of_graph, const std::string& trained) {
  if (IsFolder(from.folder(), base.folder())) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string hash, HashWeights(from.folder()));
  if (hash == of_graph.hash()) return absl::OkStatus();
  return InputError("--init_from=" + from.folder(),
                    absl::StrCat("has none of the variables that are trained, such as ", trained,
                                 ", and is not the base of the graph, ", base.folder()),
                    "name a checkpoint that has them, or leave out --init_from: the run begins "
                    "with the weights of the base");
}

}  // namespace

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
  int64_t of_from = 0;
  std::string first_initial;
  for (const proto::Variable& v : plan.variable()) {
    if (!variables.contains(v.name())) continue;
    const bool of_base = weights.base_ != nullptr && frozen.contains(v.name());
    const WeightSource& source = of_base ? *weights.base_ : weights.model();
    Origin& origin = weights.origins_[v.name()];
    origin.variable = &v;
    if (!source.Has(v.name()) && !frozen.empty() && !frozen.contains(v.name())) {
      if (weights.initial_++ == 0) first_initial = v.name();
      continue;
    }
    RETURN_IF_ERROR(source.Check(v, plan.model()));
    origin.source = &source;
    ++(of_base ? weights.of_base_ : of_from);
  }
  if (weights.from_ != nullptr && weights.base_ != nullptr && weights.initial_ > 0 &&
      of_from == 0) {
    RETURN_IF_ERROR(CheckIsBase(*weights.from_, *weights.base_, graph.base(), first_initial));
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
  if (initial_ == 1) {
    absl::StrAppend(&text, "; 1 variable that it lacks begins with its initial values");
  } else if (initial_ > 1) {
    absl::StrAppend(&text, "; ", initial_,
                    " variables that it lacks begin with their initial values");
  }
  return text;
}

}  // namespace oneflow

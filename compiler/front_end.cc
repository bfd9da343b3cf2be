#include "compiler/front_end.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/lower/prune.h"
#include "compiler/passes/passes.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/annotate_offload.h"
#include "oneflow_core/op/check_graph.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

bool Trains(const FrontEndState& s) { return s.draft.train; }

// Programs that are fed get one text each, which is one document.
bool IsFed(const FrontEndState& s) { return s.draft.spec.feed_inputs; }
bool NeedsPositions(const FrontEndState& s) {
  return !IsFed(s) && (s.plan.recipe().documents() || PositionParts(s.draft.graph) > 1);
}

absl::Status PruneGraph(FrontEndState* s) {
  s->draft.graph = Prune(s->draft.graph, s->draft.loss, s->draft.outputs);
  return absl::OkStatus();
}

// A program that fills caches leaves out what only an output needs, if there are any.
absl::Status Cache(FrontEndState* s) {
  ProgramDraft& draft = s->draft;
  RETURN_IF_ERROR(CacheAttention(&draft.graph, draft.positions));
  const auto& ops = draft.graph.ops;
  const bool fills = draft.fills_caches && std::any_of(ops.begin(), ops.end(), [](const Op& op) {
                       return FindOpDef(op)->updates > 0;
                     });
  if (fills) draft.outputs = 0;
  draft.graph = Prune(draft.graph, draft.loss, draft.outputs, fills);
  return absl::OkStatus();
}

absl::Status WithoutDropout(FrontEndState* s) {
  RemoveDropout(&s->draft.graph);
  return PruneGraph(s);
}

absl::Status OmitLossLogits(FrontEndState* s) {
  const proto::Recipe& recipe = s->plan.recipe();
  OmitLogitsOptions options{.pieces = std::max<int64_t>(0, recipe.loss_pieces()),
                            .needed = recipe.loss_pieces() > 0};
  if (recipe.precision() == proto::BF16) options.dtype = DType::kBF16;
  ASSIGN_OR_RETURN(std::string note, OmitLogits(&s->draft.graph, options));
  s->draft.notes.push_back(std::move(note));
  return absl::OkStatus();
}

absl::Status Place(FrontEndState* s) {
  Graph& graph = s->draft.graph;
  RETURN_IF_ERROR(PlaceVariables(&graph));
  ConstrainVariables(s->plan, &graph);
  for (const TensorId t : graph.outputs) s->outputs.push_back(graph.tensors[t].name);
  return absl::OkStatus();
}

// "" of a graph that trains all of its variables.
std::string FrozenNote(const Graph& graph) {
  std::map<std::string, std::pair<int64_t, bool>> variables;  // elements, and whether it is frozen
  for (const Op& op : graph.ops) {
    if (op.kind != "variable") continue;
    variables[AttrString(op, "variable", op.name)] = {graph.tensors[op.outputs[0]].shape.elements(),
                                                      IsFrozen(op)};
  }
  int64_t all = 0, frozen = 0;
  for (const auto& [name, variable] : variables) {
    all += variable.first;
    frozen += variable.second ? variable.first : 0;
  }
  if (frozen == 0) return "";
  return absl::StrCat("frozen: ", frozen, " of ", all,
                      " parameters, without gradients and states; no step writes them");
}

absl::Status AddGradients(FrontEndState* s) {
  std::string note = FrozenNote(s->draft.graph);
  if (!note.empty()) s->draft.notes.push_back(std::move(note));
  ASSIGN_OR_RETURN(s->gradients, Differentiate(&s->draft.graph, s->draft.graph.loss));
  return absl::OkStatus();
}

absl::Status Narrow(FrontEndState* s) {
  MixedPrecisionOptions options{.narrow_biases = s->plan.device_kind() == proto::CUDA};
  ASSIGN_OR_RETURN(options.residual, DTypeFromProto(s->plan.recipe().residual(), "residual"));
  // Where it is not said they rest as products read them, which is in bf16 here.
  const proto::Recipe& recipe = s->plan.recipe();
  options.narrow_frozen = !recipe.has_frozen_weights() || recipe.frozen_weights() == proto::BF16;
  for (const proto::Variable& v : s->plan.variable()) {
    ASSIGN_OR_RETURN(options.resting[v.name()], DTypeFromProto(v.dtype(), v.name()));
  }
  RETURN_IF_ERROR(MixedPrecision(&s->draft.graph, options, &s->gradients.mirrors));
  s->draft.notes.push_back(absl::StrCat("precision bf16: ", CountNarrowProducts(s->draft.graph),
                                        " products in bf16, added up in f32"));
  const auto rests =
      std::count_if(s->draft.graph.ops.begin(), s->draft.graph.ops.end(), [s](const Op& op) {
        return IsFrozen(op) && s->draft.graph.tensors[op.outputs[0]].dtype == DType::kBF16;
      });
  if (rests > 0) {
    s->draft.notes.push_back(absl::StrCat("frozen weights: ", rests, " rest in bf16"));
  }
  return absl::OkStatus();
}

absl::Status ChooseSbp(FrontEndState* s) {
  ProgramDraft& draft = s->draft;
  SbpOptions options{.micro_batches = draft.spec.micro_batches,
                     .mirrors = s->gradients.mirrors,
                     .cluster = s->plan.cluster(),
                     .split_positions = s->plan.recipe().sequence_parallel(),
                     .split_products = s->plan.recipe().split_products()};
  options.known_layouts = s->known_layouts;
  ASSIGN_OR_RETURN(options.fixed, ReadFixedRows(s->plan.graph(), draft.spec.name, draft.graph));
  ASSIGN_OR_RETURN(s->choice, InferSbp(&draft.graph, options));
  if (s->plan.recipe().state_layouts())
    AddLayouts(draft.spec.name, draft.graph, s->choice, &draft.layouts);
  draft.notes.insert(draft.notes.end(), s->choice.notes.begin(), s->choice.notes.end());
  return absl::OkStatus();
}

absl::Status Box(FrontEndState* s) {
  Graph& graph = s->draft.graph;
  s->unboxed = graph.outputs;
  return InsertBoxing(&graph, s->choice, s->plan.cluster(), s->plan.recipe().recompute().gather());
}

absl::Status FuseOps(FrontEndState* s) {
  const std::vector<TensorId> fused =
      Fuse(&s->draft.graph, {.row_stats = s->plan.device_kind() == proto::CUDA});
  for (TensorId& t : s->unboxed) t = fused[t];
  return absl::OkStatus();
}

absl::Status CheckCudaKernels(FrontEndState* s) {
  const Graph& graph = s->draft.graph;
  for (const Op& op : graph.ops) {
    if ((op.kind == "variable" || op.kind == "input") &&
        graph.tensors[op.outputs[0]].dtype == DType::kF64) {
      return InputError(Where(op), "is f64, in which kernels of GPUs do not compute",
                        "make it f32, or compile with --device=cpu");
    }
    const OpDef& def = *FindOpDef(op);
    if (def.on_cuda || !def.on_cpu) continue;  // neither: it becomes no kernel
    return InputError(Where(op),
                      absl::StrCat("is a ", op.kind, ", of which there is no kernel for CUDA"),
                      "write it with other kinds (docs/ops.md), or compile with --device=cpu");
  }
  return absl::OkStatus();
}

// A failure is the compiler's mistake, not the user's: the passes before have checked the graph.
absl::Status VerifyOps(const Graph& graph) {
  const absl::Status status = CheckGraph(graph);
  return status.ok() ? status : absl::InternalError(status.message());
}

constexpr FrontEndPass kPasses[] = {
    // The forward of a program: shapes are inferred, ops are primitive, and each stage has the
    // variables that it uses.
    {"prune", nullptr, PruneGraph},
    {"remove_hidden_losses", [](const FrontEndState& s) { return !s.draft.train; },
     [](FrontEndState* s) {
       RemoveHiddenLosses(&s->draft.graph);
       return PruneGraph(s);
     }},
    {"bind_batch", nullptr,
     [](FrontEndState* s) { return BindBatch(&s->draft.graph, s->draft.spec.micro_batch_size); }},
    {"remove_capacity", [](const FrontEndState& s) { return !s.draft.train; },
     [](FrontEndState* s) {
       RemoveCapacity(&s->draft.graph, IsFed(*s));
       return absl::OkStatus();
     }},
    {"infer_shapes", nullptr,
     [](FrontEndState* s) { return CheckAndInferShapes(&s->draft.graph); }},
    {"remove_dropout", [](const FrontEndState& s) { return !s.draft.train; }, WithoutDropout},
    {"give_positions", NeedsPositions,
     [](FrontEndState* s) {
       return GivePositions(&s->draft.graph, s->plan.recipe().documents(), &s->draft.notes);
     }},
    {"mask_labels",
     [](const FrontEndState& s) { return !IsFed(s) && s.plan.recipe().masked_labels(); },
     [](FrontEndState* s) {
       MaskLabels(&s->draft.graph);
       return absl::OkStatus();
     }},
    {"join_positions", IsFed,
     [](FrontEndState* s) {
       JoinPositions(&s->draft.graph);
       return absl::OkStatus();
     }},
    {"decompose", nullptr,
     [](FrontEndState* s) { return Decompose(&s->draft.graph, s->draft.spec.micro_batches); }},
    {"omit_logits",
     [](const FrontEndState& s) { return s.draft.loss && s.plan.recipe().loss_pieces() != 0; },
     OmitLossLogits},
    {"cache_attention", [](const FrontEndState& s) { return s.draft.positions > 0; }, Cache},
    {"place_variables", nullptr, Place, VerifyOps},
    // The step that trains: gradients, the update of the weights, and the precision of each op.
    {"count_choices", Trains, [](FrontEndState* s) { return CountChoices(&s->draft.graph); }},
    {"differentiate", Trains, AddGradients},
    {"add_optimizer", Trains,
     [](FrontEndState* s) {
       return AddOptimizer(&s->draft.graph, s->gradients, s->draft.optimizer);
     }},
    {"divide_by_count", nullptr, [](FrontEndState* s) { return DivideByCount(&s->draft.graph); }},
    {"sum_choices", Trains, [](FrontEndState* s) { return SumChoices(&s->draft.graph); }},
    {"mixed_precision",
     [](const FrontEndState& s) { return s.plan.recipe().precision() == proto::BF16; }, Narrow,
     VerifyOps},
    // Layouts: each tensor has an SBP on each axis, and boxing ops join those that differ.
    {"infer_sbp", nullptr, ChooseSbp},
    {"sum_choices_by_stage", Trains,
     [](FrontEndState* s) {
       SumChoicesByStage(&s->draft.graph, &s->choice);
       return absl::OkStatus();
     }},
    {"scale_hidden_losses", Trains,
     [](FrontEndState* s) { return ScaleHiddenLosses(&s->draft.graph, &s->choice); }},
    {"piece_attention", [](const FrontEndState& s) { return s.plan.recipe().context_pieces() > 1; },
     [](FrontEndState* s) {
       PieceAttention(&s->draft.graph, s->plan.recipe().context_pieces(), &s->choice);
       return absl::OkStatus();
     }},
    {"split_variables", nullptr,
     [](FrontEndState* s) {
       SplitVariables(&s->draft.graph, &s->choice);
       return absl::OkStatus();
     }},
    {"recompute", Trains,
     [](FrontEndState* s) {
       Recompute(&s->draft.graph, &s->choice);
       return absl::OkStatus();
     }},
    {"cast_uses", nullptr,
     [](FrontEndState* s) {
       CastUses(&s->draft.graph, &s->choice);
       return absl::OkStatus();
     }},
    {"insert_boxing", nullptr, Box, VerifyGraph},
    // The ops of devices: fused, on the device or its host, in the order in which they will fire.
    {"fuse", [](const FrontEndState& s) { return s.plan.recipe().fuse(); }, FuseOps},
    {"rest_on_host", [](const FrontEndState& s) { return FindOnHost(s.draft.graph).any(); },
     [](FrontEndState* s) {
       RestOnHost(s->draft.spec.micro_batches, &s->draft.graph);
       return absl::OkStatus();
     }},
    {"check_cuda_kernels",
     [](const FrontEndState& s) { return s.plan.device_kind() == proto::CUDA; }, CheckCudaKernels},
    {"order_update", [](const FrontEndState& s) { return s.plan.recipe().overlap(); },
     [](FrontEndState* s) {
       OrderUpdate(&s->draft.graph);
       return absl::OkStatus();
     }},
    {"add_host_outputs", nullptr,
     [](FrontEndState* s) {
       AddHostOutputs(s->outputs, s->unboxed, &s->draft);
       return absl::OkStatus();
     },
     VerifyGraph},
};

}  // namespace

std::span<const FrontEndPass> FrontEndPasses() { return kPasses; }

absl::Status RunFrontEnd(const Graph& logical, const proto::Plan& plan,
                         std::shared_ptr<KnownLayouts> known_layouts, ProgramDraft* draft,
                         std::string_view last) {
  draft->graph = logical;
  FrontEndState state{plan, std::move(known_layouts), *draft};
  for (const FrontEndPass& pass : FrontEndPasses()) {
    if (pass.wanted == nullptr || pass.wanted(state)) RETURN_IF_ERROR(pass.run(&state));
    if (pass.verify != nullptr) RETURN_IF_ERROR(pass.verify(draft->graph));
    if (pass.name == last) break;
  }
  return absl::OkStatus();
}

}  // namespace oneflow

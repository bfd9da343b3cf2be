#include "compiler/draw_options_for_test.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/tensor/mesh.h"

namespace oneflow {
namespace {

template <typename T>
void AddFlag(const char* name, const T& value, std::string* text) {
  absl::StrAppend(text, " --", name, "=", value);
}

void AddSwitch(const char* name, bool on, std::string* text) {
  if (on) absl::StrAppend(text, " --", name);
}

// Devices over which the batch is split.
int64_t BatchParts(const Mesh& mesh) {
  int64_t parts = 1;
  for (const Mesh::Axis& axis : mesh.axes) {
    const bool splits = absl::StartsWith(axis.name, "data") || axis.name == "expert";
    if (splits) parts *= axis.size;
  }
  return parts;
}

}  // namespace

OptionDraws::OptionDraws(unsigned seed, proto::Cluster cluster)
    : random_(seed), cluster_(std::move(cluster)) {}

DrawnCompile OptionDraws::Draw() {
  DrawnCompile drawn;
  drawn.options.cluster = cluster_;
  drawn.mixture = One<int>({0, 0, 0, 0, 1}) == 1;
  drawn.layers = One<int>({1, 2, 3, 4, 4});
  DrawAxes(&drawn);
  DrawModel(&drawn);
  DrawSizes(&drawn);
  DrawStages(&drawn);
  Redraw(&drawn);
  return drawn;
}

void OptionDraws::Redraw(DrawnCompile* drawn) {
  if (!drawn->mixture) DrawStages(drawn);
  std::string flags = drawn->sizes_text;
  AddFlag("mesh", ToString(drawn->mesh), &flags);
  DrawSchedule(*drawn, &flags);
  DrawSharding(*drawn, &flags);
  const bool states = drawn->options.recipe.state_layouts();
  drawn->options.recipe = MakeRecipe("--device=cuda" + flags);
  if (states) drawn->options.recipe.set_state_layouts(true);
  drawn->text = absl::StrCat(drawn->model_text, " --out=g && oneflow compile --graph=g --out=p",
                             " --device=cuda", flags);
}

// More than two axes take long to compile.
void OptionDraws::DrawAxes(DrawnCompile* drawn) {
  const auto mesh =
      drawn->mixture ? One<std::string>({"expert=2", "data=2,expert=2", "data=2,tensor=2",
                                         "expert=2,tensor=2", "expert=2,context=2"})
                     : One<std::string>({"1", "data=4", "data=2x2", "tensor=2", "data=2,tensor=2",
                                         "data=2,tensor=4", "data=4,tensor=2", "data=4,tensor=4",
                                         "data=4,tensor=4", "data=2x2,tensor=2", "data=2,context=2",
                                         "tensor=2,context=2"});
  drawn->mesh = ParseMesh(mesh).value();
}

void OptionDraws::DrawStages(DrawnCompile* drawn) {
  std::vector<Mesh::Axis>& axes = drawn->mesh.axes;
  std::erase_if(axes, [](const Mesh::Axis& axis) { return axis.name == "pipe"; });
  const int stages = std::min(drawn->layers, One<int>({1, 2, 2, 2, 4}));
  if (stages > 1) {
    const auto at = static_cast<int64_t>(random_() % (axes.size() + 1));
    axes.insert(axes.begin() + at, {"pipe", stages});
  }
}

void OptionDraws::DrawModel(DrawnCompile* drawn) {
  std::string* text = &drawn->model_text;
  const int64_t hidden = One<int64_t>({32, 64, 256}), sequence = One<int64_t>({16, 128, 1024}),
                vocab = One<int64_t>({64, 1000, 50257});
  const bool context = drawn->mesh.FindAxis("context") >= 0;
  const bool tied = One<int>({0, 1}) == 1, llama = drawn->mixture || One<int>({0, 0, 1}) == 1;
  *text = llama ? "oneflow model llama" : "oneflow model gpt";
  AddFlag("layers", drawn->layers, text), AddFlag("heads", 4, text),
      AddFlag("hidden", hidden, text);
  AddFlag("sequence", sequence, text), AddFlag("vocab", vocab, text);
  AddFlag("tied", tied ? "true" : "false", text);
  if (!llama) {
    proto::Model config = MakeModel(absl::StrCat("family: 'gpt' heads: 4 layers: ", drawn->layers,
                                                 " hidden: ", hidden, " sequence: ", sequence,
                                                 " vocab: ", vocab, " tied: ", tied));
    config.set_bias(One<int>({0, 1}) == 1);
    config.set_dropout(One<double>({0, 0.1}));
    // Unfused attention needs all positions.
    config.set_attention(context || One<int>({0, 1, 1}) == 1 ? "fused" : "unfused");
    AddFlag("bias", config.bias() ? "true" : "false", text);
    AddFlag("dropout", config.dropout(), text);
    AddFlag("attention", config.attention(), text);
    drawn->graph = BuildModel(config);
    return;
  }
  proto::Model config = MakeModel(absl::StrCat(
      "family: 'llama' heads: 4 layers: ", drawn->layers, " hidden: ", hidden,
      " inner: ", 2 * hidden, " sequence: ", sequence, " vocab: ", vocab, " tied: ", tied));
  AddFlag("inner", config.inner(), text), AddFlag("head_dim", config.head_dim(), text);
  if (drawn->mixture) {
    config.set_experts(4);
    config.set_shared_inner(One<int64_t>({0, 32}));
    config.set_bias_rate(One<double>({0, 0.001}));
    AddFlag("experts", config.experts(), text);
    AddFlag("shared_inner", config.shared_inner(), text);
    AddFlag("bias_rate", config.bias_rate(), text);
    if (context) {  // Two devices have two pieces each.
      config.set_routed_positions(sequence / 4);
      AddFlag("routed_positions", config.routed_positions(), text);
    }
  }
  drawn->graph = BuildModel(config);
}

void OptionDraws::DrawSizes(DrawnCompile* drawn) {
  std::string* text = &drawn->sizes_text;
  drawn->micro_batches = One<int64_t>({1, 2, 4, 6, 6, 8, 12, 16});
  const int64_t batch =
      drawn->micro_batches * BatchParts(drawn->mesh) * One<int64_t>({1, 1, 2, 3, 8, 24});
  const bool narrow = One<int>({0, 1, 1}) == 1;
  const bool narrow_stream = narrow && One<int>({0, 1}) == 1;
  const auto pieces = One<std::string>({"0", "0", "2", "auto"});
  proto::Optimizer& optimizer = drawn->options.optimizer;
  optimizer.set_learning_rate(3e-4);
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_epsilon(1e-8);
  optimizer.set_weight_decay(0.1);
  optimizer.set_clip(1);
  const bool positions = One<int>({0, 1}) == 1;
  const int context_pieces = One<int>({1, 1, 2});
  const bool keep_order = One<int>({0, 1, 1}) == 1;
  AddFlag("batch", batch, text), AddFlag("micro_batches", drawn->micro_batches, text);
  AddFlag("precision", narrow ? "bf16" : "f32", text);
  AddFlag("residual", narrow_stream ? "bf16" : "f32", text);
  AddFlag("loss_pieces", pieces, text), AddFlag("context_pieces", context_pieces, text);
  AddSwitch("sequence_parallel", positions, text);
  AddSwitch("keep_axis_order", keep_order, text);
}

void OptionDraws::DrawSchedule(const DrawnCompile& drawn, std::string* flags) {
  const int stages = drawn.mesh.stages();
  schedule_ = One<std::string>({"1f1b", "interleaved", "zero_bubble", "gpipe"});
  const bool interleaves = drawn.micro_batches % stages == 0 && drawn.layers >= 2 * stages;
  if (schedule_ == "interleaved" && !interleaves) schedule_ = "1f1b";
  AddFlag("schedule", schedule_, flags);
  const int most = drawn.layers / stages;
  if (schedule_ == "interleaved") AddFlag("chunks", One<int>({2, 2, most}), flags);
  AddFlag("recompute",
          One<std::string>({"none", "full", "selective", "attention", "full,gather",
                            "full:1,selective", "full:1,none:1,attention,gather", "selective:1"}),
          flags);
  AddFlag("overlap", One<std::string>({"auto", "auto", "auto", "false"}), flags);
  AddFlag("bucket_bytes", One<std::string>({"25MB", "25MB", "5000"}), flags);
}

void OptionDraws::DrawSharding(const DrawnCompile& drawn, std::string* flags) {
  auto shard = One<std::string>({"none", "states", "gradients", "weights", "weights", "weights"});
  if (drawn.mesh.FindAxis("data.1") >= 0 && One<int>({0, 1}) == 1) {
    shard = One<std::string>({"states:data,gradients:data.1,weights:data.1",
                              "states:data.1,gradients:data.1,weights:data.1"});
  }
  auto gather = One<std::string>({"each_use", "each_use", "each_micro_batch", "once"});
  // Else most are refused.
  const bool shares = drawn.mesh.stages() == 1 && schedule_ == "1f1b";
  if (gather == "each_micro_batch" && !shares && One<int>({0, 0, 0, 1}) == 0) gather = "each_use";
  AddFlag("shard", shard, flags), AddFlag("gather", gather, flags);
  AddFlag("reduce", One<std::string>({"once", "once", "each_micro_batch"}), flags);
  AddFlag("prefetch", One<std::string>({"auto", "0", "1", "1", "2", "2", "3"}), flags);
}

}  // namespace oneflow

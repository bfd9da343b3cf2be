// Draws inputs of compile: a small model, a mesh, and options of training. A few draws are input
// errors, such as --gather=each_micro_batch with several micro-batches in flight.
//
//   OptionDraws draws(/*seed=*/7, cluster);
//   DrawnCompile drawn = draws.Draw();
//   INFO(drawn.text);
//   const absl::StatusOr<proto::Plan> plan = Compile(drawn.graph, "drawn", drawn.options);
//
// Most of the time of compile goes into the choice of layouts, which does not depend on the draws
// of Redraw. So more draws of one model take little time where the graph states its layouts:
//
//   drawn.options.recipe.set_state_layouts(true);  // before Compile
//   drawn.graph = plan->graph();
//   draws.Redraw(&drawn);
#pragma once

#include <random>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "oneflow_core/tensor/mesh.h"
#include "proto/cluster.pb.h"
#include "proto/graph.pb.h"

namespace oneflow {

struct DrawnCompile {
  proto::Graph graph;
  PlanRequest options;
  Mesh mesh;                  // of the options
  int64_t micro_batches = 1;  // of the options
  std::string text;  // the two command lines that do the same, but for --cluster and --memory
  int layers = 0;
  bool mixture = false;                // of experts
  std::string model_text, sizes_text;  // parts of `text`, which Redraw keeps
};

// Equal seeds, clusters and calls give equal draws.
class OptionDraws {
 public:
  // Plans are for GPUs. The cluster's memory is kept: without one, every plan fits.
  OptionDraws(unsigned seed, proto::Cluster cluster);

  // A mesh of 1 to 64 devices over pipe, data, tensor and context, and expert for models with
  // experts; GPT, Llama and mixtures of experts of one to four layers.
  DrawnCompile Draw();

  // Draws again the options that decide only when and where the same is computed: stages, schedule,
  // recompute, overlap, buckets, splits over data axes, and gathers ahead. A mixture keeps its
  // stages: its graph has ops for each of them, and so have its layouts.
  void Redraw(DrawnCompile* drawn);

 private:
  template <typename T>
  T One(const std::vector<T>& of) {
    return of[random_() % of.size()];
  }
  void DrawAxes(DrawnCompile* drawn);
  void DrawModel(DrawnCompile* drawn);
  void DrawSizes(DrawnCompile* drawn);
  void DrawStages(DrawnCompile* drawn);
  void DrawSchedule(const DrawnCompile& drawn, std::string* flags);
  void DrawSharding(const DrawnCompile& drawn, std::string* flags);

  std::mt19937 random_;
  std::string schedule_;  // as drawn last
  const proto::Cluster cluster_;
};

}  // namespace oneflow

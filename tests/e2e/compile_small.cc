#include <stdexcept>

#include "compiler/compile.h"
#include "oneflow_core/tensor/mesh.h"
#include "tests/e2e/recorded_plans.h"
#include "tests/e2e/small_run.h"

namespace oneflow {

proto::Plan CompileSmall(const SmallRun& run) {
  CompileOptions options;
  options.mesh = ParseMesh(run.mesh).value();
  options.train.set_batch(run.batch);
  options.train.set_micro_batches(run.micro_batches);
  options.train.set_schedule(run.schedule);
  options.train.set_chunks(run.chunks);
  options.train.set_recompute(run.recompute);
  options.train.set_no_fusion(!run.fuse);
  options.train.set_extra_in_flight(run.extra_in_flight);
  options.train.set_no_global_norm(!run.global_norm);
  options.train.set_documents(run.documents);
  options.train.set_precision(run.precision);
  options.train.set_residual(run.residual);
  options.train.set_loss_pieces(run.loss_pieces);
  proto::Optimizer& optimizer = *options.train.mutable_optimizer();
  optimizer.set_learning_rate(1e-2);
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_epsilon(1e-8);
  optimizer.set_weight_decay(0.1);
  optimizer.set_clip(run.global_norm ? 1 : 0);
  options.cluster = run.cluster;
  options.cluster.mutable_device()->set_kernel_threads(run.threads);
  options.device_kind = run.device;
  options.generate = run.generate;
  options.split_positions = run.split_positions;
  options.overlap = run.overlap;
  options.prefetch = run.prefetch;
  options.shard = run.shard;
  options.offload = run.offload;
  options.experts = run.experts;
  options.context_pieces = run.context_pieces;
  if (run.split_positions) {
    options.cluster.add_level()->set_size(8);
    options.cluster.mutable_device()->set_firing_seconds(1e-15);
  }
  proto::Graph graph = BuildModel(run.model);
  if (run.edit) run.edit(&graph);
  const proto::Plan plan = Compile(graph, "small", options).value();
  RecordPlan(RecordKey(run), plan);
  return plan;
}

}  // namespace oneflow

#include "tools/search/candidate.h"
namespace oneflow {
CompileOptions CandidateOptions(const CompileOptions& given, const Candidate& candidate) {
  CompileOptions options = given;
  const Family& f = candidate.family;
  options.mesh = f.mesh;
  options.train.set_micro_batches(f.micro_batches);
  options.train.set_schedule(f.schedule);
  options.train.set_chunks(f.chunks > 1 ? f.chunks : 0);
  options.train.set_extra_in_flight(f.extra_in_flight);
  options.train.set_recompute(candidate.blocks.recompute);
  options.split_positions = f.split_positions;
  options.shard = f.shard;
  options.offload = f.offload;
  options.stage_layers = candidate.blocks.stage_layers;
  return options;
}
}

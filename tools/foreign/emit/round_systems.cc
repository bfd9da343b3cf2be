#include "tools/foreign/emit/round_systems.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compiler/schedule/schedule.h"

namespace oneflow::foreign {
namespace {

constexpr int64_t kUsualBucket = 25'000'000;  // the row's default

bool UpdatesOnHost(const proto::Recipe& recipe) {
  return recipe.update_on() == proto::UPDATE_ON_HOST;
}

bool GathersPositions(const AxisDegrees& degrees, const proto::Recipe& recipe) {
  return degrees.context > 1 || (degrees.tensor > 1 && recipe.sequence_parallel());
}

// One chunk a stage: the slices of each stage joined.
void JoinChunks(const AxisDegrees& degrees, proto::Recipe* recipe) {
  recipe->set_schedule("1f1b");
  recipe->set_chunks(1);
  std::vector<int> slices(recipe->stage_layers().layers().begin(),
                          recipe->stage_layers().layers().end());
  if (static_cast<int64_t>(slices.size()) <= degrees.pipe) return;
  recipe->clear_stage_layers();
  for (int64_t stage = 0; stage < degrees.pipe; ++stage) {
    int layers = 0;
    for (size_t i = stage; i < slices.size(); i += degrees.pipe) layers += slices[i];
    recipe->mutable_stage_layers()->add_layers(layers);
  }
}

// PyTorch and Megatron-LM interleave in rounds: with `full_rounds` each of as many micro-batches as
// stages.
bool FitsRounds(const proto::Recipe& recipe, int64_t stages, bool full_rounds) {
  const int64_t m = recipe.micro_batches();
  if (full_rounds) return m % stages == 0;
  return m % std::max<int64_t>(m / stages, 1) == 0;
}

// Data that only its owner's kinds of memory can hold are not split for it.
int LeastSplit(const AxisDegrees& degrees, int parts, int least) {
  return degrees.data * degrees.context > 1 ? std::max(parts, least) : parts;
}

void DropActivations(proto::Offload* offload) { offload->clear_activations(); }

// A choice of a list of fixed ones, where it acts on something.
void SetNorm(bool always, Job* job) {
  const bool norm = always || job->optimizer.clip() > 0;
  job->recipe.set_global_norm(norm);
}

// Activations of whole blocks: of all but the last one at most.
void RoundActivations(const AxisDegrees& degrees, Job* job) {
  proto::Recipe& recipe = job->recipe;
  proto::Offload& offload = *recipe.mutable_offload();
  if (!offload.has_activations()) return;
  const int64_t layers = job->model.layers();
  const bool recomputes = !recipe.recompute().term().empty();
  if (degrees.pipe > 1 || recomputes || layers < 2) return DropActivations(&offload);
  constexpr double kHalf = 0.5;  // as much as hides is not known before the plan is made
  const double share = offload.activations().has_share() ? offload.activations().share() : kHalf;
  const int64_t blocks = std::clamp<int64_t>(std::llround(share * layers), 1, layers - 1);
  offload.mutable_activations()->set_all(false);
  offload.mutable_activations()->set_share(static_cast<double>(blocks) /
                                           static_cast<double>(layers));
}

// The fully sharded systems: FSDP of PyTorch, in both of its drivers.
void RoundFsdpGather(int parts_before, bool pipe, proto::Recipe* recipe) {
  const proto::Gather kept = pipe ? proto::ONCE : proto::EACH_MICRO_BATCH;
  if (parts_before < 3) {
    // Weights were whole between their uses; they stay so as long as the system lets them.
    recipe->set_gather(kept);
  } else if (recipe->gather() != proto::EACH_USE) {
    recipe->set_gather(kept);
  }
}

}  // namespace

proto::WarmUps EqualWarmUps(int64_t stages, int64_t micro_batches) {
  proto::WarmUps warm_ups;
  for (int stage = 0; stage < stages; ++stage) {
    const WarmUpDepth depth = EqualWarmUp(
        {.stages = static_cast<int>(stages), .stage = stage, .micro_batches = micro_batches});
    proto::WarmUps::Depth& said = *warm_ups.add_stage();
    said.set_forwards(depth.forwards);
    said.set_backwards(depth.backwards);
  }
  return warm_ups;
}

std::vector<proto::Recompute> NearRecompute(System system, const SlicePolicies& policies) {
  switch (system) {
    case System::kMegatron:
    case System::kBridge: return NearMegatron(policies);
    case System::kTorchtitan: return NearOne(policies, {"full", "selective", "none"});
    case System::kDeepSpeed:
    case System::kAccelerate: return NearOne(policies, {"full", "none"});
  }
  return {};
}

void RoundMegatron(Job* job, AxisDegrees degrees) {
  proto::Recipe& recipe = job->recipe;
  const int before = CountSplit(recipe);
  int parts = before;
  if (parts >= 2 && (degrees.pipe > 1 || UpdatesOnHost(recipe))) parts = 1;
  if (parts >= 2) degrees.shard = degrees.data;
  proto::Offload& offload = *recipe.mutable_offload();
  if (offload.states()) recipe.set_update_on(proto::UPDATE_ON_HOST);
  if (UpdatesOnHost(recipe)) {
    offload.set_states(false);
    parts = LeastSplit(degrees, std::min(parts, 1), 1);
  }
  offload.set_weights(false);
  RoundActivations(degrees, job);
  SetMesh(degrees, {.parts = parts}, &recipe);
  if (before == 3) {
    recipe.set_gather(proto::EACH_USE);
    if (recipe.overlap()) recipe.set_prefetch(1);
  }
  if (degrees.tensor > 1) {
    recipe.set_split_products(true);
    // A mixture on tensor axes is computed with positions split.
    if (job->model.experts() > 0) recipe.set_sequence_parallel(true);
  }
  if (degrees.context > 1) recipe.set_context_pieces(1);
  if (degrees.pipe > 1) {
    const bool interleaves = recipe.schedule() == "interleaved";
    if (!interleaves || !FitsRounds(recipe, degrees.pipe, /*full_rounds=*/true)) {
      JoinChunks(degrees, &recipe);
    }
    recipe.clear_warm_ups();
  }
  SetNorm(/*always=*/false, job);
  if (GathersPositions(degrees, recipe)) recipe.mutable_recompute()->set_gather(true);
}

void RoundTorchtitan(Job* job, AxisDegrees degrees) {
  proto::Recipe& recipe = job->recipe;
  const bool pipe = degrees.pipe > 1;
  const int before = CountSplit(recipe);
  const bool splits = degrees.data * degrees.context > 1;
  const bool replicates = before == 0 && degrees.tensor * degrees.pipe * degrees.context == 1;
  const bool host =
      UpdatesOnHost(recipe) || recipe.offload().states() || recipe.offload().weights();
  const int parts = replicates && !host ? 0 : 3;
  if (before == 0) degrees.shard = degrees.data;
  const bool reduced = !pipe && recipe.micro_batches() > 1;
  SetMesh(degrees, {.parts = parts, .reduced = reduced}, &recipe);
  if (splits && parts == 3) {
    RoundFsdpGather(before, pipe, &recipe);
    recipe.set_prefetch(1);
  }
  proto::Offload& offload = *recipe.mutable_offload();
  DropActivations(&offload);
  offload.set_states(false);
  offload.set_weights(host && splits);
  recipe.set_update_on(host && splits ? proto::UPDATE_ON_HOST : proto::UPDATE_ON_DEVICE);
  if (degrees.devices() > 1) recipe.set_overlap(true);
  recipe.set_bucket_bytes(kUsualBucket);
  if (degrees.tensor > 1) {
    recipe.set_split_products(true);
    recipe.set_sequence_parallel(true);
  }
  if (degrees.context > 1) recipe.set_context_pieces(1);
  if (pipe) {
    const std::string& schedule = recipe.schedule();
    const bool rounds = schedule == "interleaved" || schedule == "zero_bubble";
    if (rounds && !FitsRounds(recipe, degrees.pipe, /*full_rounds=*/false))
      JoinChunks(degrees, &recipe);
    recipe.clear_warm_ups();
    if (recipe.schedule() == "zero_bubble") {
      recipe.set_fuse(false);
      *recipe.mutable_warm_ups() = EqualWarmUps(degrees.pipe, recipe.micro_batches());
    }
  }
  // Autocast works on one device and on plain data parallelism alone.
  if (!splits && degrees.devices() > 1) recipe.set_precision(proto::F32);
  recipe.set_residual(recipe.precision());
  SetNorm(/*always=*/true, job);
  const bool recomputes = !recipe.recompute().term().empty();
  recipe.mutable_recompute()->set_gather(recomputes && GathersPositions(degrees, recipe));
  if (degrees.context > 1) recipe.set_documents(false);
  const proto::Optimizer& optimizer = job->optimizer;
  const bool decays = optimizer.lr_schedule() != proto::Optimizer::CONSTANT;
  if (decays && optimizer.decay_steps() < job->run.steps()) job->optimizer.set_decay_steps(0);
}

namespace {

// The Trainer of Hugging Face runs models of transformers as they are.
void RoundTrainer(Job* job) {
  proto::Recipe& recipe = job->recipe;
  recipe.mutable_recompute()->set_gather(false);
  recipe.set_residual(recipe.precision());
  recipe.set_fuse(false);
  recipe.set_documents(false);
  DropActivations(recipe.mutable_offload());
  SetNorm(/*always=*/true, job);
  const proto::Optimizer& optimizer = job->optimizer;
  const bool decays = optimizer.lr_schedule() != proto::Optimizer::CONSTANT;
  const bool last = optimizer.decay_steps() == job->run.steps();
  if (decays && !last) job->optimizer.set_decay_steps(0);
}

}  // namespace

void RoundDeepSpeed(Job* job, AxisDegrees degrees) {
  RoundTrainer(job);
  proto::Recipe& recipe = job->recipe;
  proto::Offload& offload = *recipe.mutable_offload();
  int parts = CountSplit(recipe);
  if (offload.states()) recipe.set_update_on(proto::UPDATE_ON_HOST);
  offload.set_states(false);
  if (UpdatesOnHost(recipe)) parts = LeastSplit(degrees, parts, 1);
  offload.set_weights(offload.weights() && parts == 3);
  degrees.shard = degrees.data;
  SetMesh(degrees, {.parts = parts}, &recipe);
  if (parts == 3) recipe.set_gather(proto::EACH_USE);
}

void RoundAccelerate(Job* job, AxisDegrees degrees) {
  RoundTrainer(job);
  proto::Recipe& recipe = job->recipe;
  const int before = CountSplit(recipe);
  const bool host =
      UpdatesOnHost(recipe) || recipe.offload().states() || recipe.offload().weights();
  const bool splits = degrees.data > 1;
  const int parts = before == 0 && !host ? 0 : 3;
  if (before == 0) degrees.shard = degrees.data;
  const bool each = recipe.micro_batches() > 1 && (parts == 3 || recipe.reduce().axis_size() > 0);
  SetMesh(degrees, {.parts = parts, .reduced = each}, &recipe);
  if (splits && parts == 3) {
    RoundFsdpGather(before, /*pipe=*/false, &recipe);
    recipe.set_prefetch(1);
  }
  proto::Offload& offload = *recipe.mutable_offload();
  offload.set_states(false);
  offload.set_weights(host && splits);
  recipe.set_update_on(host && splits ? proto::UPDATE_ON_HOST : proto::UPDATE_ON_DEVICE);
  if (degrees.devices() > 1) recipe.set_overlap(true);
  recipe.set_bucket_bytes(kUsualBucket);
}

}  // namespace oneflow::foreign

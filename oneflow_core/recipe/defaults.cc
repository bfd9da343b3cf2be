#include "oneflow_core/recipe/defaults.h"

namespace oneflow {
namespace {

// The default of PyTorch's DistributedDataParallel.
constexpr int64_t kBucketBytes = 25'000'000;

proto::Recipe MakeDefaults() {
  proto::Recipe recipe;
  recipe.set_device(proto::CPU);
  recipe.set_keep_axis_order(false);
  recipe.set_sequence_parallel(false);
  recipe.set_experts("");
  recipe.set_gather(proto::EACH_USE);
  recipe.set_bucket_bytes(kBucketBytes);
  recipe.set_prefetch(kUsualPrefetch);
  recipe.set_context_pieces(1);
  recipe.set_batch(8);
  recipe.set_micro_batches(1);
  recipe.set_schedule("1f1b");
  recipe.set_extra_in_flight(0);
  recipe.set_fill_memory(false);
  recipe.set_staleness(0);
  recipe.set_global_norm(true);
  recipe.set_precision(proto::F32);
  recipe.set_residual(proto::F32);
  recipe.set_fuse(true);
  recipe.set_documents(false);
  recipe.set_loss_pieces(0);
  recipe.set_update_on(proto::UPDATE_ON_DEVICE);
  recipe.set_host_memory(0);
  recipe.set_state_layouts(false);
  return recipe;
}

}  // namespace

proto::Recipe WithDefaults(proto::Recipe recipe) {
  static const auto& defaults = *new proto::Recipe(MakeDefaults());
  proto::Recipe complete = defaults;
  complete.MergeFrom(recipe);
  return complete;
}

}  // namespace oneflow

#include "tools/foreign/emit/megatron_facts.h"

#include <cmath>

#include "glog/logging.h"
#include "oneflow_core/recipe/field_text.h"
#include "tools/foreign/emit/round_systems.h"

namespace oneflow::foreign {
namespace {

constexpr int64_t kUsualBytes = 25'000'000;  // of the row bucket_bytes
constexpr int64_t kBytesOfGradient = 4;

void FindSchedule(const Job& job, MegatronFacts* facts) {
  if (facts->degrees.pipe == 1) return;
  const std::vector<int> slices = FindSlices(job);
  const int stages = static_cast<int>(facts->degrees.pipe);
  facts->chunks = static_cast<int>(slices.size()) / stages;
  facts->ends = FindMegatronEnds(slices, stages);
  if (!facts->ends.fits) facts->layout = MegatronLayout(slices);
}

void FindRecompute(const Job& job, MegatronFacts* facts) {
  const auto& terms = job.recipe.recompute().term();
  if (terms.empty()) return;
  if (terms[0].policy() == "attention") {
    facts->granularity = "selective";
    facts->modules = {"core_attn"};
    return;
  }
  facts->granularity = "full";
  const bool block = !terms[0].counts().empty();
  facts->method = block ? "block" : "uniform";
  facts->recompute_layers = block ? terms[0].counts(0) : 1;
}

}  // namespace

MegatronFacts FindMegatronFacts(const Job& job) {
  MegatronFacts facts;
  const proto::Recipe& recipe = job.recipe;
  facts.degrees = FindDegrees(recipe).value();
  facts.nodes = FindNodes(facts.degrees.devices(), job.devices_a_node);
  facts.micro_batch = FindMicroBatch(recipe, facts.degrees).value();
  facts.split = CountSplit(recipe);
  if (facts.split == 1) facts.copies = facts.degrees.data / facts.degrees.shard;
  facts.host = recipe.update_on() == proto::UPDATE_ON_HOST;
  FindSchedule(job, &facts);
  FindRecompute(job, &facts);
  if (recipe.offload().has_activations()) {
    facts.offloaded_blocks = std::llround(recipe.offload().activations().share() *
                                          static_cast<double>(job.model.layers()));
  }
  facts.decay = FieldText(*FindRow(OptimizerRows(), "lr_schedule"), job.optimizer);
  if (recipe.overlap() && recipe.bucket_bytes() != kUsualBytes) {
    facts.bucket_elements = std::max<int64_t>(recipe.bucket_bytes() / kBytesOfGradient, 1);
  }
  const proto::Model& model = job.model;
  facts.balance = model.aux_loss_coeff() > 0 ? "seq_aux_loss" : "none";
  // The probabilities of all experts are weighed before the choice, where choices do not add up
  // to 1.
  facts.pre_softmax =
      model.scores() == "softmax" && (!model.norm_topk_prob() || model.experts_per_token() == 1);
  return facts;
}

}  // namespace oneflow::foreign

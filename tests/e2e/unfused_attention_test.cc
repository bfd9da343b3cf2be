// Attention as separate products, softmax and dropout, and dropout with stored masks: the model
// that the fused op and recomputed masks compute, on any mesh and under any recompute.
#include <string>

#include "catch2/catch.hpp"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

SmallRun Unfused(const std::string& mesh = "") {
  SmallRun run;
  run.Set("mesh", mesh);
  run.model.set_attention("unfused");
  run.steps = 8;
  return run;
}

SmallRun WithMasks(const std::string& mesh = "") {
  SmallRun run = Unfused(mesh);
  run.model.set_dropout(0.1);
  run.model.set_masks("stored");
  return run;
}

TEST_CASE("unfused attention trains to the losses of the fused op") {
  SmallRun fused = Unfused();
  fused.model.set_attention("fused");
  const SmallResult expected = Train(fused);
  for (const char* mesh : {"", "data=2,tensor=2", "pipe=2,tensor=2"}) {
    INFO(mesh);
    CHECK(LargestDifference(Train(Unfused(mesh)), expected) < 1e-5);
  }
  SmallRun narrow = Unfused();
  narrow.Set("--precision=bf16");
  CHECK(LargestDifference(Train(narrow), expected) < 1e-2);
}

TEST_CASE("a stored mask is the recomputed one, bit for bit") {
  for (const proto::DataType precision : {proto::F32, proto::BF16}) {
    SmallRun stored = WithMasks("data=2"), recomputed = WithMasks("data=2");
    stored.recipe.set_precision(precision);
    recomputed.recipe.set_precision(precision);
    recomputed.model.set_masks("recomputed");
    const SmallResult result = Train(stored);
    CHECK(result == Train(recomputed));
    recomputed.model.set_dropout(0);
    CHECK(result != Train(recomputed));
  }
}

TEST_CASE("masks do not depend on the mesh") {
  const SmallResult one = Train(WithMasks());
  CHECK(Train(WithMasks("pipe=2")) == one);
  for (const char* mesh : {"tensor=2", "pipe=2,data=2,tensor=2"}) {
    INFO(mesh);
    CHECK(LargestDifference(Train(WithMasks(mesh)), one) < 1e-5);
  }
}

TEST_CASE("recompute of the core of attention, of blocks, and gathering again change no bit") {
  for (const char* mesh : {"", "tensor=2", "pipe=2,tensor=2"}) {
    for (const proto::DataType type : {proto::F32, proto::BF16}) {
      SmallRun run = WithMasks(mesh);
      run.recipe.set_precision(type);
      run.recipe.set_residual(type);
      run.Set("--sequence_parallel");
      const SmallResult kept = Train(run);
      for (const char* policy : {"attention", "selective", "full", "gather", "attention,gather",
                                 "full:1,selective:1,attention,gather"}) {
        INFO(mesh << " " << policy << " " << proto::DataType_Name(type));
        run.Set("recompute", policy);
        CHECK(Train(run) == kept);
      }
    }
  }
}

}  // namespace
}  // namespace oneflow

// Decoders of every family, tiny and with blocks in classes: on any mesh of up to 8 devices they
// train to the losses of one device. A few meshes of each are drawn; --config=full takes all.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "catch2/catch.hpp"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/field_text.h"
#include "tests/e2e/small_run.h"

namespace oneflow {
namespace {

struct TinyDecoder {
  const char* name;
  const char* family;
  const char* flags;  // of its model
};

constexpr char kTinySizes[] =
    "--layers=4 --hidden=32 --inner=32 --heads=4 --groups=2 --head_dim=8 --sequence=16 --vocab=48";

// Each piece that a family has is in one of them.
const TinyDecoder kTiny[] = {
    {"gemma2", "gemma",
     "--blocks=local(window=4),full --attention_cap=5 --logit_cap=3 "
     "--attention_scale=0.4"},
    {"gemma3", "gemma",
     "--blocks='2*local(theta=100 window=4),full(rope_scaling=linear:2)' --qk_norm"},
    {"gpt-oss", "gpt_oss",
     "--rope_scaling=yarn:4,8,8,1,exact --blocks=local(window=4),full --routed_positions=4"},
    {"olmo2", "olmo", "--blocks=none"},
    {"olmo3", "olmo", "--blocks=3*local(window=4),full(rope_scaling=yarn:4,8,8,1)"},
    {"glm", "glm",
     "--blocks='dense(inner=48 experts=0),*mixture' --shared_inner=16 --routed_scale=2.5 "
     "--routed_positions=4"},
    {"smollm3", "llama", "--blocks=3*rotary,plain(rotary_share=0)"},
    {"next tokens", "llama", "--next_tokens=1 --tied=true"}};

proto::Model MakeTiny(const TinyDecoder& decoder) {
  proto::Model said;
  said.set_family(decoder.family);
  REQUIRE(SetFields(ModelRows(), kTinySizes, &said).ok());
  REQUIRE(SetFields(ModelRows(), decoder.flags, &said).ok());
  const absl::StatusOr<proto::Model> model = CompleteModel(said);
  INFO(model.status());
  REQUIRE(model.ok());
  return *model;
}

SmallRun MakeRun(const proto::Model& model, const std::string& mesh) {
  SmallRun run;
  run.model = model;
  run.Set("mesh", mesh);
  run.Set("--sequence_parallel --batch=16 --micro_batches=2");
  run.steps = 5;
  return run;
}

// All meshes of 2, 4 or 8 devices of these axes.
std::vector<std::string> ListMeshes(bool experts) {
  std::vector<std::string> meshes;
  for (int pipe : {1, 2, 4}) {
    for (int data : {1, 2, 4}) {
      for (int context : {1, 2}) {
        for (int tensor : {1, 2}) {
          for (int expert : {1, 2, 4}) {
            const int devices = pipe * data * context * tensor * expert;
            if (devices == 1 || devices > 8 || (expert > 1 && !experts)) continue;
            std::string mesh;
            const auto add = [&](const char* axis, int size) {
              if (size == 1) return;
              mesh += (mesh.empty() ? "" : ",") + std::string(axis) + "=" + std::to_string(size);
            };
            add("pipe", pipe), add("data", data), add("context", context), add("tensor", tensor);
            add("expert", expert);
            meshes.push_back(mesh);
          }
        }
      }
    }
  }
  return meshes;
}

std::vector<std::string> DrawMeshes(bool experts, size_t count, unsigned seed) {
  std::vector<std::string> meshes = ListMeshes(experts);
  std::mt19937 random(seed);
  std::shuffle(meshes.begin(), meshes.end(), random);
  if (std::getenv("ONEFLOW_TEST_FULL") == nullptr) meshes.resize(std::min(meshes.size(), count));
  return meshes;
}

TEST_CASE("decoders train to the losses of one device on any mesh") {
  unsigned seed = 1;
  for (const TinyDecoder& decoder : kTiny) {
    const proto::Model model = MakeTiny(decoder);
    const SmallResult one = Train(MakeRun(model, ""));
    CHECK(one.losses.back() < one.losses.front());
    for (const std::string& mesh : DrawMeshes(model.experts() > 0, 3, ++seed)) {
      INFO(decoder.name << " on " << mesh);
      CHECK(LargestDifference(Train(MakeRun(model, mesh)), one) < 1e-5);
    }
  }
}

TEST_CASE("pipes, schedules and what is recomputed change no bit of decoders") {
  for (const TinyDecoder& decoder : kTiny) {
    const SmallRun run = MakeRun(MakeTiny(decoder), "");
    const SmallResult one = Train(run);
    for (const char* flags : {"--mesh=pipe=2 --recompute=full:1,selective",
                              "--mesh=pipe=2 --schedule=zero_bubble", "--recompute=full@a:1"}) {
      INFO(decoder.name << " " << flags);
      SmallRun other = run;
      other.Set(flags);
      CHECK(Train(other) == one);
    }
  }
}

}  // namespace
}  // namespace oneflow

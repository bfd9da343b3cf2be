#include "planning/search/candidate.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

Candidate Some(const char* mesh, int64_t micro_batches = 4) {
  return {{.mesh = *ParseMesh(mesh), .micro_batches = micro_batches}, {}};
}

TEST_CASE("candidate: flags leave out what has its default, but for the mesh") {
  CHECK(CandidateFlags({}) == "--mesh=1");
  CHECK(CandidateFlags(Some("data=4", 1)) == "--mesh=data=4");
  Candidate all = Some("pipe=2,data=4x2,tensor=2", 8);
  all.family.schedule = "interleaved";
  all.family.chunks = 3;
  all.family.extra_in_flight = 1;
  all.family.split_positions = true;
  all.family.shard = *ParseSharding("", "states:data,gradients:data,weights:data.1");
  all.family.offload = *ParseOffload("", "activations,states");
  all.blocks = {"full", {2, 1, 1, 1, 1, 2}};
  CHECK(CandidateFlags(all) ==
        "--mesh=pipe=2,data=4x2,tensor=2 --keep_axis_order --micro_batches=8 "
        "--schedule=interleaved --chunks=3 --extra_in_flight=1 --sequence_parallel "
        "--shard=states:data,gradients:data,weights:data.1 --offload=activations,states "
        "--recompute=full --stage_layers=2,1,1,1,1,2");
  // Compile may order several axes, unless it is told not to.
  Candidate ordered = Some("data=4,tensor=2", 1);
  CHECK(CandidateFlags(ordered) == "--mesh=data=4,tensor=2 --keep_axis_order");
  ordered.family.keep_axis_order = false;
  CHECK(CandidateFlags(ordered) == "--mesh=data=4,tensor=2");
}

TEST_CASE("candidate: options keep what is given beside the choices") {
  PlanRequest given;
  given.recipe.set_batch(64);
  given.recipe.set_loss_pieces(-1);
  given.shard.reduced = {"data"};
  given.shard.gather = Sharding::Gather::kOnce;
  given.recipe.update_on() == proto::UPDATE_ON_HOST = true;
  Candidate candidate = Some("data=4");
  candidate.family.shard = ShardWeights();
  candidate.family.offload.states = true;
  candidate.blocks.recompute = "selective";
  const PlanRequest options = CandidateOptions(given, candidate);
  CHECK(options.recipe.batch() == 64);
  CHECK(options.recipe.loss_pieces() == -1);
  CHECK(options.recipe.micro_batches() == 4);
  CHECK(options.recipe.recompute() == "selective");
  CHECK(options.shard.weights == std::vector<std::string>{"data"});
  CHECK(options.shard.reduced == std::vector<std::string>{"data"});
  CHECK(options.shard.gather == Sharding::Gather::kOnce);
  CHECK(options.offload.update_on_host);
  CHECK(options.offload.states);
  CHECK(options.mesh == candidate.family.mesh);
}

TEST_CASE("candidate: a degree is the product of the factors of an axis") {
  const Mesh mesh = *ParseMesh("pipe=3,data=8x4,tensor=2");
  CHECK(FindDegree(mesh, "data") == 32);
  CHECK(FindDegree(mesh, "tensor") == 2);
  CHECK(FindDegree(mesh, "pipe") == 3);
  CHECK(FindDegree(mesh, "context") == 1);
}

// Each pair has the bits that docs/sharding.md and law 6 of docs/design.md say.
TEST_CASE("candidate: equal keys of bits exactly where the bits are equal") {
  const auto key = [](const char* mesh, int64_t micro_batches, const char* shard) {
    Candidate candidate = Some(mesh, micro_batches);
    candidate.family.shard = *ParseSharding("", shard);
    return BitsKey(candidate);
  };
  const std::string plain = key("data=4", 4, "none");
  CHECK(plain == key("pipe=2,data=4", 4, "none"));
  CHECK(plain == key("data=4", 4, "states"));
  CHECK(plain != key("data=4", 2, "none"));
  CHECK(plain != key("data=2", 4, "none"));
  CHECK(plain != key("data=4,tensor=2", 4, "none"));
  CHECK(plain != key("data=4", 4, "gradients"));
  CHECK(key("data=4", 4, "gradients") == key("data=4", 4, "weights"));
  CHECK(key("data=4", 1, "none") == key("data=4", 1, "weights"));
  CHECK(key("data=2x2", 1, "none") != key("data=2x2", 1, "states"));
  CHECK(key("data=2,context=2", 1, "none") != key("data=2,context=2", 1, "states"));

  Candidate scheduled = Some("pipe=2,data=4");
  scheduled.family.schedule = "interleaved";
  scheduled.family.chunks = 2;
  scheduled.family.offload.activations.emplace();
  scheduled.blocks = {"full", {1, 1, 1, 1}};
  CHECK(plain == BitsKey(scheduled));
}

}  // namespace
}  // namespace oneflow

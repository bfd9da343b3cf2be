#include "planning/search/candidate.h"

#include <catch2/catch.hpp>

namespace oneflow {
namespace {

proto::Recipe Some(const std::string& flags) { return MakeCandidate(MakeRecipe(flags)); }

TEST_CASE("candidate: flags leave out what has its default, but for the mesh") {
  CHECK(CandidateFlags({}) == "--mesh=1");
  CHECK(CandidateFlags(Some("--mesh=data=4")) == "--mesh=data=4");
  CHECK(CandidateFlags(Some("--batch=64 --chunks=1 --shard=none --recompute=none")) == "--mesh=1");
  const std::string all =
      "--mesh=pipe=2,data=4x2,tensor=2 --sequence_parallel=true "
      "--shard=states:data,gradients:data,weights:data.1 --keep_axis_order=true --micro_batches=8 "
      "--schedule=interleaved --chunks=3 --stage_layers=2,1,1,1,1,2 --extra_in_flight=1 "
      "--recompute=full --offload=activations,states";
  CHECK(CandidateFlags(Some(all)) == all);
  CHECK(CandidateFlags(Some("--mesh=pipe=2 --schedule=interleaved")) ==
        "--mesh=pipe=2 --schedule=interleaved --chunks=2");
}

TEST_CASE("candidate: a request keeps what is given beside the choices") {
  const PlanRequest given = {
      .recipe = MakeRecipe("--batch=64 --loss_pieces=auto --reduce=each_micro_batch --gather=once "
                           "--update_on=host --shard=states --stage_layers=1,1")};
  const proto::Recipe candidate = Some(
      "--mesh=data=4 --micro_batches=4 --shard=weights --offload=states "
      "--recompute=selective");
  const proto::Recipe recipe = CandidateRequest(given, candidate).recipe;
  CHECK(FlagsText(RecipeRows(), recipe) ==
        "--mesh=data=4 --sequence_parallel=false --shard=weights --gather=once "
        "--reduce=each_micro_batch --keep_axis_order=false --batch=64 --micro_batches=4 "
        "--schedule=1f1b --chunks=1 --extra_in_flight=0 --recompute=selective --loss_pieces=auto "
        "--offload=states --update_on=host");
}

TEST_CASE("candidate: a group is what differs in recompute and layers of stages alone") {
  const proto::Recipe some = Some("--mesh=pipe=2 --recompute=full --stage_layers=1,2");
  CHECK(IsSame(some, Some("--mesh=pipe=2 --recompute=full --stage_layers=1,2 --chunks=1")));
  CHECK_FALSE(IsSame(some, Some("--mesh=pipe=2 --recompute=full")));
  CHECK(IsSameGroup(some, Some("--mesh=pipe=2")));
  CHECK_FALSE(IsSameGroup(some, Some("--mesh=pipe=2 --micro_batches=2")));
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
  const auto key = [](const std::string& mesh, int micro_batches, const std::string& shard) {
    return BitsKey(Some("--mesh=" + mesh + " --micro_batches=" + std::to_string(micro_batches) +
                        " --shard=" + shard));
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
  CHECK(BitsKey(Some("--mesh=tensor=2")) != BitsKey(Some("--mesh=tensor=2 --sequence_parallel")));
  CHECK(plain == BitsKey(Some("--mesh=pipe=2,data=4 --micro_batches=4 --schedule=interleaved "
                              "--chunks=2 --offload=activations --recompute=full "
                              "--stage_layers=1,1,1,1")));
}

}  // namespace
}  // namespace oneflow

// What is wrong with the text of a field.
#include "oneflow_core/recipe/field_text.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace oneflow {
namespace {

std::string FindError(const std::string& name, const std::string& text) {
  proto::Recipe recipe;
  return std::string(SetField(*FindRow(RecipeRows(), name), text, &recipe).message());
}

TEST_CASE("a text that is no value is refused with an example") {
  CHECK(FindError("prefetch", "9") == "--prefetch=9: is out of range; use auto, or 0 to 8");
  CHECK(FindError("batch", "0") ==
        "--batch=0: is out of range; use 1 to 4294967296, or leave it out; the default: 8");
  CHECK(FindError("batch", "x") ==
        "--batch=x: is no whole number; write it in digits, e.g. --batch=8");
  CHECK(FindError("chunks", "99999999999") ==
        "--chunks=99999999999: is out of range; use at most "
        "2147483647");
  CHECK(FindError("fuse", "maybe") ==
        "--fuse=maybe: is neither true nor false; write --fuse=true or --fuse=false");
  CHECK(FindError("precision", "fp32") ==
        "--precision=fp32: is not known; did you mean f32? use f32 or bf16");
  CHECK(FindError("precision", "fp8") == "--precision=fp8: is not known; use f32 or bf16");
  CHECK(FindError("precision", "fp16") ==
        "--precision=fp16: is not known; did you mean bf16? use f32 or bf16");
  CHECK(FindError("schedule", "zb") ==
        "--schedule=zb: is not known; did you mean zero_bubble? use "
        "1f1b, gpipe, interleaved, zero_bubble, pipedream or 2bw");
}

TEST_CASE("structured texts are refused with what is wrong in them") {
  CHECK(FindError("mesh", "data") ==
        "--mesh=data: \"data\" has no size; write axis=size, e.g. pipe=2,data=2,tensor=2");
  CHECK(FindError("shard", "zero2")
            .starts_with("--shard=zero2: is not known; did you mean gradients? use none, states"));
  CHECK(FindError("shard", "weights:").starts_with("--shard=weights:: is not known"));
  CHECK(FindError("shard", "states:data,states:data") ==
        "--shard=states:data,states:data: names states twice; join axes with a plus, as in "
        "states:data.0+data.1");
  CHECK(FindError("reduce", "each_micro_batch:") ==
        "--reduce=each_micro_batch:: names no axis; use once, each_micro_batch, or "
        "each_micro_batch:data.1");
  CHECK(FindError("recompute", "full,none") ==
        "--recompute=full,none: full and none contradict; choose one of none, attention, selective "
        "and full, or write how many blocks of each slice one of them takes: full:2,none");
  CHECK(FindError("recompute", "full:1,selective,none").ends_with("takes: selective:2,none"));
  CHECK(FindError("recompute", "full,full@b,none@b")
            .ends_with("full@b and none@b contradict; choose one of none, attention, selective and "
                       "full, or write how many blocks of each slice one of them takes: "
                       "full@b:2,none@b"));
  CHECK(FindError("recompute", "full@b:1,full@a,full@b:2").find("full@b is given twice") !=
        std::string::npos);
  for (const auto& [text, name] :
       {std::pair("full@", ""), {"full@B:1", "B"}, {"full@b@c", "b@c"}, {"none@1", "1"}}) {
    CHECK(FindError("recompute", text) ==
          absl::StrCat("--recompute=", text, ": \"", name,
                       "\" is no class of blocks; write its "
                       "letter, as full@b:2; oneflow explain lists the classes"));
  }
  CHECK(FindError("recompute", "@b:1").starts_with("--recompute=@b:1: \"@b:1\" is not known"));
  for (const auto& [text, part] : {std::pair("full:x", "x"),
                                   {"full:", ""},
                                   {"full:1/", ""},
                                   {"full:-1", "-1"},
                                   {"full:+1", "+1"},
                                   {"full:1e3", "1e3"},
                                   {"full:2:1", "2:1"},
                                   {"full:2147483648", "2147483648"}}) {
    CHECK(FindError("recompute", text) ==
          absl::StrCat("--recompute=", text, ": \"", part,
                       "\" is no number of blocks; write 0 or more, as full:2, or one for each "
                       "slice along the pipe, as full:3/2/1/0"));
  }
  CHECK(FindError("recompute", "all") ==
        "--recompute=all: \"all\" is not known; did you mean full? use none, attention, selective, "
        "full or gather");
  CHECK(FindError("recompute", "gather:2").starts_with("--recompute=gather:2: \"gather:2\" is"));
  CHECK(FindError("recompute", "full:1,full:1") ==
        "--recompute=full:1,full:1: full is given twice; give each policy once");
  CHECK(FindError("offload", "activations:2")
            .starts_with("--offload=activations:2: \"2\" is no share of the activations"));
  CHECK(FindError("offload", "none,states")
            .starts_with("--offload=none,states: names none beside others"));
  CHECK(
      FindError("offload", "state")
          .starts_with(
              "--offload=state: \"state\" is nothing that can be offloaded; did you mean states?"));
  CHECK(FindError("offload", "states,states") ==
        "--offload=states,states: names states twice; name each once");
  CHECK(FindError("stage_layers", "2,a").starts_with("--stage_layers=2,a: \"a\" is no number"));
  CHECK(FindError("warm_ups", "3").starts_with("--warm_ups=3: \"3\" is no warm-up"));
  CHECK(FindError("loss_pieces", "-1") ==
        "--loss_pieces=-1: is no number of pieces; use auto, 0 for whole logits, or 1 or more");
  CHECK(FindError("bucket_bytes", "0").starts_with("--bucket_bytes=0: is not a size"));
}

TEST_CASE("other words for the same are printed as the usual ones") {
  for (const auto& [text, same] : {std::pair("gather", "none,gather"),
                                   {"gather,full", "full,gather"},
                                   {"full:2,none", "full:2"},
                                   {"full:02", "full:2"}}) {
    const proto::Recipe recipe = MakeRecipe(absl::StrCat("--recompute=", text));
    CHECK(FieldText(*FindRow(RecipeRows(), "recompute"), recipe) == same);
  }
}

TEST_CASE("an error leaves the field absent, and the word for absence clears it") {
  const Row& shard = *FindRow(RecipeRows(), "shard");
  const Row& prefetch = *FindRow(RecipeRows(), "prefetch");
  proto::Recipe recipe;
  CHECK(!SetField(shard, "states:data,zero", &recipe).ok());
  CHECK(!recipe.has_shard());
  CHECK(SetField(prefetch, "0", &recipe).ok());
  CHECK(recipe.has_prefetch());
  CHECK(SetField(prefetch, "auto", &recipe).ok());
  CHECK(!recipe.has_prefetch());
}

TEST_CASE("fields are printed as flags") {
  proto::Recipe recipe;
  recipe.set_batch(16);
  recipe.set_gather(proto::EACH_MICRO_BATCH);
  recipe.mutable_shard();
  CHECK(FlagsText(RecipeRows(), recipe) == "--shard=none --gather=each_micro_batch --batch=16");
}

TEST_CASE("values that a file holds are checked like those of flags") {
  proto::Recipe recipe;
  recipe.set_batch(16);
  recipe.mutable_offload()->mutable_activations()->set_share(3);
  const absl::Status status = CheckFields(RecipeRows(), recipe, [](const Row& row) {
    return row.name == "offload" ? "a.recipe:3: " : "a.recipe:1: ";
  });
  CHECK(status.message() ==
        "a.recipe:3: offload=activations:3: \"3\" is no share of the activations; use a number "
        "above 0 and at most 1, as in activations:0.5, or activations:all");
}

}  // namespace
}  // namespace oneflow

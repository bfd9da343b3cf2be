// Each field has one row, each row a field; texts of values are read back as the same values.
#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/foreign_names.h"
#include "oneflow_core/recipe/words.h"

namespace oneflow {
namespace {

using google::protobuf::util::MessageDifferencer;

// Values of each field of Recipe, as text; those of lists of words are all tried.
const std::map<std::string_view, std::vector<std::string>> kValues = {
    {"mesh", {"1", "pipe=2,data=2,tensor=2", "data=8x4"}},
    {"experts", {"data.1"}},
    {"shard",
     {"none", "states", "gradients", "weights", "states:data,gradients:data,weights:data.1",
      "states:data.0+data.1", "gradients:data"}},
    {"reduce", {"once", "each_micro_batch", "each_micro_batch:data.0+data.1"}},
    {"bucket_bytes", {"1", "25MB", "1000001"}},
    {"prefetch", {"0", "8"}},
    {"context_pieces", {"1", "64"}},
    {"batch", {"1", "4294967296"}},
    {"micro_batches", {"1", "65536"}},
    {"chunks", {"1", "1024"}},
    {"stage_layers", {"2,3,3,2"}},
    {"extra_in_flight", {"0", "5"}},
    {"warm_ups", {"3+1,2+0"}},
    {"staleness", {"0", "64"}},
    {"steps_a_round", {"1", "8"}},
    {"recompute",
     {"none", "full", "attention,gather", "full:3/2,none:1,selective", "none,gather",
      "full@b:2/1,none@b,attention@a,full,gather"}},
    {"loss_pieces", {"auto", "0", "4"}},
    {"offload",
     {"none", "activations", "activations:0.5,states", "activations:all,weights",
      "states,weights"}},
    {"host_memory", {"80GiB", "1TB"}},
};

std::set<std::string> ListNames(std::span<const Row> rows) {
  std::set<std::string> names;
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(names.emplace(row.name).second);
  }
  return names;
}

std::set<std::string> ListFields(const google::protobuf::Descriptor& type) {
  std::set<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.insert(type.field(i)->name());
  return names;
}

std::vector<std::string> ListValues(const Row& row, const google::protobuf::Message& message) {
  const auto listed = kValues.find(row.name);
  if (listed != kValues.end()) return listed->second;
  if (IsSwitch(row, message)) return {"true", "false"};
  return ListChoices(row.value);
}

TEST_CASE("each field has one row, and each row a field") {
  CHECK(ListNames(ModelRows()) == ListFields(*proto::Model::descriptor()));
  CHECK(ListNames(RecipeRows()) == ListFields(*proto::Recipe::descriptor()));
  CHECK(ListNames(OptimizerRows()) == ListFields(*proto::Optimizer::descriptor()));
  std::set<std::string> run = ListFields(*proto::Run::descriptor());
  run.erase("optimizer");  // its fields have rows of their own
  CHECK(ListNames(RunRows()) == run);
}

TEST_CASE("values are printed as they are read") {
  for (const Row& row : RecipeRows()) {
    if (row.form != nullptr && row.form->is_file) continue;
    proto::Recipe recipe;
    const std::vector<std::string> values = ListValues(row, recipe);
    CHECK(!values.empty());
    for (const std::string& value : values) {
      INFO(row.name << "=" << value);
      REQUIRE(SetField(row, value, &recipe).ok());
      CHECK(HasField(row, recipe) == (value != row.absent && value != "training"));
      if (!HasField(row, recipe)) continue;
      CHECK(FieldText(row, recipe) == value);
      proto::Recipe copy;
      CopyField(row, recipe, &copy);
      CHECK(MessageDifferencer::Equals(copy, recipe));
      CHECK(DifferingRows(RecipeRows(), copy, recipe).empty());
      CHECK(DifferingRows(RecipeRows(), proto::Recipe(), recipe) == std::vector{&row});
    }
  }
}

TEST_CASE("a pattern of blocks, and scaled frequencies, are printed as they are read") {
  const auto check = [](const char* name, std::vector<std::string> values) {
    const Row& row = *FindRow(ModelRows(), name);
    for (const std::string& value : values) {
      INFO(value);
      proto::Model model;
      REQUIRE(SetField(row, value, &model).ok());
      CHECK(FieldText(row, model) == value);
    }
  };
  check("blocks",
        {"none", "local(window=128),full", "5*local(theta=10000 window=1024),full",
         "2*a(rope_scaling=8,1,4,8192 qk_norm=true),b,a,*b", "3*dense(inner=96 experts=0),*moe"});
  proto::Model model, copy;
  REQUIRE(SetFields(ModelRows(), "--layers=4 --blocks='2*a(window=1 theta=5),b'", &model).ok());
  CHECK(FlagsText(ModelRows(), model) == "--layers=4 --blocks='2*a(theta=5 window=1),b'");
  REQUIRE(SetFields(ModelRows(), FlagsText(ModelRows(), model), &copy).ok());
  CHECK(MessageDifferencer::Equals(model, copy));
  check("rope_scaling", {"none", "8,1,4,8192", "linear:8", "yarn:32,4096,32,1,exact",
                         "yarn:8,8192,32,1*1.5", "yarn:40,4096,1,1,exact*1"});
}

TEST_CASE("a pattern of blocks that is none says what is wrong") {
  const auto error = [](const char* text) {
    proto::Model model;
    return std::string(SetField(*FindRow(ModelRows(), "blocks"), text, &model).message());
  };
  const std::string hint =
      "; write runs of classes with commas between, a class with its own numbers where it comes "
      "first, as in --blocks='5*local(window=1024 theta=10000),full' or "
      "--blocks='3*dense(experts=0 inner=10944),*mixture'";
  CHECK(error("0*a") ==
        "--blocks=0*a: has \"0*a\", whose count is no number from 1 to 10000" + hint);
  CHECK(error("a(window=1,theta=9)") ==
        "--blocks=a(window=1,theta=9): has \"window=1,theta=9\", which is more than one number; "
        "write blanks between the numbers of a class");
  CHECK(error("a(window=1 window=2)") ==
        "--blocks=a(window=1 window=2): gives a class its window twice; give it once");
  CHECK(error("*a,b") ==
        "--blocks=*a,b: has *a, all blocks that remain, before others; write it last");
  CHECK(error("a(window=1") ==
        "--blocks=a(window=1: has \"a(window=1\", which is no run of a class" + hint);
  CHECK(error("") == "--blocks=: has \"\", which is no run of a class" + hint);
  CHECK(
      error("a(windw=1)") ==
      "--blocks=a(windw=1): has \"windw=1\", which is no number of a class; did you mean window?");
  CHECK(error("a(hidden=64)") ==
        "--blocks=a(hidden=64): gives a class its own hidden, which is "
        "the same in all blocks; write --hidden beside it");
  // A file may say what no text does.
  proto::Model model;
  model.mutable_blocks()->add_run()->set_index(3);
  CHECK(FieldText(*FindRow(ModelRows(), "blocks"), model) == "*?");
  CHECK(error("*?") == "--blocks=*?: has \"*?\", which is no run of a class" + hint);
  CHECK(error("a(window=1),b,a(window=2)") ==
        "--blocks=a(window=1),b,a(window=2): gives the numbers of a twice; give them where the "
        "class comes first");
}

TEST_CASE("defaults are values, and a recipe of them is complete") {
  const proto::Recipe recipe = WithDefaults({});
  CHECK(CheckRecipe(recipe).ok());
  CHECK(recipe.batch() == 8);
  CHECK(recipe.chunks() == 1);
  CHECK(recipe.bucket_bytes() == 25'000'000);
  CHECK(recipe.has_overlap());
  CHECK(!recipe.overlap());
  CHECK(MessageDifferencer::Equals(WithDefaults(recipe), recipe));
  std::string absent;
  for (const Row& row : RecipeRows()) {
    if (!HasField(row, recipe)) absent += std::string(row.name) + " ";
  }
  CHECK(absent ==
        "purpose mesh experts prefetch stage_layers order warm_ups steps_a_round frozen_weights "
        "host_memory ");
}

TEST_CASE("a default may depend on other fields") {
  proto::Recipe recipe;
  recipe.set_device(proto::CUDA);
  recipe.set_schedule("interleaved");
  CHECK(WithDefaults(recipe).overlap());
  CHECK(WithDefaults(recipe).chunks() == 2);
  recipe.mutable_order()->add_stage()->add_task("F0 B0");
  recipe.clear_schedule();
  CHECK(CheckRecipe(WithDefaults(recipe)).ok());
}

TEST_CASE("the residual stream is of the type of the products, unless said") {
  CHECK(WithDefaults({}).residual() == proto::F32);
  CHECK(WithDefaults(MakeRecipe("--precision=f32")).residual() == proto::F32);
  CHECK(WithDefaults(MakeRecipe("--precision=bf16")).residual() == proto::BF16);
  const proto::Recipe wide = MakeRecipe("--precision=bf16 --residual=f32");
  CHECK(WithDefaults(wide).residual() == proto::F32);
  CHECK(CheckRecipe(WithDefaults(wide)).ok());
}

TEST_CASE("a recipe of values that exclude each other is refused") {
  proto::Recipe recipe = WithDefaults({});
  recipe.set_micro_batches(3);
  CHECK(CheckRecipe(recipe).message() ==
        "--micro_batches=3: do not divide the batch of 8; use a batch of 9, or a divisor of 8");
  recipe.set_micro_batches(2);
  recipe.set_residual(proto::BF16);
  CHECK(CheckRecipe(recipe).message() ==
        "--residual=bf16: is narrower than the products, which are f32; add --precision=bf16, or "
        "leave it out");
  recipe.set_precision(proto::BF16);
  CHECK(CheckRecipe(recipe).ok());
  recipe.mutable_order()->add_stage()->add_task("F0 B0");
  CHECK(CheckRecipe(recipe).message() ==
        "--schedule: cannot be given together with --order: the file says it all; leave one of the "
        "two out");
}

TEST_CASE("a foreign name means one field") {
  std::set<std::string> names;
  for (const std::string& name : ForeignNames()) {
    INFO(name);
    CHECK(names.insert(name).second);
    CHECK(AdviceOn(name).empty());
    CHECK(!FlagMeantBy(name).empty());
  }
  CHECK(FlagMeantBy("lr") == "learning_rate");
  CHECK(FlagMeantBy("optimizer.lr") == "learning_rate");
  CHECK(FlagMeantBy("nothing").empty());
  CHECK(ToAbsl(AdviceOn("zero_stage")).find("--shard=states") != absl::string_view::npos);
}

}  // namespace
}  // namespace oneflow

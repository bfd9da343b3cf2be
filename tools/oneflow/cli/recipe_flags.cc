#include "tools/oneflow/cli/recipe_flags.h"

#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "actor_runtime/device/cores.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/train/learning_rate.h"
#include "tools/oneflow/cli/flag_value.h"
#include "tools/oneflow/cli/flags.h"
#include "training/trainer/processes/launch.h"

namespace oneflow {
namespace {

using google::protobuf::TextFormat;

// A message of a recipe file, with its rows.
struct FilePart {
  std::span<const Row> rows;
  const google::protobuf::Message* message;
  const TextFormat::ParseInfoTree* locations;  // null where the file has no such message
};

const TextFormat::ParseInfoTree* FindTree(const TextFormat::ParseInfoTree* tree,
                                          const google::protobuf::Message& message,
                                          const char* field) {
  return tree == nullptr
             ? nullptr
             : tree->GetTreeForNested(message.GetDescriptor()->FindFieldByName(field), -1);
}

std::vector<FilePart> ListParts(const proto::RecipeFile& file,
                                const TextFormat::ParseInfoTree& locations) {
  const auto* run = FindTree(&locations, file, "run");
  return {{ModelRows(), &file.model(), FindTree(&locations, file, "model")},
          {RecipeRows(), &file.recipe(), FindTree(&locations, file, "recipe")},
          {OptimizerRows(), &file.run().optimizer(), FindTree(run, file.run(), "optimizer")},
          {RunRows(), &file.run(), run}};
}

// "r.textproto:3: ", of the line that says a field.
std::string FindLine(const std::string& path, const FilePart& part, const Row& row) {
  const auto* field = part.message->GetDescriptor()->FindFieldByName(std::string(row.name));
  return absl::StrCat(path, ":", part.locations->GetLocation(field, -1).line + 1, ": ");
}

// Takes what the file says of one flag, or adds to `others` what stands in its place.
absl::Status TakeField(const FlagRow& flag, const std::string& said, Arguments* args,
                       std::vector<std::string>* others) {
  const std::string name(flag.name);
  if (!args->Given(name)) {
    RETURN_IF_ERROR(SetFlag(flag, said));
    args->flags.emplace_back(name, said);
    args->of_recipe.insert(name);
    return absl::OkStatus();
  }
  const std::string given = args->Repeated(name)[0];
  if (given != said) others->push_back(absl::StrCat("--", name, "=", given, " in place of ", said));
  return absl::OkStatus();
}

}  // namespace

absl::Status SetGiven(std::span<const Row> rows, const Arguments& args,
                      google::protobuf::Message* message) {
  for (const auto& [name, value] : args.flags) {
    const Row* row = FindRow(rows, name);
    if (row != nullptr && row->is_flag) RETURN_IF_ERROR(SetField(*row, value, message));
  }
  return absl::OkStatus();
}

absl::Status TakeRecipe(const Verb& verb, Arguments* args) {
  if (!args->Given("recipe")) return absl::OkStatus();
  const std::string& path = FLAGS_recipe;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, "--recipe wants a textproto"));
  TextFormat::ParseInfoTree locations;
  RETURN_IF_ERROR(ParseText(text, path, "recipe", &args->file, &locations));
  std::vector<std::string> others;
  for (const FilePart& part : ListParts(args->file, locations)) {
    RETURN_IF_ERROR(CheckFields(part.rows, *part.message,
                                [&](const Row& row) { return FindLine(path, part, row); }));
    for (const Row& row : part.rows) {
      const FlagRow* flag = FindFlag(verb.id, row.name);
      const bool is_text = row.form == nullptr || !row.form->is_file;
      if (flag == nullptr || flag->row != &row || !is_text || !HasField(row, *part.message)) {
        continue;
      }
      RETURN_IF_ERROR(TakeField(*flag, FieldText(row, *part.message), args, &others));
    }
  }
  for (const auto& [name, said] : {std::pair("graph", args->file.model().graph()),
                                   std::pair("cluster", args->file.cluster())}) {
    const FlagRow* flag = FindFlag(verb.id, name);
    if (flag != nullptr && !said.empty()) RETURN_IF_ERROR(TakeField(*flag, said, args, &others));
  }
  if (!others.empty() && !IsChild()) {
    std::fprintf(stderr, "oneflow: --recipe=%s, but %s\n", path.c_str(),
                 absl::StrJoin(others, ", ").c_str());
  }
  return absl::OkStatus();
}

absl::StatusOr<proto::Recipe> RecipeFromFlags(const Arguments& args) {
  proto::Recipe recipe = args.file.recipe();
  RETURN_IF_ERROR(SetGiven(RecipeRows(), args, &recipe));
  if (!args.Given("sync_every")) return recipe;
  // Steps that share an update are one step of all their micro-batches.
  const proto::Recipe step = WithDefaults(recipe);
  int64_t batch = 0, micro_batches = 0;
  if (__builtin_mul_overflow(step.batch(), FLAGS_sync_every, &batch) ||
      __builtin_mul_overflow(step.micro_batches(), FLAGS_sync_every, &micro_batches)) {
    return InputError(absl::StrCat("--sync_every=", FLAGS_sync_every),
                      absl::StrCat("times --batch=", step.batch(), " is more than can be counted"),
                      "use smaller numbers");
  }
  recipe.set_batch(batch);
  recipe.set_micro_batches(micro_batches);
  return recipe;
}

absl::StatusOr<proto::Run> RunFromFlags(const Arguments& args) {
  proto::Run run;
  RETURN_IF_ERROR(SetGiven(RunRows(), args, &run));
  RETURN_IF_ERROR(SetGiven(OptimizerRows(), args, run.mutable_optimizer()));
  return run;
}

absl::StatusOr<proto::Optimizer> OptimizerFromFlags(const Arguments& args,
                                                    proto::Optimizer optimizer) {
  RETURN_IF_ERROR(SetGiven(OptimizerRows(), args, &optimizer));
  SetDefaults(OptimizerRows(), &optimizer);
  RETURN_IF_ERROR(CheckOptimizer(optimizer, "--"));
  return optimizer;
}

int CountThreads(const proto::Run& run) { return run.has_threads() ? run.threads() : Cores(); }

int64_t StepsToSimulate(const proto::Run& run) { return run.has_steps() ? run.steps() : 2; }

}  // namespace oneflow

#include "tools/oneflow/cli/recipe_flags.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "actor_runtime/device/cores.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/train/learning_rate.h"
#include "tools/oneflow/cli/drop_dependents.h"
#include "tools/oneflow/cli/flag_value.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "training/hugging_face/named_model.h"
#include "training/trainer/processes/launch.h"

namespace oneflow {
namespace {

using google::protobuf::TextFormat;

// A message of a recipe file, with its rows.
struct FilePart {
  std::span<const Row> rows;
  google::protobuf::Message* message;
  const TextFormat::ParseInfoTree* locations;  // null where the file has no such message
};

const TextFormat::ParseInfoTree* FindTree(const TextFormat::ParseInfoTree* tree,
                                          const google::protobuf::Message& message,
                                          const char* field) {
  return tree == nullptr
             ? nullptr
             : tree->GetTreeForNested(message.GetDescriptor()->FindFieldByName(field), -1);
}

std::vector<FilePart> ListParts(const TextFormat::ParseInfoTree& locations,
                                proto::RecipeFile* file) {
  const auto* run = FindTree(&locations, *file, "run");
  return {{ModelRows(), file->mutable_model(), FindTree(&locations, *file, "model")},
          {RecipeRows(), file->mutable_recipe(), FindTree(&locations, *file, "recipe")},
          {OptimizerRows(), file->mutable_run()->mutable_optimizer(),
           FindTree(run, file->run(), "optimizer")},
          {RunRows(), file->mutable_run(), run}};
}

// "r.textproto:3: ", of the line that says a field.
std::string FindLine(const std::string& path, const FilePart& part, const Row& row) {
  const auto* field = part.message->GetDescriptor()->FindFieldByName(std::string(row.name));
  return absl::StrCat(path, ":", part.locations->GetLocation(field, -1).line + 1, ": ");
}

// Fields of a training's run whose flags mean another thing in these verbs.
constexpr std::pair<std::string_view, uint32_t> kOfTraining[] = {
    {"steps", verbs::kExplain | verbs::kSimulate},
    {"trace", verbs::kSimulate},
    {"threads", verbs::kSearch},
};

// True if the verb takes the row's field of a file.
bool Takes(const Verb& verb, const Row& row) {
  const FlagRow* flag = FindFlag(verb.id, row.name);
  const bool is_text = row.form == nullptr || !row.form->is_file;
  return flag != nullptr && flag->row == &row && is_text &&
         std::none_of(std::begin(kOfTraining), std::end(kOfTraining), [&](const auto& other) {
           return other.first == row.name && (other.second & verb.id) != 0;
         });
}

// Adds to the parser's error of an unknown value the names that there are.
absl::Status WithValues(const absl::Status& status) {
  constexpr std::string_view kUnknown = "Unknown enumeration value";
  const std::string message(status.message());
  if (message.find(kUnknown) == message.npos) return status;
  std::vector<std::string> names;
  for (const auto& [rows, type] : {std::pair(RecipeRows(), proto::Recipe::descriptor()),
                                   std::pair(OptimizerRows(), proto::Optimizer::descriptor())}) {
    for (const Row& row : rows) {
      const auto* values = type->FindFieldByName(std::string(row.name))->enum_type();
      if (values == nullptr ||
          message.find(absl::StrCat("\"", ToAbsl(row.name), "\"")) == message.npos)
        continue;
      const std::vector<std::string> words = absl::StrSplit(ToAbsl(row.value), '|');
      for (int i = 0; i < values->value_count(); ++i) {
        const std::string name = values->value(i)->name(), word = absl::AsciiStrToLower(name);
        // UPDATE_ON_HOST is "host".
        if (std::any_of(words.begin(), words.end(),
                        [&](const auto& w) { return word.ends_with(w); })) {
          names.push_back(name);
        }
      }
    }
  }
  return WithMessage(status, absl::StrCat(message, "; use one of ", absl::StrJoin(names, ", ")));
}

// A model is a file, or a family and its numbers.
absl::Status CheckModel(const std::string& path, const FilePart& part, const proto::Model& model) {
  for (const Row& row : ModelRows()) {
    if (row.name == "graph" || row.name == "family" || !HasField(row, model)) continue;
    if (model.has_graph() || model.has_family()) break;
    return InputError(absl::StrCat(FindLine(path, part, row), ToAbsl(row.name)),
                      "is a number of a family, which is missing", "add family: \"gpt\"");
  }
  for (const Row& row : ModelRows()) {
    const bool beside = row.name == "graph" || row.name == "lora" || row.name == "train_only";
    if (!model.has_graph() || beside || !HasField(row, model)) continue;
    return InputError(absl::StrCat(FindLine(path, part, row), ToAbsl(row.name)),
                      "is said beside graph, which is a whole model", "leave one of the two out");
  }
  return absl::OkStatus();
}

// Jobs train, and so do the plans that are searched.
absl::Status CheckPurpose(const Verb& verb, const proto::Recipe& recipe) {
  constexpr uint32_t kOfTrainings = verbs::kTrain | verbs::kSubmit | verbs::kSearch;
  if (recipe.purpose() == proto::Recipe::TRAINING || (verb.id & kOfTrainings) == 0) {
    return absl::OkStatus();
  }
  const std::string purpose = FieldText(*FindRow(RecipeRows(), "purpose"), recipe);
  return InputError(absl::StrCat(FLAGS_recipe, ": purpose=", purpose),
                    absl::StrCat("is of plans that do not train, and `oneflow ",
                                 ToAbsl(verb.name()), "` is of those that do"),
                    "leave it out");
}

// With --plan, which has its recipe, a file says a run alone, and that of verbs that train.
absl::Status KeepRunAlone(const Verb& verb, proto::RecipeFile* file) {
  if ((verb.id & (verbs::kTrain | verbs::kSubmit)) == 0) {
    return InputError("--recipe=" + FLAGS_recipe,
                      "cannot be given together with --plan: the plan has its recipe",
                      "leave one of the two out");
  }
  file->clear_model();
  file->clear_recipe();
  file->clear_cluster();
  return absl::OkStatus();
}

// A search has no use for what it chooses. Returns the names of such fields, which are cleared.
std::vector<std::string> ClearSearched(proto::Recipe* recipe) {
  std::vector<std::string> names;
  for (const Row& row : RecipeRows()) {
    if (row.searched == Searched::kGiven || !HasField(row, *recipe)) continue;
    ClearField(row, recipe);
    names.emplace_back(row.name);
  }
  return names;
}

// A path of the file is one of the working directory.
absl::Status CheckThere(const std::string& recipe, const std::string& name,
                        const std::string& path) {
  std::error_code ignored;  // the reader of the file reports an error
  const bool is_name = (name == "cluster" && path.find_first_of("./") == path.npos) ||
                       (name == "graph" && NamesModel(path));
  if (is_name || std::filesystem::exists(path, ignored)) return absl::OkStatus();
  return InputError(absl::StrCat(recipe, ": ", name, "=", path),
                    "is not there; the path is relative to the working directory",
                    absl::StrCat("write another one, or --", name, "=FILE beside --recipe"));
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
  RETURN_IF_ERROR(WithValues(ParseText(text, path, "recipe", &args->file, &locations)));
  proto::RecipeFile& file = args->file;
  if (args->Given("plan")) RETURN_IF_ERROR(KeepRunAlone(verb, &file));
  RETURN_IF_ERROR(CheckPurpose(verb, file.recipe()));
  std::vector<std::string> others, dropped, searched;
  const std::vector<FilePart> parts = ListParts(locations, &file);
  RETURN_IF_ERROR(CheckModel(path, parts[0], file.model()));
  for (const FilePart& part : parts) {
    RETURN_IF_ERROR(CheckFields(part.rows, *part.message,
                                [&](const Row& row) { return FindLine(path, part, row); }));
    for (std::string& name : DropDependents(part.rows, *args, part.message)) {
      dropped.push_back(std::move(name));
    }
  }
  if (verb.id == verbs::kSearch) searched = ClearSearched(file.mutable_recipe());
  for (const FilePart& part : parts) {
    // Numbers of the file's model are not those of another one.
    if (part.message == file.mutable_model() && args->Given("graph")) continue;
    for (const Row& row : part.rows) {
      if (!Takes(verb, row) || !HasField(row, *part.message)) continue;
      RETURN_IF_ERROR(
          TakeField(*FindFlag(verb.id, row.name), FieldText(row, *part.message), args, &others));
    }
  }
  if (file.model().has_family() && args->Given("graph")) {
    others.push_back(absl::StrCat("--graph=", FLAGS_graph, " in place of its model"));
  }
  for (const auto& [name, said] :
       {std::pair("graph", file.model().graph()), std::pair("cluster", file.cluster())}) {
    const FlagRow* flag = FindFlag(verb.id, name);
    if (flag == nullptr || said.empty()) continue;
    if (!args->Given(name)) RETURN_IF_ERROR(CheckThere(path, name, said));
    RETURN_IF_ERROR(TakeField(*flag, said, args, &others));
  }
  if (!dropped.empty()) others.push_back("without its " + absl::StrJoin(dropped, ", "));
  if (!others.empty() && !IsChild()) {
    PrintNotice(absl::StrFormat("--recipe=%s, but %s", path, absl::StrJoin(others, ", ")));
  }
  if (!searched.empty()) {
    PrintNotice(absl::StrFormat("--recipe=%s says what search chooses or leaves out: %s", path,
                                absl::StrJoin(searched, ", ")));
  }
  return absl::OkStatus();
}

absl::StatusOr<proto::Recipe> RecipeSaid(const Arguments& args) {
  proto::Recipe recipe = args.file.recipe();
  RETURN_IF_ERROR(SetGiven(RecipeRows(), args, &recipe));
  return recipe;
}

absl::Status JoinSteps(const Arguments& args, proto::Recipe* recipe) {
  if (!args.Given("sync_every")) return absl::OkStatus();
  const proto::Recipe step = WithDefaults(*recipe);
  int64_t batch = 0, micro_batches = 0;
  if (__builtin_mul_overflow(step.batch(), FLAGS_sync_every, &batch) ||
      __builtin_mul_overflow(step.micro_batches(), FLAGS_sync_every, &micro_batches)) {
    return InputError(absl::StrCat("--sync_every=", FLAGS_sync_every),
                      absl::StrCat("times --batch=", step.batch(), " is more than can be counted"),
                      "use smaller numbers");
  }
  recipe->set_batch(batch);
  recipe->set_micro_batches(micro_batches);
  return absl::OkStatus();
}

absl::StatusOr<proto::Recipe> RecipeFromFlags(const Arguments& args) {
  ASSIGN_OR_RETURN(proto::Recipe recipe, RecipeSaid(args));
  RETURN_IF_ERROR(JoinSteps(args, &recipe));
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
  DropDependents(OptimizerRows(), args, &optimizer);
  RETURN_IF_ERROR(SetGiven(OptimizerRows(), args, &optimizer));
  SetDefaults(OptimizerRows(), &optimizer);
  RETURN_IF_ERROR(CheckOptimizer(optimizer, "--"));
  return optimizer;
}

int CountThreads(const proto::Run& run) { return run.has_threads() ? run.threads() : Cores(); }

int64_t StepsToSimulate(const proto::Run& run) { return run.has_steps() ? run.steps() : 2; }

}  // namespace oneflow

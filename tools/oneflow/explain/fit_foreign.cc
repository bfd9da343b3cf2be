#include "tools/oneflow/explain/fit_foreign.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/cost/device_memory.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "planning/fit/fit.h"
#include "planning/fit/quantities.h"
#include "planning/search/candidate.h"
#include "planning/search/plan_words.h"
#include "planning/search/result_text.h"
#include "planning/simulate/simulate_on.h"
#include "tools/foreign/bytes/bytes.h"
#include "tools/foreign/read/facts_json.h"
#include "tools/foreign/read/facts_text.h"
#include "tools/foreign/read/read.h"
#include "tools/foreign/read/recipe.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/plan_flags.h"
#include "tools/oneflow/cli/print.h"
#include "tools/oneflow/cli/read_cluster.h"
#include "tools/oneflow/cli/recipe_flags.h"
#include "tools/oneflow/explain/better_plans.h"
#include "tools/oneflow/explain/fit_answer.h"
#include "tools/oneflow/explain/own_plan.h"
#include "tools/oneflow/explain/recipe_file.h"
#include "training/hugging_face/nearest_model.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;
using foreign::Facts;
using foreign::ForeignRecipe;

constexpr double kSearchSeconds = 15;

absl::StatusOr<foreign::ForeignInput> InputFromFlags(const Arguments& args) {
  foreign::ForeignInput input{.files = args.positional, .words = args.rest};
  input.model = FLAGS_model;
  if (!FLAGS_devices.empty()) {
    ASSIGN_OR_RETURN(const DeviceGrid grid, ParseDeviceGrid(FLAGS_devices));
    input.devices = grid.devices;
    if (grid.nodes > 0) input.devices_a_node = grid.devices / grid.nodes;
  }
  if (const std::string text = args.First("sequence"); !text.empty()) {
    ASSIGN_OR_RETURN(input.sequence, ParseSequence(text));
  }
  if (const std::string text = args.First("vocab"); !text.empty()) {
    proto::Model model;
    const Row& row = *FindRow(ModelRows(), "vocab");
    RETURN_IF_ERROR(SetField(row, text, &model));
    input.vocab = std::stoll(FieldText(row, model));
  }
  if (const std::string text = args.First("batch"); !text.empty()) {
    ASSIGN_OR_RETURN(const BatchSize batch, ParseBatch(text));
    if (batch.sequences == 0) {
      return InputError("--batch=" + text, "is in tokens, beside a configuration",
                        "give the sequences of a step");
    }
    input.batch = batch.sequences;
  }
  return input;
}

// What the flags of compile say beside the recipe: cluster, memory, system, optimizer.
Arguments WithoutRecipe(Arguments args) {
  std::erase_if(args.flags, [](const auto& flag) {
    return FindRow(RecipeRows(), flag.first) != nullptr || flag.first == "sequence" ||
           flag.first == "vocab";
  });
  return args;
}

// The cluster's system of that name, unless the user names one: the configuration's own.
absl::Status ChooseSystem(const Facts& facts) {
  if (!FLAGS_system.empty() || FLAGS_cluster.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ClusterText file, ReadClusterText(FLAGS_cluster));
  ASSIGN_OR_RETURN(const proto::Cluster cluster, ParseCluster(file));
  const bool is_megatron = absl::StartsWith(facts.system, "megatron") || facts.system == "nemo";
  const std::string wanted = is_megatron ? "megatron" : facts.system;
  for (const proto::System& system : cluster.system()) {
    if (system.name() == wanted) FLAGS_system = wanted;
  }
  return absl::OkStatus();
}

// The graph of the nearest model; with differences only if they are accepted.
absl::StatusOr<GraphSource> MakeSource(const Facts& facts) {
  const foreign::ModelFacts& model = facts.model;
  if (!model.model) {
    return InputError("the model", "is not said by the files", "add --model=config.json");
  }
  if (!model.differences.empty() && !FLAGS_approximate) {
    std::vector<std::string> what;
    for (const auto& difference : model.differences) what.push_back(difference.what);
    return InputError("the model", "cannot be built here: " + absl::StrJoin(what, "; "),
                      "add --approximate for a plan of the nearest one");
  }
  const std::string name = model.preset.empty() ? facts.system + " model" : model.preset;
  NearestModel nearest{.model = *model.model, .differences = model.differences};
  GraphSource source{BuildNearestGraph(nearest, name), "", {}};
  FillBlocks(&source.graph);
  return source;
}

// Nodes have as many devices as the launch has on each; the name of the cluster says so.
void SetNodes(const Facts& facts, proto::Cluster* cluster) {
  const int64_t each = facts.devices_a_node;
  if (each < 1 || cluster->level().empty() || *facts.devices <= each) return;
  if (cluster->level(0).size() == each || *facts.devices % each != 0) return;
  cluster->mutable_level(0)->set_size(static_cast<int32_t>(each));
  cluster->set_name(absl::StrCat(cluster->name(), ", with ", each, " a node"));
}

struct Question {
  FitQuestion fit;
  OwnFrame frame;
};

absl::StatusOr<Question> AskAbout(const Arguments& args, const Facts& facts,
                                  const proto::Recipe& own) {
  Question question;
  if (FLAGS_cluster.empty()) {
    return InputError("--cluster", "is missing: the files do not say what GPUs these are",
                      "give --cluster=h100 (`oneflow cluster` lists them)");
  }
  SearchSpec& spec = question.fit.spec;
  ASSIGN_OR_RETURN(spec.source, MakeSource(facts));
  spec.devices = *facts.devices;
  for (const std::string& fix : args.Repeated("fix")) {
    RETURN_IF_ERROR(AddFixes("--fix=", fix, &spec.fixed));
  }
  ASSIGN_OR_RETURN(spec.given, RequestFromFlags(WithoutRecipe(args), own));
  SetNodes(facts, &spec.given.cluster);
  RETURN_IF_ERROR(CheckDevices(spec.given.cluster, {{{"data", static_cast<int>(spec.devices)}}}));
  RETURN_IF_ERROR(PriceQueues(args, spec.source.graph, &spec.given));
  for (const Row& row : RecipeRows()) {
    if (row.searched != Searched::kGiven) ClearField(row, &spec.given.recipe);
  }
  // A plan that updates on the devices may be better.
  ClearField(*FindRow(RecipeRows(), "update_on"), &spec.given.recipe);
  question.fit.own = own;
  question.frame = {.model = spec.source.graph.name(),
                    .cluster = spec.given.cluster.name(),
                    .capacity = UsableBytes(spec.given.cluster.device())};
  return question;
}

// Prints at once, unless JSON is asked for.
void Say(const std::string& text) {
  if (FLAGS_format == "json") return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// The model of the configuration as a flag of compile; "" where only a recipe file says it.
std::string GraphFlags(const Facts& facts) {
  const foreign::ModelFacts& model = facts.model;
  if (!model.model || model.preset.empty() || !model.differences.empty()) return "";
  proto::Model preset;
  preset.set_family(model.model->family());
  preset.set_preset(model.preset);
  const absl::StatusOr<proto::Model> complete = CompleteModel(preset);
  // The table may be padded, which no flag says.
  const Row& vocab = *FindRow(ModelRows(), "vocab");
  if (!complete.ok() || FieldText(vocab, *complete) != FieldText(vocab, *model.model)) return "";
  return absl::StrCat("--graph=", model.preset, " --sequence=", facts.sequence.value_or(0), " ");
}

std::string RecipeText(const Facts& facts, const ForeignRecipe& recipe) {
  std::string text = absl::StrCat("here: oneflow compile ", GraphFlags(facts),
                                  FlagsText(RecipeRows(), recipe.recipe), "\n");
  if (GraphFlags(facts).empty()) {
    text += "  with the model, in a file: --out_recipe=FILE, and oneflow compile --recipe=FILE\n";
  }
  for (const std::string& note : recipe.notes) absl::StrAppend(&text, "  but ", note, "\n");
  return text;
}

// --out_recipe: model, recipe and optimizer, for `oneflow compile --recipe`.
absl::Status WriteForeignRecipe(const Facts& facts, const ForeignRecipe& recipe) {
  if (FLAGS_out_recipe.empty()) return absl::OkStatus();
  const std::string flag = "--out_recipe=" + FLAGS_out_recipe;
  if (!facts.model.model || !facts.model.differences.empty()) {
    return InputError(flag, "cannot say a model that is only near to that of the files",
                      "leave it out");
  }
  proto::RecipeFile file;
  *file.mutable_model() = *facts.model.model;
  *file.mutable_recipe() = recipe.recipe;
  *file.mutable_run()->mutable_optimizer() = recipe.optimizer;
  if (facts.optimizer.steps) file.mutable_run()->set_steps(*facts.optimizer.steps);
  file.set_cluster(FLAGS_cluster);
  const std::string comment =
      absl::StrCat("Made by oneflow fit of ", facts.system, ": ",
                   facts.files.empty() ? "a command" : absl::StrJoin(facts.files, " "), ".");
  RETURN_IF_ERROR(Annotate(WriteFile(FLAGS_out_recipe, RecipeFileText(comment, file)), flag));
  Say(absl::StrCat("recipe: ", FLAGS_out_recipe, "\n"));
  return absl::OkStatus();
}

absl::Status AnswerForeign(const Arguments& args, Facts& facts, Json& json) {
  RETURN_IF_ERROR(foreign::CheckRules(facts));
  RETURN_IF_ERROR(foreign::CheckQuestions(facts));
  ASSIGN_OR_RETURN(const ForeignRecipe recipe, foreign::MakeForeignRecipe(facts));
  json["flags"] = FlagsText(RecipeRows(), recipe.recipe);
  json["recipe_notes"] = recipe.notes;
  Say(RecipeText(facts, recipe));
  RETURN_IF_ERROR(WriteForeignRecipe(facts, recipe));
  RETURN_IF_ERROR(ChooseSystem(facts));
  ASSIGN_OR_RETURN(const Question question, AskAbout(args, facts, recipe.recipe));
  ASSIGN_OR_RETURN(const proto::Run run, RunFromFlags(WithoutRecipe(args)));
  const absl::StatusOr<foreign::SystemBytes> theirs = foreign::TheirBytes(facts);
  BetterFinder better(facts, question.frame, run);
  FitOptions options{.threads = CountThreads(run),
                     .search_seconds = kSearchSeconds,
                     .most_seconds = 2 * kSearchSeconds,
                     .limit_seconds = 0,
                     .more_seconds = kSearchSeconds};
  if (!better.is_told()) options.plans = 0;
  if (args.Given("budget_seconds")) {
    RETURN_IF_ERROR(CheckBudget(FLAGS_budget_seconds));
    options.search_seconds = FLAGS_budget_seconds / 2;
    options.most_seconds = options.more_seconds = FLAGS_budget_seconds;
  }
  const double seconds = options.most_seconds;
  absl::Status refused;
  const auto observe = [&](FitPart part, const FitAnswer& known) {
    if (part != FitPart::kOwn) return;
    refused = known.own_refused;
    if (!known.own) return;
    Report own = DescribeOwn(question.frame, *known.own, question.fit.spec.given.cluster);
    Say(own.text);
    json["own"] = std::move(own.json);
    if (!theirs.ok()) {
      return Say(
          absl::StrCat("bytes as ", facts.system, " counts: ", theirs.status().message(), "\n"));
    }
    const foreign::OurBytes ours{.bytes = known.own->found.bytes};
    json["bytes_as_theirs"] = foreign::BytesJson(*theirs, ours);
    Say(foreign::BytesSentence(*theirs, ours) + "\n");
  };
  ASSIGN_OR_RETURN(const FitAnswer answer,
                   FindFitWithProgress(question.fit, std::move(options), observe));
  if (!answer.own) {
    return refused.ok() ? absl::InternalError("the configuration's own plan was not made")
                        : Annotate(refused, "the configuration's own plan");
  }
  RETURN_IF_ERROR(better.Find(question.fit.spec, answer, seconds));
  Say(better.Text());
  json["better"] = better.MakeJson();
  if (answer.own->fits || !better.empty()) return absl::OkStatus();
  return absl::ResourceExhaustedError("");
}

bool IsConfigOfModel(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return true;  // the reader of models says what is wrong
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  return json.contains("model_type") || json.contains("architectures") || json.contains("n_embd") ||
         json.contains("text_config");
}

}  // namespace

bool NamesForeignFiles(const std::vector<std::string>& words) {
  if (words.size() > 1) return true;
  if (words.empty()) return false;
  const std::filesystem::path path(words[0]);
  const std::string ending = path.extension();
  for (const char* other :
       {".sh", ".bash", ".sbatch", ".slurm", ".job", ".yaml", ".yml", ".toml"}) {
    if (ending == other) return true;
  }
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  if (ending == ".json") return !IsConfigOfModel(words[0]);
  const absl::StatusOr<std::string> text = ReadFile(words[0]);
  return text.ok() && absl::StartsWith(*text, "#!");
}

absl::Status FitForeign(const Arguments& args) {
  ASSIGN_OR_RETURN(const foreign::ForeignInput input, InputFromFlags(args));
  ASSIGN_OR_RETURN(Facts facts, foreign::ReadForeign(input));
  Json json = {{"facts", foreign::FactsJson(facts)}};
  Say(foreign::FactsText(facts) + foreign::SettingsText(facts));
  const absl::Status answered = AnswerForeign(args, facts, json);
  if (FLAGS_format == "json") {
    if (!answered.ok()) json["error"] = std::string(answered.message());
    RETURN_IF_ERROR(Print("", json, 1));
  }
  return answered;
}

}  // namespace oneflow

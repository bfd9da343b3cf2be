#include "tools/oneflow/cli/named_graph.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/file_kind.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/add_adapters.h"
#include "oneflow_core/model/model.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/recipe/row.h"
#include "oneflow_core/verify/read_plan.h"
#include "proto/plan.pb.h"
#include "tools/oneflow/cli/flags.h"
#include "tools/oneflow/cli/plan_file.h"
#include "tools/oneflow/cli/progress_printer.h"
#include "training/hugging_face/find_model.h"

namespace oneflow {
namespace {

// The numbers of the model that flags say; those of the model of --recipe are not of this one.
absl::StatusOr<proto::Model> SaidOfModel(const Arguments& args) {
  proto::Model said;
  for (const auto& [name, value] : args.flags) {
    // Beside a graph the axis of a recipe has this name.
    if (name == "experts" && !args.Given("from")) continue;
    const Row* row = FindRow(ModelRows(), name);
    const bool of_other = args.of_recipe.contains(name) && !args.of_recipe.contains("graph");
    if (row == nullptr || !row->is_flag || of_other) continue;
    RETURN_IF_ERROR(SetField(*row, value, &said));
  }
  return said;
}

void PrintModel(const std::string& text, const NamedModel& named) {
  const int64_t sequence = named.model.sequence();
  std::string line = absl::StrCat(text, ": ", named.name);
  if (named.origin != text && named.origin != named.name &&
      named.origin != "preset " + named.name) {
    absl::StrAppend(&line, " of ", named.origin);
  }
  absl::StrAppend(&line, ", ", named.parameters, " parameters, sequences of ", sequence, " tokens");
  if (sequence == named.positions) absl::StrAppend(&line, ", its longest (--sequence=N)");
  if (sequence > named.positions) {
    absl::StrAppend(&line, ", and it was published for ", named.positions);
  }
  PrintNotice(line);
  if (named.differences.empty()) return;
  PrintNotice(absl::StrCat("approximated by a model of the family ", named.model.family(), " with ",
                           CountParameters(named.graph), " parameters; theirs minus those here:"));
  for (const std::string& difference : DifferenceLines(named.differences)) {
    std::fprintf(stderr, "  %s\n", difference.c_str());
  }
}

// Flags that act on a named model only.
absl::Status CheckNoModelFlags(const Arguments& args, const std::string& path) {
  for (const char* name : {"sequence", "approximate"}) {
    if (!args.Given(name) || args.of_recipe.contains(name)) continue;
    return InputError(absl::StrCat("--", name),
                      absl::StrCat("acts on nothing: ", path, " is a graph that is made already"),
                      "leave it out, or give it to `oneflow model`");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<proto::Model> TrainedFromFlags(const Arguments& args) {
  ASSIGN_OR_RETURN(const proto::Model said, SaidOfModel(args));
  proto::Model trained;
  for (const char* name : {"lora", "train_only"}) {
    const Row& row = *FindRow(ModelRows(), name);
    if (HasField(row, said)) CopyField(row, said, &trained);
  }
  return trained;
}

absl::StatusOr<NamedModel> NamedModelFromFlags(const Arguments& args, const std::string& text) {
  NamedModelOptions options{.approximate = FLAGS_approximate};
  ASSIGN_OR_RETURN(options.said, SaidOfModel(args));
  ASSIGN_OR_RETURN(NamedModel named, FindNamedModel(text, options));
  PrintModel(text, named);
  return named;
}

absl::StatusOr<proto::Model> SayNamedModel(const Arguments& args, const std::string& text) {
  NamedModelOptions options;
  ASSIGN_OR_RETURN(options.said, SaidOfModel(args));
  ASSIGN_OR_RETURN(const NamedModel named, FindNamedModel(text, options));
  if (!named.model.has_preset()) return named.model;
  options.said.set_family(named.model.family());
  options.said.set_preset(named.model.preset());
  return options.said;
}

absl::StatusOr<GraphSource> ReadGraphArgument(const Arguments& args, const std::string& text) {
  if (NamesModel(text)) {
    ASSIGN_OR_RETURN(NamedModel named, NamedModelFromFlags(args, text));
    return GraphSource{std::move(named.graph), text, {}};
  }
  if (!PathExists(text)) return FindNamedModel(text).status();  // the nearest name
  RETURN_IF_ERROR(CheckNoModelFlags(args, text));
  GraphSource source{.file = text};
  if (IsPlanFile(text)) {
    ASSIGN_OR_RETURN(proto::Plan plan, ReadPlan(text));
    source.graph = std::move(*plan.mutable_graph());
  } else {
    ASSIGN_OR_RETURN(source, ReadGraphFile(text));
  }
  ASSIGN_OR_RETURN(const proto::Model trained, TrainedFromFlags(args));
  ASSIGN_OR_RETURN(source.graph, AdaptGraph(std::move(source.graph), trained));
  if (const int count = source.graph.approximates_size(); count > 0) {
    PrintNotice(absl::StrCat(text, ": ", source.graph.name(), ", which differs from its model in ",
                             count, count == 1 ? " way" : " ways"));
  }
  return source;
}

}  // namespace oneflow

// The table of flags: which verb takes which flag, how its help shows it, and which values there
// are. Flags of a recipe are its rows (oneflow_core/recipe/row.h); flag_table.inc holds the others,
// from which the gflags of flags.h are made, too.
//
//   const FlagRow* row = FindFlag(verbs::kCompile, "schedule");
//   row->sentence                               // "Order of the pipeline."
//   CheckValue(*row, "zb")                      // an input error: did you mean zero_bubble?
//
// It reads no flag and sets none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "oneflow_core/recipe/row.h"

namespace oneflow {

// The verbs as bits, for the flags that they take.
namespace verbs {
inline constexpr uint32_t kModel = 1 << 0, kCompile = 1 << 1, kExplain = 1 << 2, kVerify = 1 << 3,
                          kRun = 1 << 4, kData = 1 << 5, kTrain = 1 << 6, kGenerate = 1 << 7,
                          kSimulate = 1 << 8, kDiff = 1 << 9, kCalibrate = 1 << 10,
                          kDevices = 1 << 11, kSubmit = 1 << 12, kStatus = 1 << 13, kLogs = 1 << 14,
                          kCancel = 1 << 15, kImport = 1 << 16, kExport = 1 << 17,
                          kSearch = 1 << 18, kEval = 1 << 19, kRecipe = 1 << 20, kCluster = 1 << 21,
                          kFit = 1 << 22, kCompletion = 1 << 23, kAll = (1 << 24) - 1;
// Two properties of a flag, in the same word: a plan has it fixed, so that it cannot be given
// together with --plan; it is a number of the optimizer, which a plan has, too, but which a user
// who trains may give anew.
inline constexpr uint32_t kFixedByPlan = 1 << 24, kOfOptimizer = 1 << 25;
// The verbs that take a plan, or a graph and the flags to compile it with.
inline constexpr uint32_t kWithPlan =
    kCompile | kExplain | kRun | kTrain | kSimulate | kSubmit | kDiff;
inline constexpr uint32_t kPlanned = kWithPlan | kFixedByPlan;
// Flags of kPlanned that a search does not choose.
inline constexpr uint32_t kNotSearched = kPlanned | kSearch;
inline constexpr uint32_t kOptimized =
    kCompile | kExplain | kTrain | kSimulate | kSubmit | kSearch | kFit | kDiff | kOfOptimizer;
// "compile"; requires one bit of a verb.
std::string_view VerbName(uint32_t verb);
}  // namespace verbs

// "data and output".
std::string_view GroupTitle(FlagGroup group);

struct FlagRow {
  std::string_view name;
  uint32_t verbs = 0;
  FlagGroup group = FlagGroup::kModelGroup;
  bool rare = false;                  // shown by --help=all only
  std::string_view value;             // "FILE", "f32|bf16"; "" of a switch
  std::string_view sentence;          // an explanation
  std::string_view default_text;      // "" if the sentence says it, or if there is none
  const oneflow::Row* row = nullptr;  // the field's that the flag says; null: a gflag has it
  const google::protobuf::Message* message = nullptr;  // an empty one, which has that field
  bool operator==(const FlagRow&) const = default;
};

// All flags, each once, in the order of the help.
std::span<const FlagRow> FlagTable();

// The flag as `verb` takes it; null where it does not.
const FlagRow* FindFlag(uint32_t verb, std::string_view name);

// The flags of a verb, in the order of the help.
std::vector<std::string_view> FlagsOfVerb(uint32_t verb);

// True of a flag of the table that has the property, one of kFixedByPlan and kOfOptimizer.
bool HasProperty(std::string_view name, uint32_t property);

// An input error that names the nearest value where the row lists values and `value` is none.
absl::Status CheckValue(const FlagRow& row, const std::string& value);

}  // namespace oneflow

// One choice of a user: a field of proto Model, Recipe, Optimizer or Run. The row says all that the
// rest of the system asks about it; flags, help, refusals and warnings are made from the rows
// (field_text.h sets and prints fields by them). Scalars are read and written by the field's
// descriptor; meaning is never reflected.
//
//   {.name = "prefetch", .value = "N", .absent = "auto", .group = kParallelismGroup, .rare = kRare,
//    .least = 0, .most = 8, .idle = IdlePrefetch,
//    .sentence = "With --overlap, weights are gathered N blocks ahead of their use. ..."},
//
// Next: oneflow_core/recipe/recipe_rows.cc, the rows of what decides a plan.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "oneflow_core/tensor/mesh.h"
#include "proto/graph.pb.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// The groups of flags in the help, in its order.
enum class FlagGroup {
  kModelGroup,
  kParallelismGroup,
  kScheduleGroup,
  kMemoryGroup,
  kOptimizerGroup,
  kSamplingGroup,
  kSearchGroup,
  kRunGroup,
  kDataGroup,
  kProcessesGroup,
  kJobGroup
};

// What another value may change in the bits of a run's losses and weights (law 6).
enum class Bits {
  kNone,    // nothing
  kSums,    // sums are made in another order
  kValues,  // other numbers are computed
};

// What search does with a choice.
enum class Searched {
  kGiven,   // it takes the user's, as compile does
  kChosen,  // it chooses it, and --fix=NAME=VALUE fixes it
  kNever,   // neither; Row::advice says what to write
};

// The text of a field that is no plain scalar. A message has `parse` and `print`; a number that is
// written in words, the other two. `where` begins errors: "--shard=zero".
struct Form {
  absl::Status (*parse)(std::string_view where, std::string_view text,
                        google::protobuf::Message* field) = nullptr;
  std::string (*print)(const google::protobuf::Message& field) = nullptr;
  absl::StatusOr<int64_t> (*parse_number)(std::string_view where, std::string_view text) = nullptr;
  std::string (*print_number)(int64_t number) = nullptr;
  bool is_file = false;  // the text names a file that holds the message: printed, it is no text
};

// The plan that a choice may act on nothing in. The recipe has its defaults (complete_recipe.h).
struct PlanCase {
  const proto::Recipe& recipe;
  const proto::Graph& graph;
  const Mesh& mesh;
};

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

struct Row {
  std::string_view name;    // of the field, and of the flag
  std::string_view value;   // in the help: "N", "FILE", "f32|bf16" (these words are all there are);
                            // "" of a switch
  std::string_view absent;  // the word that leaves the field absent: "auto"; "" if there is none
  std::string_view default_text;  // what counts where the field is absent; "" if planning chooses
                                  // or `sentence` says it
  FlagGroup group = FlagGroup::kModelGroup;
  bool rare = false;      // shown by --help=all only
  bool is_flag = true;    // false: only files say it
  bool is_limit = false;  // it refuses plans and changes none: a finished plan is held to it, too
  bool differs = false;   // the processes of a run may have different values
  double least = -kNoLimit, most = kNoLimit;   // of a number
  double above = -kNoLimit, below = kNoLimit;  // the same, itself not among them
  Bits bits = Bits::kNone;
  Searched searched = Searched::kGiven;
  const Form* form = nullptr;  // null: a scalar
  // The default where it depends on other fields, which have theirs.
  std::string (*find_default)(const proto::Recipe& recipe) = nullptr;
  // Why the choice acts on nothing in a plan, or "asks for more than there is: ..."; "" where it
  // acts.
  std::string_view (*idle)(const PlanCase& plan) = nullptr;
  // An input error where the value is not for those of other fields.
  absl::Status (*excludes)(const proto::Recipe& recipe) = nullptr;
  // The part of the value that moves bits, as text; null: all of it.
  std::string (*moves)(const proto::Recipe& recipe) = nullptr;
  // Of a Run: fields of which one must be there, too, and one that must not (check_needs.h).
  std::string_view needs, conflicts;
  std::string_view foreign;   // names in other systems that mean the same, blanks between
  std::string_view advice;    // kNever: what to write instead
  std::string_view sentence;  // what it does
};

// The rows of the fields of each message, in the order of the help; each field has one.
std::span<const Row> ModelRows();
std::span<const Row> RecipeRows();
std::span<const Row> OptimizerRows();
std::span<const Row> RunRows();

// The row of that name; null if there is none.
const Row* FindRow(std::span<const Row> rows, std::string_view name);

}  // namespace oneflow

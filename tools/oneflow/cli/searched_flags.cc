#include "tools/oneflow/cli/searched_flags.h"

#include <utility>

namespace oneflow {
namespace {

// Flags that --fix takes by their own names.
constexpr std::string_view kFixed[] = {"micro_batches",   "schedule",     "chunks",
                                       "recompute",       "shard",        "offload",
                                       "extra_in_flight", "stage_layers", "sequence_parallel"};

constexpr std::pair<std::string_view, std::string_view> kOther[] = {
    {"mesh", "it chooses the mesh; fix degrees as in --fix=pipe=2,tensor=4"},
    {"fill_memory", "leave it out, or write --fix=extra_in_flight=N"},
    {"order", "a file of orders is one schedule; compile it with `oneflow compile`"},
    {"experts", "it splits experts over the axis expert; fix its degree as in --fix=expert=8"},
    {"sync_every", "write in --batch the sequences of all steps that share an update"},
    {"staleness", "weights that lag are not searched; compile them with `oneflow compile`"},
    {"steps_a_round", "weights that lag are not searched; compile them with `oneflow compile`"},
};

}  // namespace

std::string AdviceOnSearched(std::string_view flag) {
  for (const std::string_view fixed : kFixed) {
    if (fixed == flag) {
      return "it is chosen; to fix it write --fix=" + std::string(flag) + "=VALUE";
    }
  }
  for (const auto& [name, advice] : kOther) {
    if (name == flag) return std::string(advice);
  }
  return "";
}

}  // namespace oneflow

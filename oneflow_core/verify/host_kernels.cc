#include "oneflow_core/verify/checks.h"

#include <vector>

namespace oneflow {
namespace {

const std::vector<OpDef>& HostKernels() {
  static const std::vector<OpDef> table = [] {
    const AttrDef name = {"name", AttrType::kString, true};
    const AttrDef input = {"input", AttrType::kString};
    const AttrDef replicated = {"replicated_axes", AttrType::kInts};
    return std::vector<OpDef>{
        {.kind = "load_tokens",
         .usage = "-> ids",
         .attrs = {name, input, {"source", AttrType::kString, true}, {"mirrored", AttrType::kInt}}},
        {.kind = "load_counts",
         .usage = "-> counts",
         .attrs = {{"parts", AttrType::kInt, true},
                   {"sequence", AttrType::kInt, true},
                   {"documents", AttrType::kBool, true},
                   {"next", AttrType::kBool}}},
        {.kind = "feed", .usage = "-> x", .attrs = {name, input, {"source", AttrType::kString}}},
        {.kind = "fetch",
         .usage = "x ->",
         .inputs = {1},
         .outputs = 0,
         .attrs = {name, replicated, {"raw", AttrType::kBool}}},
        {.kind = "report",
         .usage = "loss, (norm), (labels), (choices[n]) ->",
         .inputs = {1, 4},
         .outputs = 0,
         .attrs = {{"counted", AttrType::kBool}}},
        {.kind = "init_variable",
         .usage = "-> w",
         .attrs = {name,
                   {"init", AttrType::kString, true},
                   {"init_value", AttrType::kDouble},
                   {"narrow", AttrType::kBool}}},  // w is bf16
        {.kind = "save_slice",
         .usage = "w ->",
         .inputs = {1},
         .outputs = 0,
         .attrs = {name, replicated}},
        {.kind = "load_slice", .usage = "-> w", .attrs = {name}},
        {.kind = "copy_in", .usage = "x -> x", .inputs = {1}},
        {.kind = "copy_out", .usage = "x -> x", .inputs = {1}},
    };
  }();
  return table;
}

}  // namespace

const OpDef* FindHostKernel(std::string_view kind) {
  for (const OpDef& def : HostKernels()) {
    if (def.kind == kind) return &def;
  }
  return nullptr;
}

}  // namespace oneflow

// The one table of op kinds: built once, constant ever after, the same in every process.
#include <algorithm>
#include <iterator>

#include <glog/logging.h>

#include "oneflow_core/op/op_def.h"
#include "oneflow_core/op/op_tables.h"

namespace oneflow {
namespace {

std::vector<OpDef> BuildTable() {
  std::vector<OpDef> table;
#define LISTED(rows) rows,
  for (const auto rows : {
#include "oneflow_core/op/op_tables.inc.h"
       }) {
#undef LISTED
    std::vector<OpDef> defs = rows();
    std::move(defs.begin(), defs.end(), std::back_inserter(table));
  }
  std::sort(table.begin(), table.end(), [](const OpDef& a, const OpDef& b) {
    return FormName(a.kind, a.then) < FormName(b.kind, b.then);
  });
  return table;
}

// The names of the rows, in their order.
std::vector<std::string> Names(const std::vector<OpDef>& table) {
  std::vector<std::string> names;
  for (const OpDef& def : table) names.push_back(FormName(def.kind, def.then));
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  return names;
}

}  // namespace

const std::vector<OpDef>& OpDefs() {
  static const std::vector<OpDef> table = BuildTable();
  return table;
}

const OpDef* FindOpDef(std::string_view kind) {
  static const std::vector<std::string> names = Names(OpDefs());
  const auto it = std::lower_bound(names.begin(), names.end(), kind);
  return it != names.end() && *it == kind ? &OpDefs()[it - names.begin()] : nullptr;
}

const OpDef* FindOpDef(std::string_view kind, const AttrMap& attrs) {
  return attrs.contains("then") ? FindOpDef(FormName(kind, attrs)) : FindOpDef(kind);
}

std::string FormName(std::string_view kind, std::string_view then) {
  std::string name(kind);
  if (!then.empty()) name.append("+").append(then);
  return name;
}

std::string FormName(std::string_view kind, const AttrMap& attrs) {
  const auto it = attrs.find("then");
  const auto* then = it == attrs.end() ? nullptr : std::get_if<std::string>(&it->second);
  return FormName(kind, then == nullptr ? std::string_view() : *then);
}

std::vector<std::string> OpKinds() {
  std::vector<std::string> kinds;
  for (const OpDef& def : OpDefs()) {
    if (def.then.empty()) kinds.push_back(def.kind);
  }
  return kinds;
}

std::vector<OpSample> MakeSamples(const OpDef& def, const SampleSizes& sizes) {
  std::vector<OpSample> samples;
  if (def.samples) samples = def.samples(sizes);
  for (OpSample& sample : samples) {
    if (!def.then.empty()) sample.attrs["then"] = def.then;
  }
  return samples;
}

}  // namespace oneflow

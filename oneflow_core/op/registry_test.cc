#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "oneflow_core/graph/graph.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/tensor/primitive.h"

namespace oneflow {
namespace {

// The names in the first column of docs/ops.md's tables of kinds, and the boxing kinds.
std::set<std::string> DocumentedKinds() {
  std::set<std::string> kinds;
  std::ifstream file("docs/ops.md");
  REQUIRE(file.good());
  bool in_table = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("| kind |", 0) == 0) in_table = true;
    if (line.empty() || line[0] != '|') in_table = false;
    if (in_table && line.rfind("| `", 0) == 0) kinds.insert(line.substr(3, line.find('`', 3) - 3));
    for (size_t at = 0; (at = line.find('`', at)) != std::string::npos; ++at) {
      const std::string word = line.substr(at + 1, line.find('`', at + 1) - at - 1);
      if (IsBoxing(word)) kinds.insert(word);
    }
  }
  return kinds;
}

TEST_CASE("docs/ops.md and the table name the same kinds") {
  const std::vector<std::string> kinds = OpKinds();
  CHECK(std::set<std::string>(kinds.begin(), kinds.end()) == DocumentedKinds());
}

TEST_CASE("kinds are sorted, unique and found by name") {
  const std::vector<std::string> kinds = OpKinds();
  CHECK(std::is_sorted(kinds.begin(), kinds.end()));
  CHECK(std::adjacent_find(kinds.begin(), kinds.end()) == kinds.end());
  for (const std::string& kind : kinds) {
    REQUIRE(FindOpDef(kind) != nullptr);
    CHECK(FindOpDef(kind)->kind == kind);
  }
  CHECK(FindOpDef("") == nullptr);
  CHECK(FindOpDef("linea") == nullptr);
  CHECK(FindOpDef("zzz") == nullptr);
}

TEST_CASE("every definition is complete") {
  for (const OpDef& def : OpDefs()) {
    INFO(FormName(def.kind, def.then));
    CHECK(def.infer != nullptr);
    CHECK(def.signatures != nullptr);
    CHECK(def.flops != nullptr);
    CHECK(def.usage.find("->") != std::string::npos);
    CHECK(def.outputs >= 1);
    CHECK((def.inputs.most == kAnyNumber || def.inputs.most >= def.inputs.least));
    CHECK_FALSE((def.product && def.own_products));
    if (def.own_products && def.on_cpu) CHECK(def.counted_flops != nullptr);
    if (!def.HasProducts()) CHECK(def.counted_flops == nullptr);
  }
}

TEST_CASE("every form is found by its name and by the attribute `then`") {
  CHECK(FormName("linear", "gelu") == "linear+gelu");
  for (const OpDef& def : OpDefs()) {
    AttrMap attrs;
    if (!def.then.empty()) attrs["then"] = def.then;
    CHECK(FindOpDef(def.kind, attrs) == &def);
    CHECK(FindOpDef(FormName(def.kind, attrs)) == &def);
  }
  CHECK(FindOpDef("linear", {{"then", std::string()}}) == FindOpDef("linear"));
  CHECK(FindOpDef("linear", {{"then", std::string("relu")}}) == nullptr);
}

TEST_CASE("every row but those of inputs and variables has samples") {
  const SampleSizes sizes = {2, 4, 6, 8, 10, 12, 14};
  for (const OpDef& def : OpDefs()) {
    INFO(FormName(def.kind, def.then));
    CHECK(MakeSamples(def, sizes).empty() == HasOwnShape(def.kind));
  }
}

}  // namespace
}  // namespace oneflow

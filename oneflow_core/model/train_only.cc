// --train_only: patterns over names of variables.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/nearest.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/graph_proto.h"
#include "oneflow_core/model/adapters.h"
#include "oneflow_core/model/add_adapters.h"
#include "oneflow_core/model/families.h"

namespace oneflow {
namespace {

// True if `pattern`, whose "*" is any text, is `text` or what stands before a dot of it.
bool Matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty() || text.front() == '.';
  if (pattern.front() != '*') {
    return !text.empty() && text.front() == pattern.front() &&
           Matches(pattern.substr(1), text.substr(1));
  }
  for (size_t skipped = 0; skipped <= text.size(); ++skipped) {
    if (Matches(pattern.substr(1), text.substr(skipped))) return true;
  }
  return false;
}

// The names of the tensors that a variable is in files, with the family's prefix and without;
// one list for each part.
using FileNames = std::vector<std::vector<std::string>>;

FileNames ListFileNames(const Family* family, const proto::Op& variable) {
  FileNames names;
  int64_t block = -1;
  const VariableParts* row =
      family == nullptr ? nullptr : FindParts(*family->files, variable.name(), &block);
  if (row == nullptr) return names;
  for (const FilePart& part : row->parts) {
    const std::string name = TensorName(part, block);
    names.push_back({name, FileName(*family->files, name)});
  }
  return names;
}

// The variables of a graph that patterns choose from.
class Choice {
 public:
  Choice(const proto::Graph& graph, const Family* family) {
    for (const proto::Op& op : graph.op()) {
      if (op.kind() != "variable" || IsAdapterName(op.name())) continue;
      names_.push_back(op.name());
      files_.emplace(op.name(), ListFileNames(family, op));
    }
  }

  // Adds to `chosen` what the pattern names.
  absl::Status Add(const std::string& pattern, std::set<std::string>* chosen) const {
    const std::string where = absl::StrCat("--train_only: pattern \"", pattern, "\"");
    bool any = false;
    for (const std::string& name : names_) {
      const FileNames& parts = files_.at(name);
      const auto named = std::count_if(parts.begin(), parts.end(), [&](const auto& part) {
        return std::any_of(part.begin(), part.end(),
                           [&](const std::string& n) { return Matches(pattern, n); });
      });
      if (!Matches(pattern, name) && named == 0) continue;
      if (!Matches(pattern, name) && named < static_cast<int64_t>(parts.size())) {
        return InputError(where, absl::StrCat("names a part of the variable \"", name, "\""),
                          absl::StrCat("a variable is trained as one: write ", name));
      }
      chosen->insert(name);
      any = true;
    }
    if (any) return absl::OkStatus();
    return InputError(where, "names no variable of the model", Hint(pattern));
  }

 private:
  // "h.*.ln_1.weight" of block 3's.
  static std::string WithoutBlock(const std::string& name) {
    const std::vector<std::string> words = absl::StrSplit(name, '.');
    if (words.size() < 3 || words[0] != "h") return name;
    return absl::StrCat("h.*.", absl::StrJoin(words.begin() + 2, words.end(), "."));
  }

  std::string Hint(const std::string& pattern) const {
    const bool head = Matches("head", pattern) || Matches("lm_head", pattern);
    if (head && files_.contains("wte")) return "the head of this model is its embedding: write wte";
    std::vector<std::string> known;
    std::set<std::string> seen;
    for (const std::string& name : names_) {
      if (seen.insert(WithoutBlock(name)).second) known.push_back(WithoutBlock(name));
    }
    std::string nearest = Nearest(pattern, known);
    if (nearest.empty()) nearest = Nearest(absl::StrCat(pattern, ".weight"), known);
    return absl::StrCat(nearest.empty() ? "" : absl::StrCat("did you mean ", nearest, "? "),
                        "the variables are ", absl::StrJoin(known, ", "));
  }

  std::vector<std::string> names_;
  std::map<std::string, FileNames> files_;
};

}  // namespace

absl::StatusOr<proto::Graph> TrainOnly(proto::Graph graph, std::string_view patterns) {
  FillBlocks(&graph);
  ASSIGN_OR_RETURN(const Graph checked, GraphFromProto(graph, graph.name()));
  ASSIGN_OR_RETURN(const Family* const family, FindFamily(checked));
  const Choice choice(graph, family);
  std::set<std::string> chosen;
  for (const std::string& text : std::vector<std::string>(absl::StrSplit(ToAbsl(patterns), ','))) {
    const std::string pattern(absl::StripAsciiWhitespace(text));
    if (pattern.empty()) {
      return InputError(absl::StrCat("--train_only=", ToAbsl(patterns)), "has an empty pattern",
                        "write names of variables with commas between, as in head.*,h.*.ln_*");
    }
    RETURN_IF_ERROR(choice.Add(pattern, &chosen));
  }
  for (proto::Op& op : *graph.mutable_op()) {
    if (op.kind() != "variable" || IsAdapterName(op.name())) continue;
    if (chosen.contains(op.name())) {
      op.mutable_attr()->erase("frozen");
    } else {
      (*op.mutable_attr())["frozen"].set_b(true);
    }
  }
  graph.set_train_only(std::string(patterns));
  return graph;
}

}  // namespace oneflow

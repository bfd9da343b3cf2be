// The model that `oneflow fit MODEL` asks about.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/graph/graph_proto.h"

namespace oneflow {

struct FitModel {
  GraphSource source;
  std::string name;
  int64_t parameters = 0;
  std::string sequence_note;             // how the length of sequences was chosen; "": it was given
  std::vector<std::string> differences;  // of the model asked about from the graph, a line each
  // The model with sequences of another length; null: it is not known how.
  std::function<absl::StatusOr<GraphSource>(int64_t sequence)> with_sequence;
  // The flags of compile that say the model, with sequences of this length.
  std::function<std::string(int64_t sequence)> flags;
};

// `word`: a graph file or a plan, the name of a preset. `sequence`: 0 if it was not given.
absl::StatusOr<FitModel> FindFitModel(const std::string& word, int64_t sequence);

}  // namespace oneflow

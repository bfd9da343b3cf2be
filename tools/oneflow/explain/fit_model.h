// The model that `oneflow fit MODEL` asks about.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/graph/graph_proto.h"
#include "proto/recipe.pb.h"

namespace oneflow {

struct FitModel {
  GraphSource source;
  std::string name;
  int64_t parameters = 0;                // of the model that was named
  std::string sequence_note;             // how the length of sequences was chosen; "": it was given
  std::vector<std::string> differences;  // from the model that was named, a line each
  // The model with sequences of another length; null: it is not known how.
  std::function<absl::StatusOr<GraphSource>(int64_t sequence)> with_sequence;
  // The flags of compile that say the model, with sequences of this length.
  std::function<std::string(int64_t sequence)> flags;
};

// `word`: what names a model (training/hugging_face/named_model.h), a graph file or a plan.
// `sequence`: 0 if it was not given. `approximate`: the nearest model will do. `trained`: the
// variables that are trained (TrainedFromFlags).
absl::StatusOr<FitModel> FindFitModel(const std::string& word, int64_t sequence, bool approximate,
                                      const proto::Model& trained);

}  // namespace oneflow

// The model that --graph or --from names: training/hugging_face/named_model.h with the flags beside
// it, and what the user is told of it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "oneflow_core/graph/graph_proto.h"
#include "tools/oneflow/cli/verb.h"
#include "training/hugging_face/named_model.h"

namespace oneflow {

// The model of `text`, with the model flags of the verb and --approximate. A line on stderr says
// what it is, and one for each difference from the model that was named.
absl::StatusOr<NamedModel> NamedModelFromFlags(const Arguments& args, const std::string& text);

// The same as a recipe says it, in which no difference can be said: requires an exact model.
absl::StatusOr<proto::Model> SayNamedModel(const Arguments& args, const std::string& text);

// What the flags say of the variables that are trained, and nothing else: lora, train_only.
absl::StatusOr<proto::Model> TrainedFromFlags(const Arguments& args);

// The graph of --graph=TEXT, with adapters and frozen variables as flags say: a file of `oneflow
// model`, a plan, or NamedModelFromFlags.
absl::StatusOr<GraphSource> ReadGraphArgument(const Arguments& args, const std::string& text);

}  // namespace oneflow

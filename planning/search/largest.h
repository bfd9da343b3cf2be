// The largest model, batch and sequence of which a plan fits: each grows by doubling, then by
// bisection, and every size is a search that ends with the first plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "oneflow_core/print/report.h"
#include "planning/search/pareto.h"
#include "planning/search/result_text.h"
#include "proto/recipe.pb.h"

namespace oneflow {

// Something that grows. Steps are whole numbers from 1 on; a plan of a larger one needs more.
struct Growth {
  std::string what;  // "layers", "batch"
  int64_t most = 0;  // steps; 0: no limit
  std::function<absl::StatusOr<SearchSpec>(int64_t step)> make;
  std::function<std::string(int64_t step)> name;        // "40 layers, 16.1 B parameters"
  std::function<std::string(int64_t step)> flags;       // before those of the candidate
  std::function<std::string(int64_t step)> write = {};  // the command that writes its graph
  std::string unknown = {};                             // why it cannot be answered; else ""
};

struct Largest {
  int64_t step = 0;      // 0: none was found, not even of the first
  int64_t next = 0;      // of which no plan was found; 0: step is the last that there is
  bool refuted = false;  // a bound of bytes says that `next` cannot fit
  FoundPlan plan;
};

// Within `options.budget_seconds`. Steps are told apart to a sixteenth. Errors: those of `make`.
absl::StatusOr<Largest> FindLargest(const Growth& growth, const SearchOptions& options,
                                    const SearchFunction& search = &Search);

// The flags of compile beside those of a candidate; empty where they are not given.
struct GivenTexts {
  std::string graph, batch, others;  // "--graph=gpt.textproto", "--batch=64", ...
};

// What grows for a model: a family's presets, layers and the length of a sequence, where its
// numbers are known (`model` has a family); and sequences a step, all of one micro-batch. `spec`
// must outlive what is returned.
std::vector<Growth> ListGrowths(const SearchSpec& spec, const proto::Model& model,
                                const GivenTexts& given);

// The numbers of a graph that `oneflow model` made of a preset; without a family where it is none.
proto::Model FindPresetModel(const proto::Graph& graph);

Report DescribeLargest(const ResultFrame& frame, const std::vector<Growth>& growths,
                       const std::vector<Largest>& found);

}  // namespace oneflow

// The largest model, batch and sequence of which a plan fits: each grows by doubling, then by
// bisection, and every size is a search that ends with the first plan, or with its time: then what
// short plans say of one that fits is enough to go on.
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
  int64_t step = 0;        // 0: none was found, not even of the first
  int64_t next = 0;        // the least that was tried in vain; 0: there is none
  std::string why = {};    // behind the name of `next`, or alone: what ended the growth
  double bytes_error = 0;  // of a plan that is not compiled: a part of its bytes
  bool compiled = true;    // else `plan` has only what short plans say: choices, seconds and bytes
  FoundPlan plan = {};
};

// Within `options.budget_seconds`, and until `options.stop`: nothing is searched afterwards. Steps
// are told apart to a sixteenth where the time is enough, and what is answered is compiled where
// some is left. Errors: those of `make`; one of `search` is why a step does not fit.
absl::StatusOr<Largest> FindLargest(const Growth& growth, const SearchOptions& options,
                                    const SearchFunction& search = &Search);

// The flags of compile beside those of a candidate; empty where they are not given.
struct GivenTexts {
  std::string graph, batch, others;  // "--graph=gpt.textproto", "--batch=64", ...
};

// What grows for a model: a family's presets, layers and the length of a sequence, where its
// numbers are known (`model` has a family); and sequences a step, all of one micro-batch, unless
// another number of these is fixed. `spec` must outlive what is returned.
std::vector<Growth> ListGrowths(const SearchSpec& spec, const proto::Model& model,
                                const GivenTexts& given);

// The numbers of a graph that `oneflow model` made of a preset; without a family where it is none.
proto::Model FindPresetModel(const proto::Graph& graph);

Report DescribeLargest(const ResultFrame& frame, const std::vector<Growth>& growths,
                       const std::vector<Largest>& found);

}  // namespace oneflow

// One golden case of the compiler's front end: a text file
//
//   # A sentence or two: why this result is the right one.
//   passes: bind_batch .. place_variables, infer_sbp
//   micro_batch_size: 4      (optional; 2 by default)
//   micro_batches: 2         (optional; 1 by default)
//   show: boxing             (optional: only the lines of boxing ops, with their reasons)
//   -- graph --
//   textproto of proto/graph.proto, with its mesh
//   -- expect --
//   the printed graph, or the error's message
//
// `a .. b` stands for all passes from a to b. A file named fail_* expects an error, any other none.
// The result of insert_boxing is verified, too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace oneflow {

struct GoldenCase {
  std::string file;
  std::string head;  // all before "-- expect --", as it stands in the file
  std::vector<std::string> passes;
  int64_t micro_batch_size = 2, micro_batches = 1;
  bool boxing_only = false;
  std::string graph;
  std::string expect;
};

absl::StatusOr<GoldenCase> ParseGoldenCase(const std::string& file, std::string_view text);

// What the passes make of the graph, printed; or their error.
absl::StatusOr<std::string> RunGoldenCase(const GoldenCase& golden);

}  // namespace oneflow

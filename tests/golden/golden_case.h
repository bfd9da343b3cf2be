// One golden case of the compiler: a text file in the folder of its last pass
//
//   # A sentence or two: why this result is the right one.
//   passes: bind_batch .. place_variables, infer_sbp
//   micro_batch_size: 4      (optional; 2 by default)
//   micro_batches: 2         (optional; 1 by default)
//   positions: 3             (optional; 1 by default; of cache_attention)
//   schedule: gpipe          (optional; 1f1b by default)
//   chunks: 3                (optional; of a schedule that interleaves, 2 by default)
//   precision: bf16          (optional; else mixed_precision does nothing)
//   residual: f32            (optional; else the residual stream is bf16, too)
//   loss_pieces: 4           (optional; or auto; of omit_logits)
//   device: cuda             (optional; else host_copies does nothing)
//   documents: kept apart    (optional; of give_positions)
//   masked_labels: true      (optional; else mask_labels does nothing)
//   context_pieces: 2        (optional; of piece_attention)
//   overlap: 1000            (optional; exchanges on streams of their own, in buckets of so many
//                            bytes)
//   offload: activations:all (optional; what rests in the host's memory; of variables also their
//                            attribute `host`)
//   show: boxing             (optional; see below)
//   names: fc1 fc1.dw        (optional, on one line or several; see below)
//   segments: F B            (optional; see below)
//   -- graph --
//   textproto of proto/graph.proto, with its mesh
//   -- expect --
//   the printed graph or plan, or the error's message
//
// Passes are those of compile (compiler/front_end.h, compiler/back_end.h), and plan_memory. Every
// case begins with fold_stages, named or not. `a .. b` stands for all passes from a to b, but those
// of programs that do not train (remove_dropout, cache_attention) or are fed (join_positions), of
// positions as data (give_positions), of masked labels (mask_labels), of logits in pieces
// (omit_logits) and of overlap (order_update, hide_exchanges) and of what rests in the host's
// memory (rest_on_host, choose_offload, move_to_host, bound_copies) are always named. A file named
// fail_* expects an error, any other none. The results of insert_boxing and plan_memory are
// verified, too.
//
// Up to insert_boxing the graph is printed. `show: boxing` keeps the lines of boxing ops, with
// their reasons; `show: changed` keeps ops that the last pass made or changed, and names those that
// it removed; `names` keeps ops of these names. Of a graph in parts each op has its index. After
// lower, schedule, slots and plan_memory a plan is printed that has the one program "train" and,
// for the host, the loss or the outputs. `show` keeps some of "memory registers actors segments
// streams issue"; `names` keeps the registers and actors of these names, `segments` the segments.
// Slots and offsets stand at 1 and 0 until slots and plan_memory have run; there is no order of
// issue before plan_memory. Where a pass plays by a clock, all firings take as long.
//
// A file keeps to 60 lines of 120 columns (tests/layering/check_sources.py), so that one can read
// it: a case shows one thing. Errors are wrapped as graphs and plans are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/recipe.pb.h"

namespace oneflow {

struct GoldenCase {
  std::string file;
  std::string head;  // all before "-- expect --", as it stands in the file
  std::vector<std::string> passes;
  int64_t micro_batch_size = 2, positions = 1;
  proto::Recipe recipe;                            // micro_batches, schedule, ...: the other lines
  std::vector<std::string> show, names, segments;  // empty: all
  std::string graph;
  std::string expect;
};

absl::StatusOr<GoldenCase> ParseGoldenCase(const std::string& file, std::string_view text);

// What the passes make of the graph, printed; or their error.
absl::StatusOr<std::string> RunGoldenCase(const GoldenCase& golden);

// Whether its graph has a loss and variables, so that Compile makes a program "train" of it.
bool CanTrain(const GoldenCase& golden);

// Compiles the whole case and runs the tokens of each program, two steps in each of 20 drawn
// interleavings.
absl::Status RunDry(const GoldenCase& golden);

}  // namespace oneflow

// Host ops: the ops that connect a run to the outside world. They read or write the interfaces that
// RunContext gives: data, feeds, fetches, checkpoints, metrics. Scratch is allocated at load; a
// call allocates nothing itself.
//
//   load_tokens             -> ids[rows, seq]; attribute `source`, one of those below. Row r of the
//                          logical tensor is sample micro_batch * micro_batch_size + r.
//   load_counts             -> f64[parts], once a step: the labels that count in each of that many
//                          parts of the step's samples; attributes `sequence`, `documents` (bool:
//                          those of document_labels below)
//   feed, load_slice        -> x; attribute `name`: run->load fills the local piece
//   fetch, save_slice       x ->; attribute `name`: run->save takes the local piece; attribute
//                          `raw` (bool): the piece is passed as produced
//   report                  loss, (norm), (labels), (choices f64[n]) ->; scalars are f32 or f64; to
//                           run->report, as kReported... say; attribute `counted` (bool): labels
//                           are there
//
// Several devices may hold the same piece. save_slice and fetch act only if the coordinate is 0 on
// all axes of the attribute `replicated_axes` (none: everywhere); report acts only if it is 0 on
// every axis but the stage axis, because its scalars are replicated on all devices of the stage.
//
// What load_tokens writes for a token of a sample:
//
//   tokens             its id
//   labels             the id of the next token, or -1 where that does not count
//   positions          its index in its document
//   documents          the index of its document in the sample
//   document_labels    the same as labels, but -1 where the next token begins another document
//
// A document ends with the token run->end_of_text, where that is known, and before a token that
// begins one (run_context.h); the first one of a sample may be the rest of a document, and begins
// at position 0 all the same. Padding is token 0, no label, and documents by itself. Where neither
// is known of a run, a sample is one document for its positions. All are functions of the sample
// alone.
//
// With the attribute `mirrored` tokens come in the order of tensor/mirrored.h, for that many
// slices.
#pragma once

#include "absl/status/statusor.h"
#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

absl::StatusOr<Kernel> MakeLoadTokens(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeLoadCounts(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeFeed(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeFetch(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeReport(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeSaveSlice(const KernelSetup& setup);
absl::StatusOr<Kernel> MakeLoadSlice(const KernelSetup& setup);
// All of them.
KernelTable HostTable();

}  // namespace oneflow

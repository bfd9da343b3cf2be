// Compares a run with the checkpoint from which it continues.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "actor_runtime/exec/net.h"
#include "proto/graph.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "training/checkpoint/checkpoint.h"
#include "training/tokenizer/tokenizer_id.h"
#include "training/trainer/notice.h"

namespace oneflow {

// The facts on which the bits of a run depend, besides its seed; another seed is refused.
struct RunFacts {
  proto::Recipe recipe;
  proto::Optimizer optimizer;
  proto::Graph graph;
  int64_t tokens = 0;  // the training data's; 0: not known
};

RunFacts CollectFacts(const CheckpointReader& checkpoint);
RunFacts CollectFacts(const proto::Plan& plan, const proto::Optimizer& optimizer, int64_t tokens);

// The differences of `now` from `was`, a phrase for each kind: "with other numbers: --batch 8, now
// 4". Differences that change no bits are left out (choices by Row::bits; stages, initial values of
// variables, stored masks), and so are unknown facts.
std::vector<std::string> ChangesOfRun(const RunFacts& was, const RunFacts& now);

// A run that goes on with other facts is not the one that was interrupted. It may be meant, so it
// is noticed, not refused.
void WarnOfChanges(const std::string& folder, const RunFacts& was, const RunFacts& now,
                   const Notice& notice);

// The same for a new run that begins with the weights of a folder, of which `graph` is the model:
// of a folder of Hugging Face for sequences of any length.
void WarnOfGraph(const std::string& folder, const proto::Graph& graph, const proto::Plan& plan,
                 const Notice& notice);

// An error if the data of the checkpoint in `folder` was made with another tokenizer than `now`,
// which the user named at `where`. If one of the two is not known, a notice says so.
absl::Status CheckTokenizer(const std::string& folder, const TokenizerId& was,
                            const std::string& where, const TokenizerId& now, const Notice& notice);

// An error if the checkpoint in `folder` was trained on data with other weights, or of other sizes,
// than `now`. Without weights the order of data changes with their size, too: WarnOfChanges.
absl::Status CheckMixture(const std::string& folder, const MixtureParts& was,
                          const MixtureParts& now);

// What FindStepFolder finds, or a folder of Hugging Face (FindModel).
absl::StatusOr<std::string> FindWeightsFolder(const std::string& flag, const std::string& path,
                                              const Notice& notice);

// An error if the checkpoint in `folder` was trained on other records than `now`, or in another
// order: in epochs, or on records that were drawn.
absl::Status CheckRecords(const std::string& folder, const RecordsId& was, const RecordsId& now);

// True if a run goes on from a checkpoint of `dir`, as --resume says: "true", "false" or "auto", if
// there is a complete one; "auto" notices if it does not. An error where "true" finds none that is
// complete, or where `dir` is one checkpoint itself.
absl::StatusOr<bool> GoesOn(std::string_view resume, const std::string& dir, const Notice& notice);

// LatestCheckpoint; a folder of a later step that is not complete is noticed.
absl::StatusOr<std::string> CheckpointToUse(const std::string& dir, const Notice& notice);

// The folder of one step that a flag names: `path` itself, or the latest below it, chosen by
// CheckpointToUse.
absl::StatusOr<std::string> FindStepFolder(const std::string& flag, const std::string& path,
                                           const Notice& notice);

// OK if a run of the plan can go on from the checkpoint in `folder` on these ranks (empty: all):
// its variables are the plan's, and the bytes that the ranks load are those that were written.
// DATA_LOSS and NOT_FOUND mean damage.
// `base`: where the base of its graph is now; empty: where the graph says. The process of rank 0
// verifies the hash of the base, for all.
absl::Status VerifyCheckpoint(const std::string& folder, const proto::Plan& plan, RankRange ranks,
                              const std::string& base = "");

// The newest checkpoint of `dir` that verifies. `verifies` is asked about each complete one, newest
// first, until it says OK; one that it refuses with DATA_LOSS or NOT_FOUND is left, and any other
// error is returned. Checkpoints that are left, and later ones that are not complete, are noticed
// with the cause, one by one. If none verifies, the error lists them.
//
//   ASSIGN_OR_RETURN(const std::string folder, ChooseCheckpoint(dir, [&](const std::string& f) {
//                      return VerifyCheckpoint(f, plan, ranks);
//                    }, notice));
//
// Among many processes one chooses: its `verifies` asks all others to verify what they load, and
// says OK if all of them do.
absl::StatusOr<std::string> ChooseCheckpoint(
    const std::string& dir, const std::function<absl::Status(const std::string& folder)>& verifies,
    const Notice& notice = nullptr);

}  // namespace oneflow

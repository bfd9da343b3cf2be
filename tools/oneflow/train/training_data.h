// Opens the data of a run: token files as they are, and text, which it encodes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "training/data/sampled_data.h"
#include "training/data/token_mixture.h"
#include "training/tokenizer/tokenizer_files.h"
#include "training/trainer/plan_facts.h"
#include "training/trainer/training.h"

namespace oneflow {

struct DataOptions {
  // The folder of the checkpoint that the run goes on from or begins with; empty: none.
  std::string checkpoint;
  // Documents are kept apart: each text ends with the token --end_of_text_id, or else that of its
  // tokenizer, which is an error where it is not known.
  bool documents = false;
};

struct TrainingData {
  TokenMixture train, validation;  // size() of the latter is 0 where nothing is validated
  TokenizerId tokenizer;           // that made the tokens, where it is known
  std::shared_ptr<const TokenizerFiles> tokenizer_files;  // its files; null: not known, or bytes
  int32_t end_of_text = -1;  // the token that ends a document, of a plan that keeps them apart
  std::vector<std::string> warnings;  // for process 0 to print
  // How `train` and `validation` are sampled.
  SampledData train_samples, validation_samples;
  // The sources say which tokens begin a document: of data with chats, of a plan that keeps
  // documents apart.
  bool marks_documents = false;
};

// Samples of --epochs, or drawn; `batch`: of a step.
std::unique_ptr<TokenSource> TrainSource(const proto::Run& run, const TrainingData& data,
                                         int64_t batch);
// Null where nothing is validated. Of chats a pass reads each once: one of RecordsOfPass samples,
// `batch` at a time.
std::unique_ptr<TokenSource> ValidationSource(const proto::Run& run, const TrainingData& data,
                                              int64_t batch);
// 0: validation draws samples.
int64_t RecordsOfPass(const TrainingData& data);

// An input error where labels of the data do not count, and the plan does not count labels.
absl::Status CheckCountsLabels(const proto::Plan& plan, const TrainingData& data);

// Opens --data, and --eval_data or the last --eval_fraction of --data. Text is encoded by
// --tokenizer, or else by the tokenizer that the checkpoint contains, or else its bytes are the
// tokens. Errors: those of TokenMixture and TokenDataset; a tokenizer other than that of the
// tokens.
absl::StatusOr<TrainingData> OpenTrainingData(const proto::Run& run, const ModelFacts& model,
                                              const DataOptions& options);

// --data of `oneflow eval`: each file alone, of two tokens or more, whatever its weight.
struct EvaluationData {
  std::vector<TokenDataset> files;
  std::vector<std::optional<RecordSet>> records;  // of each file of chats
  std::vector<std::string> names;                 // of the files
  TokenizerId tokenizer;                          // that made the tokens, where it is known
  int32_t end_of_text = -1;                       // as of TrainingData
};
// Prints the warnings. Errors are those of OpenTrainingData.
absl::StatusOr<EvaluationData> OpenEvaluationData(const proto::Run& run, const ModelFacts& model,
                                                  const DataOptions& options);

// The training data for the trainer. The sources outlive it; `validation` may be null.
TrainerData DataOfTrainer(const proto::Run& run, const TrainingData& data, const TokenSource* train,
                          const TokenSource* validation);

}  // namespace oneflow

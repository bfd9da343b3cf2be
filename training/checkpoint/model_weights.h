// ModelWeights: the weights of a Hugging Face folder, read as they are.
//
//   ASSIGN_OR_RETURN(const auto weights, ModelWeights::Open("models/llama"));
//   weights->config().model.vocab(), weights->notes().dtype, weights->left()
//
// All headers, names and shapes are checked when it is opened. The tokenizer is loaded when it is
// asked for.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "training/checkpoint/base.h"
#include "training/hugging_face/model_config.h"
#include "training/hugging_face/model_folder.h"

namespace oneflow {

class ModelWeights : public WeightSource {
 public:
  // `path`: a folder with a config.json, or a model in a cache of the hub.
  static absl::StatusOr<std::unique_ptr<ModelWeights>> Open(const std::string& path);

  const std::string& folder() const override { return folder_.dir(); }
  const proto::Graph& graph() const override { return graph_; }
  const ModelNotes& notes() const override { return notes_; }
  const TokenizerId& tokenizer() const override;
  const std::string& no_tokenizer() const override;
  const std::shared_ptr<const TokenizerFiles>& tokenizer_files() const override;
  const std::shared_ptr<const ModelFiles>& model_files() const override { return model_files_; }

  // Its model has `next_tokens` if the folder has such a block.
  const HuggingFaceConfig& config() const { return config_; }
  // Why a folder whose config.json has further blocks is read without them; empty: it is not.
  const std::string& no_next_tokens() const { return no_next_tokens_; }
  // In the order of the graph.
  const std::vector<MappedVariable>& variables() const { return variables_; }
  // Names of what is in the folder and neither read nor carried.
  const std::vector<std::string>& left() const { return left_; }
  // The mapped variable, with as many tokens as `dims` has. Errors are those of Check.
  absl::StatusOr<MappedVariable> Find(const std::string& name, const Dims& dims) const;

  bool Has(const std::string& variable) const override;
  absl::Status Check(const proto::Variable& variable, const std::string& model) const override;
  absl::Status CheckWeights(const proto::Plan& plan) const override;
  absl::Status VerifyPieces(const proto::Plan& plan,
                            const std::vector<const proto::Variable*>& variables,
                            RankRange ranks) const override;
  absl::Status Load(const Piece& piece) const override;

 private:
  ModelWeights(HuggingFaceConfig config, ModelFolder folder)
      : config_(std::move(config)), folder_(std::move(folder)) {}
  void LoadTokenizer() const;

  const HuggingFaceConfig config_;
  const ModelFolder folder_;
  proto::Graph graph_;
  std::vector<MappedVariable> variables_;
  ModelNotes notes_;
  std::shared_ptr<const ModelFiles> model_files_;
  std::vector<std::string> left_;
  std::string no_next_tokens_;

  mutable std::once_flag tokenizer_loaded_;
  // Constant after that.
  mutable TokenizerId tokenizer_;
  mutable std::string no_tokenizer_;
  mutable std::shared_ptr<const TokenizerFiles> tokenizer_files_;
};

}  // namespace oneflow

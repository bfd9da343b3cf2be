#include "training/checkpoint/model_weights.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "training/checkpoint/convert_slice.h"
#include "training/hugging_face/beside_weights.h"
#include "training/hugging_face/find_model.h"
#include "training/hugging_face/model_graph.h"
#include "training/tokenizer/tokenizer.h"

namespace oneflow {

namespace {

absl::StatusOr<TokenizerFiles> ReadUsable(const std::string& spec) {
  ASSIGN_OR_RETURN(const Tokenizer tokenizer, LoadTokenizer(spec));
  return ReadTokenizerFiles(spec, tokenizer.id, tokenizer.stops, tokenizer.config);
}

// The same sizes, but for tokens that the files lack.
bool Fits(const MappedVariable& variable, const Dims& dims) {
  if (variable.dims == dims) return true;
  const bool counts_tokens = std::ranges::all_of(
      variable.parts, [](const MappedPart& mapped) { return mapped.part.is_vocabulary; });
  return counts_tokens && dims.size() == variable.dims.size() && !dims.empty() &&
         dims[0] >= variable.vocab &&
         std::equal(dims.begin() + 1, dims.end(), variable.dims.begin() + 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelWeights>> ModelWeights::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string dir, FindModel(path));
  ASSIGN_OR_RETURN(HuggingFaceConfig config, ReadHuggingFaceConfig(dir));
  ASSIGN_OR_RETURN(ModelFolder folder, ModelFolder::Open(dir));
  ASSIGN_OR_RETURN(std::string no_next_tokens, FindNextTokens(folder, &config));
  std::unique_ptr<ModelWeights> weights(new ModelWeights(std::move(config), std::move(folder)));
  weights->no_next_tokens_ = std::move(no_next_tokens);
  ASSIGN_OR_RETURN(weights->graph_, BuildModelGraph(weights->config_, {}));
  ASSIGN_OR_RETURN(weights->variables_,
                   MapModel(weights->folder_, weights->config_, weights->graph_));
  weights->notes_ = MakeNotes(weights->config_, weights->variables_);
  ASSIGN_OR_RETURN(BesideWeights beside, ReadBesideWeights(weights->folder_));
  weights->model_files_ = std::make_shared<const ModelFiles>(std::move(beside.files));
  weights->left_ = std::move(beside.left);
  for (std::string& part : ListOtherParts(weights->folder_, FindFiles(weights->config_),
                                          FindOtherParts(weights->config_))) {
    weights->left_.push_back(std::move(part));
  }
  return weights;
}

void ModelWeights::LoadTokenizer() const {
  std::call_once(tokenizer_loaded_, [this] {
    const std::string spec = TokenizerSpecIn(folder());
    if (spec.empty()) return;
    absl::StatusOr<TokenizerFiles> files = ReadUsable(spec);
    if (!files.ok()) {
      no_tokenizer_ = std::string(files.status().message());
      return;
    }
    for (const int64_t end : config_.end_ids) {
      const auto id = static_cast<int32_t>(end);
      std::vector<int32_t>& stops = files->stops;
      if (std::find(stops.begin(), stops.end(), id) == stops.end()) stops.push_back(id);
    }
    tokenizer_ = files->id;
    tokenizer_files_ = std::make_shared<const TokenizerFiles>(*std::move(files));
  });
}

const TokenizerId& ModelWeights::tokenizer() const {
  LoadTokenizer();
  return tokenizer_;
}

const std::string& ModelWeights::no_tokenizer() const {
  LoadTokenizer();
  return no_tokenizer_;
}

const std::shared_ptr<const TokenizerFiles>& ModelWeights::tokenizer_files() const {
  LoadTokenizer();
  return tokenizer_files_;
}

bool ModelWeights::Has(const std::string& variable) const {
  return std::ranges::any_of(variables_,
                             [&](const MappedVariable& v) { return v.name == variable; });
}

absl::StatusOr<MappedVariable> ModelWeights::Find(const std::string& name, const Dims& dims) const {
  for (const MappedVariable& variable : variables_) {
    if (variable.name != name) continue;
    if (!Fits(variable, dims)) {
      return InputError(
          folder(),
          absl::StrCat("holds another model: variable ", name, " is ", ToString(variable.dims),
                       " there, ", ToString(dims), " in the plan"),
          "use the folder of the same model");
    }
    MappedVariable found = variable;
    found.dims = dims;
    return found;
  }
  return InputError(
      folder(), absl::StrCat("holds another model: it has no variable ", name, " ", ToString(dims)),
      "use the folder of the same model");
}

absl::Status ModelWeights::Check(const proto::Variable& variable, const std::string&) const {
  ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(variable.dtype(), variable.name()));
  RETURN_IF_ERROR(CheckConverts(variable.name(), dtype));
  return Find(variable.name(), Dims(variable.layout().dim().begin(), variable.layout().dim().end()))
      .status();
}

absl::Status ModelWeights::CheckWeights(const proto::Plan& plan) const {
  return CheckGraphVariables(
      plan, [&](const proto::Variable& variable) { return Check(variable, plan.model()); });
}

// Their hash is that of all bytes.
absl::Status ModelWeights::VerifyPieces(const proto::Plan&,
                                        const std::vector<const proto::Variable*>&,
                                        RankRange) const {
  return absl::OkStatus();
}

absl::Status ModelWeights::Load(const Piece& piece) const {
  ASSIGN_OR_RETURN(const MappedVariable variable, Find(*piece.name, *piece.dims));
  return FillConverted(piece, DType::kF32, [&](const Slice& slice, std::byte* data) {
    const auto count = static_cast<size_t>(slice.elements());
    return ReadSlice(variable, slice, {reinterpret_cast<float*>(data), count});
  });
}

}  // namespace oneflow

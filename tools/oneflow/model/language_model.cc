#include "tools/oneflow/model/language_model.h"

#include <algorithm>

#include "compiler/passes/passes.h"
#include "compiler/programs.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// The piece's rows of tokens, all alike; what is left of a row is padding.
void FillTokens(const Piece& piece, std::span<const int32_t> tokens) {
  const int64_t rows = piece.slice->size[0], width = piece.slice->size[1];
  auto* ids = reinterpret_cast<int32_t*>(piece.data);
  std::fill_n(ids, rows * width, 0);
  for (int64_t r = 0; r < rows; ++r) std::copy(tokens.begin(), tokens.end(), ids + r * width);
}

// The part of logits[0, position, :] that the piece holds.
absl::Status TakeLogits(const Piece& piece, int64_t position, std::span<float> logits) {
  if (piece.dtype != DType::kF32) {
    return InputError(*piece.name, "is not f32", "generate from a model with f32 logits");
  }
  const Dims &begin = piece.slice->begin, &size = piece.slice->size;
  const int64_t row = position - begin[1];
  if (begin[0] > 0 || size[0] == 0 || row < 0 || row >= size[1]) return absl::OkStatus();
  const auto* values = reinterpret_cast<const float*>(piece.data);
  std::copy_n(values + row * size[2], size[2], logits.begin() + begin[2]);
  return absl::OkStatus();
}

}  // namespace

int64_t WindowBegin(int64_t tokens, int64_t sequence) {
  const int64_t jump = std::max<int64_t>(1, sequence / 2);
  return tokens <= sequence ? 0 : (tokens - sequence + jump - 1) / jump * jump;
}

LanguageModel::LanguageModel(Runtime& runtime, const ModelFacts& facts)
    : runtime_(runtime), facts_(facts), logits_(facts.vocab) {}

absl::StatusOr<std::span<const float>> LanguageModel::Next(std::span<const int32_t> tokens) {
  const auto n = static_cast<int64_t>(tokens.size());
  const int64_t begin = WindowBegin(n, facts_.sequence);
  if (begin != begin_) begin_ = fed_ = begin;
  const int64_t most = std::min(kPrefillPositions, facts_.sequence);
  while (fed_ < n) {
    const int64_t count = std::min(most, n - fed_);
    RETURN_IF_ERROR(Feed(count == 1 ? "decode" : "prefill", tokens.subspan(fed_, count)));
    fed_ += count;
  }
  return logits_;
}

absl::Status LanguageModel::Feed(const std::string& program, std::span<const int32_t> tokens) {
  RunContext context;
  context.load = [&](const Piece& piece) {
    if (*piece.name == kPositionInput) {
      *reinterpret_cast<int32_t*>(piece.data) = static_cast<int32_t>(fed_ - begin_);
    } else {
      FillTokens(piece, tokens);
    }
    return absl::OkStatus();
  };
  context.save = [&](const Piece& piece) {
    return TakeLogits(piece, static_cast<int64_t>(tokens.size()) - 1, logits_);
  };
  return runtime_.Run(program, context, 1);
}

}  // namespace oneflow

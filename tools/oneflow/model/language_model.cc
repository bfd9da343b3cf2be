#include "tools/oneflow/model/language_model.h"

#include <algorithm>

#include "compiler/passes/passes.h"
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

const Prefill* NextPrefill(std::span<const Prefill> prefills, int64_t left) {
  constexpr int64_t kFew = 2;
  if (left <= kFew) return nullptr;
  const Prefill* best = &prefills.back();
  for (const Prefill& prefill : prefills) {
    if (prefill.positions <= left) {
      best = prefill.positions > best->positions ? &prefill : best;
    } else if (4 * left >= 3 * prefill.positions) {
      best = &prefill;
    }
  }
  return best;
}

LanguageModel::LanguageModel(Runtime& runtime, const ModelFacts& facts)
    : runtime_(runtime),
      facts_(facts),
      prefills_(FindPrefills(facts.sequence)),
      logits_(facts.vocab) {}

absl::StatusOr<std::span<const float>> LanguageModel::Next(std::span<const int32_t> tokens) {
  const auto n = static_cast<int64_t>(tokens.size());
  const int64_t begin = WindowBegin(n, facts_.sequence);
  if (begin != begin_) begin_ = fed_ = begin;
  if (fed_ == n) return logits_;
  RETURN_IF_ERROR(FillCaches(tokens.first(n - 1)));
  RETURN_IF_ERROR(Feed("decode", tokens.subspan(fed_, n - fed_)));
  fed_ = n;
  return logits_;
}

absl::Status LanguageModel::FillCaches(std::span<const int32_t> tokens) {
  const auto n = static_cast<int64_t>(tokens.size());
  while (fed_ < n) {
    const Prefill* prefill = NextPrefill(prefills_, n - fed_);
    const int64_t count = std::min(prefill == nullptr ? 1 : prefill->positions, n - fed_);
    RETURN_IF_ERROR(
        Feed(prefill == nullptr ? "decode" : prefill->program, tokens.subspan(fed_, count)));
    fed_ += count;
  }
  return absl::OkStatus();
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

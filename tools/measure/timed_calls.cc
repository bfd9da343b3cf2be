#include "tools/measure/timed_calls.h"

#include <cstdint>

namespace oneflow {
namespace {

// y = x w, dx = dy w', dw = x' dy.
void AddProducts(int64_t rows, int64_t in, int64_t out, DType t, std::vector<TimedOp>* calls) {
  const TimedInput x{{rows, in}, t}, w{{in, out}, t}, dy{{rows, out}, t};
  calls->push_back({"linear", {x, w}, {}});
  if (t == DType::kF32) calls->push_back({"linear_add", {x, w, dy}, {}});
  calls->push_back({"linear_gelu", {x, w}, {}});
  calls->push_back({"linear_grad_input", {dy, w}, {}});
  calls->push_back({"linear_gelu_grad_input", {dy, w, x}, {}});
  calls->push_back({"linear_grad_weight", {x, dy}, {{"lead", int64_t{1}}}});
}

// Ops of a block other than products and attention, on `rows` tokens of `hidden`.
void AddBlock(int64_t rows, int64_t hidden, DType t, std::vector<TimedOp>* calls) {
  const TimedInput x{{rows, hidden}, t}, wide{{rows, 4 * hidden}, t};
  const TimedInput gamma{{hidden}}, statistic{{rows}};
  const AttrMap lead = {{"lead", int64_t{1}}};
  calls->push_back({"add", {x, x}, {}});
  calls->push_back({"add_n", {x, x}, {}});
  calls->push_back({"add_bias", {x, gamma}, {}});
  calls->push_back({"gelu", {wide}, {}});
  calls->push_back({"gelu_grad", {wide, wide}, {}});
  calls->push_back({"layer_norm", {x, gamma, gamma}, {}});
  calls->push_back({"layer_norm_grad_input", {x, x, gamma, statistic, statistic}, {}});
  calls->push_back({"layer_norm_grad_weight", {x, x, statistic, statistic}, {}});
  calls->push_back({"linear_grad_bias", {x}, lead});
  calls->push_back({"linear_grad_bias", {wide}, lead});
}

void AddAttention(const Dims& out, DType t, std::vector<TimedOp>* calls) {
  const int64_t batch = out[0], positions = out[1], heads = out[2], d = out[3];
  const TimedInput qkv{{batch, positions, 3, heads, d}, t}, y{out, t};
  const TimedInput lse{{batch, heads, positions}};
  calls->push_back({"causal_attention", {qkv}, {}});
  calls->push_back({"causal_attention_grad", {y, qkv, y, lse}, {}});
}

void AddLoss(int64_t rows, int64_t vocab, DType t, std::vector<TimedOp>* calls) {
  const TimedInput logits{{rows, vocab}, t}, labels{{rows}, DType::kI32}, statistic{{rows}};
  calls->push_back({"row_max", {logits}, {}});
  calls->push_back({"row_sum_exp", {logits, statistic}, {}});
  calls->push_back({"cross_entropy_grad",
                    {logits, labels, statistic, statistic, {{}}},
                    {{"scale", 1.0 / static_cast<double>(rows)}}});
}

// Ops that are f32 in any precision: tables, gradients, the optimizer; and copies.
void AddUpdates(int64_t rows, int64_t columns, std::vector<TimedOp>* calls) {
  const TimedInput w{{rows, columns}}, norm{{}, DType::kF64};
  calls->push_back({"sum_squares", {w}, {}});
  calls->push_back({"adamw", {w, w, w, w, norm}, {{"decay", true}}});
  calls->push_back({"slice", {w}, {}});
  calls->push_back({"cast", {w}, {{"dtype", std::string("bf16")}}});
}

void AddTables(int64_t tokens, int64_t vocab, int64_t hidden, std::vector<TimedOp>* calls) {
  const TimedInput ids{{tokens}, DType::kI32}, x{{tokens, hidden}}, table{{vocab, hidden}};
  calls->push_back({"embedding", {table, ids}, {}});
  calls->push_back({"embedding_grad", {ids, x}, {{"vocab", vocab}}});
  const TimedInput sequences{{tokens / 64, 64, hidden}}, positions{{64, hidden}};
  calls->push_back({"positional_embedding", {sequences, positions}, {}});
  calls->push_back({"positional_embedding_grad", {sequences}, {{"length", int64_t{64}}}});
}

}  // namespace

std::vector<TimedOp> CallsToTime() {
  std::vector<TimedOp> calls;
  for (const DType t : {DType::kF32, DType::kBF16}) {
    AddProducts(512, 768, 3072, t, &calls);
    AddProducts(512, 3072, 768, t, &calls);
    AddProducts(256, 512, 4096, t, &calls);
    AddProducts(512, 256, 1024, t, &calls);
    AddProducts(256, 128, 384, t, &calls);
    AddProducts(64, 64, 64, t, &calls);
    AddBlock(1024, 768, t, &calls);
    AddBlock(512, 256, t, &calls);
    AddBlock(64, 64, t, &calls);
    AddAttention({4, 256, 12, 64}, t, &calls);
    AddAttention({2, 64, 4, 32}, t, &calls);
    AddLoss(1024, 8192, t, &calls);
    AddLoss(256, 256, t, &calls);
  }
  AddUpdates(3072, 768, &calls);
  AddUpdates(256, 256, &calls);
  AddTables(1024, 8192, 768, &calls);
  AddTables(256, 256, 128, &calls);
  return calls;
}

}  // namespace oneflow

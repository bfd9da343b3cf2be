// The batch and the length of sequences of a question that says none.
//
//   FindUsualSequence(131072)                                  -> 4096
//   FindUsualBatch(8.03e9, 8192, 64)                           -> 512, about 4M tokens
#pragma once

#include <cstdint>
#include <string>

namespace oneflow {

// The model's positions where they are at most kMostUsual, else 4,096: models of longer ones are
// trained on short sequences first, and are extended at the end. 0: not known, and so is the
// answer.
int64_t FindUsualSequence(int64_t positions);

// Sequences of a step, as published pretrainings have them: about
//
//   0.5M tokens up to 1 billion parameters, 1M up to 4 billion (GPT-3's table 2.1), and 4M beyond
//   (Llama 2, Llama 3, GPT-3 175B: 3.2M)
//
// but no more than 64k tokens of a device, beyond which a step only takes longer, and a sequence
// for each device, unless that is more than 16M tokens (Llama 3 405B): RoundBatch divides it so
// that devices share it evenly.
int64_t FindUsualBatch(double parameters, int64_t sequence, int64_t devices);
// "about 4M tokens", of that batch.
std::string UsualBatchText(int64_t batch, int64_t sequence);

// The number of sequences near so many tokens that devices divide, or a half, a quarter, ... of
// them where that is nearer than a sixteenth; at least 1.
int64_t RoundBatch(int64_t tokens, int64_t sequence, int64_t devices);

}  // namespace oneflow

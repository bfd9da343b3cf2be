// Parts of the reader of Megatron-Bridge and NeMo: places of their files as Megatron's keys, and
// defaults of their classes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/foreign/read/facts.h"
#include "tools/foreign/read/settings.h"
#include "tools/foreign/read/sources.h"

namespace oneflow::foreign {

enum class BridgeKind { kBridge, kNemo1, kNemo2 };

// Megatron's key for a place: "model.num_layers" is "num_layers", NeMo's "trainer.max_steps" is
// "train_iters". A place without such a key stays as it is. `rank`: of places with one key, that
// of the highest rank decides.
struct BridgeKey {
  std::string key;
  int rank = 0;
};
BridgeKey KeyOfBridgePlace(BridgeKind kind, std::string_view location);

// Lists of the keys that no reader asks for, behind Megatron's own.
std::span<const ListedKeys> BridgeLists();

// What a class of models sets, as words "key=value": "Llama3ModelProvider70B" of Bridge and
// "Llama3Config70B" of NeMo 2 say the same. "" if the class is not known.
std::string BridgeClassDefaults(std::string_view target);

// True for words such as "train.global_batch_size=128", "+model.x=1", "~model.y".
bool IsBridgeOverride(std::string_view word);
// The setting of such a word: lists and null are values.
Setting ParseBridgeOverride(const Word& word);

// Replaces "${model.encoder_seq_length}", "${.num_layers}", "${multiply:a,b}" and "${sum:a,b}" by
// what they name. What cannot be resolved stays, and is put into `unread`.
void ResolveInterpolations(Settings* locations, std::vector<std::string>* unread);

}  // namespace oneflow::foreign

// What types of decoders in config.json share: keys of sizes, of rotary positions and of layers.
// Internal to this folder. A mistake is kept in the fields' status.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "proto/recipe.pb.h"
#include "training/hugging_face/config_fields.h"

namespace oneflow {

// Layers, widths, heads, positions, the epsilon of norms and whether the head is tied.
void ReadSizes(ConfigFields& fields, proto::Model& model);
// Sets biases of queries, keys, values and of the output of attention.
void ReadAttentionBias(ConfigFields& fields, proto::Model& model);
// The number of experts, under this key or "num_local_experts", and of a token's choices.
void ReadMixtureSizes(ConfigFields& fields, const char* experts, proto::Model& model);
// The numbers of a block without experts, among such that have them.
void SetDense(int64_t inner, proto::Model& own);
// Those of the first block with experts; `model` itself where none has.
proto::Model FindMixture(const proto::Model& model);

// A scaling of a type ("llama3", "linear", "yarn"), in an object of "rope_scaling" or the like.
// False: it is of another type. `positions`: the model's.
bool ReadRopeScaling(ConfigFields& rope, const std::string& type, int64_t positions,
                     proto::RopeScaling& scaling);
// Theta and scaling of rotary positions: "rope_theta", and "rope_scaling" or "rope_parameters" or
// both, if they say the same. `theta`: where none is given. `entry`: of models whose layers with
// and without a window have their own, which are entries of "rope_parameters"; the others' are
// read.
void ReadRotary(ConfigFields& fields, double theta, proto::Model& model,
                const char* entry = nullptr);
// The entry of layers with a window, beside `theta_key` ("": no key); false where there is none.
bool ReadWindowRotary(ConfigFields& fields, const char* theta_key, double theta,
                      proto::Model& model);
// The object of "rope_scaling"; null without scaling.
nlohmann::ordered_json RopeScalingJson(const proto::RopeScaling& scaling);
// The object of "rope_parameters" of layers without a window, and with one.
nlohmann::ordered_json RopeParametersJson(const proto::Model& full, const proto::Model& local);

// Changes, in a list of all layers, which of them have a window to what "layer_types" says, if it
// is there; false: it is not.
bool ReadLayerTypes(ConfigFields& fields, std::vector<bool>& windows);
// Their "sliding_window"; 0 where no layer has one.
int64_t ReadWindowSize(ConfigFields& fields, const std::vector<bool>& windows);
// "layer_types" of a model.
nlohmann::ordered_json LayerTypesJson(const proto::Model& model);

// The keys of ReadSizes and ReadRotary, for blocks that have the same rotary positions.
void WriteSizes(const proto::Model& model, nlohmann::ordered_json& json);
void WriteRotary(const proto::Model& numbers, nlohmann::ordered_json& json);
// Adds "layer_types" and, if a layer has a window, "sliding_window".
void WriteWindows(const proto::Model& model, nlohmann::ordered_json& json);
// A window, or null.
nlohmann::ordered_json WindowJson(int64_t window);

}  // namespace oneflow

// The frequencies of rotary position embeddings, for the kernels of any device.
//
//   const std::vector<float> f = RotaryFrequencies(setup);   // of a "rotary", for d = 128: 64
//   float angle = static_cast<float>(position) * f[j];       // of the pair j, in f32
//
// They are theta^(-2 j / d), 2 j < d, where d is `rotated`, or all of a head, scaled as the
// attribute `scaling` says:
//   "linear"  divided by scale_factor
//   "yarn"    divided by it from the pair on that turns low_frequency_factor times over
//             original_positions, kept up to the one that turns high_frequency_factor times, and on
//             a linear ramp between, whose ends are rounded to pairs unless `exact`
//   absent    as in Llama 3.1, if there is a scale_factor: wavelengths of more than
//             original_positions / low_frequency_factor are multiplied by it, those of less than
//             original_positions / high_frequency_factor are kept, those between are interpolated
// Every step is rounded to f32, in the order of Hugging Face's transformers, so that a checkpoint
// meets the angles that it was trained with. Internal to kernel/ and cuda/kernel/.
#pragma once

#include <vector>

#include "actor_runtime/kernel/kernel.h"

namespace oneflow {

std::vector<float> RotaryFrequencies(const KernelSetup& s);

}  // namespace oneflow
